"""The place of the database in the user's configuration, read before anything is opened.

Invariants
- Only the user's own files and the host's document count; a project can never choose where Sessions are stored.
- A setting that is there and cannot be used is an error: Sessions must not be stored elsewhere unnoticed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.config import FILE_LIMIT, INLINE
from holdfast.core.config.discovery import CandidateFile, discover
from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.reading import ConfigLocation, DocumentReader
from holdfast.core.config.trust import TRUST_NOTHING
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SECTION, URL = "storage", "url"
SETTING = f"holdfast.{SECTION}.{URL}"
_NOWHERE = Path("/")


class UnusableStorageSetting(HoldfastError):
    """The configuration describes the storage in a way that cannot be used."""

    def __init__(self, path: Path, reason: str, setting: str = SETTING) -> None:
        super().__init__(f"{path}: {setting} cannot be used: {reason}")
        self.path = path


def configured_storage(environment: Mapping[str, str], managed: Mapping[str, Any] | None = None) -> str | None:
    """The value that counts. `managed` is the document of the host program, which comes before all files."""
    found: str | None = None
    for path, text in user_texts(environment):
        if SECTION in text or "\\u" in text:
            found = _url(path, text, environment) or found
    if managed is not None and (given := _written(managed)) is not None:
        if not isinstance(given, str):
            raise UnusableStorageSetting(Path("host program"), "it is no text")
        return given
    return found


def user_texts(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for candidate in discover(_NOWHERE, _NOWHERE / "no-project", environment):
        if isinstance(candidate, CandidateFile) and candidate.origin == "user":
            text = candidate.read(FILE_LIMIT)
            if isinstance(text, str):
                yield candidate.path, text
    if inline := environment.get(INLINE):
        yield Path(INLINE), inline


def _url(path: Path, text: str, environment: Mapping[str, str]) -> str | None:
    try:
        value, _ = decode(text)
    except InvalidJson as error:
        raise UnusableStorageSetting(path, f"the file mentions it, and {error}") from None
    if not isinstance(value, dict) or _written(value) is None:
        return None
    location = ConfigLocation(_NOWHERE, _NOWHERE, environment)
    reader = DocumentReader(path, path.parent, "user", location, TRUST_NOTHING)
    document = reader.parse(text)
    found = _written(document.data) if document is not None else None
    if isinstance(found, str) and found:
        return found
    reasons = "; ".join(problem.message for problem in reader.problems() if "holdfast" in problem.message)
    raise UnusableStorageSetting(path, reasons or "it has no value")


def _written(document: Mapping[str, Any]) -> Any:
    section = document.get("holdfast")
    storage = section.get(SECTION) if isinstance(section, dict) else None
    return storage.get(URL) if isinstance(storage, dict) else storage
