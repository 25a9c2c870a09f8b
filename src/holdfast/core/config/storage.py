"""The place of the database in the user's configuration, read before anything is opened.

Invariants
- Only the user's own files and the host's document count; a project can never choose where Sessions are stored.
- A setting that is there and cannot be used is an error: Sessions must not be stored elsewhere unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.user_settings import UnusableSetting, parsed, user_texts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SECTION, URL = "storage", "url"
SETTING = f"holdfast.{SECTION}.{URL}"


def configured_storage(environment: Mapping[str, str], managed: Mapping[str, Any] | None = None) -> str | None:
    """The value that counts. `managed` is the document of the host program, which comes before all files."""
    found: str | None = None
    for path, text in user_texts(environment):
        if SECTION in text or "\\u" in text:
            found = _url(path, text, environment) or found
    if managed is not None and (given := _written(managed)) is not None:
        if not isinstance(given, str):
            raise UnusableSetting("host program", SETTING, "it is no text")
        return given
    return found


def _url(path: Path, text: str, environment: Mapping[str, str]) -> str | None:
    try:
        value, _ = decode(text)
    except InvalidJson as error:
        raise UnusableSetting(path, SETTING, f"the file mentions it, and {error}") from None
    if not isinstance(value, dict) or _written(value) is None:
        return None
    document, problems = parsed(path, text, environment)
    found = _written(document.data) if document is not None else None
    if isinstance(found, str) and found:
        return found
    raise UnusableSetting(path, SETTING, "; ".join(problems) or "it has no value")


def _written(document: Mapping[str, Any]) -> Any:
    section = document.get("holdfast")
    storage = section.get(SECTION) if isinstance(section, dict) else None
    return storage.get(URL) if isinstance(storage, dict) else storage
