"""A section of `holdfast` in the user's own configuration, read when a process starts. A project cannot set it.

A setting that is there and cannot be used is an error, as it is for the address of the database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.reading import ConfigLocation, DocumentReader
from holdfast.core.config.storage import user_texts
from holdfast.core.config.trust import TRUST_NOTHING
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOWHERE = Path("/")


class UnusableSetting(HoldfastError):
    """A setting of the user's configuration, or of the environment, that cannot be used."""

    def __init__(self, place: str, setting: str, reason: str) -> None:
        super().__init__(f"{place}: {setting} cannot be used: {reason}")


def user_section(environment: Mapping[str, str], name: str) -> dict[str, Any]:
    """What the user's files say, later ones before earlier ones. Raises UnusableSetting."""
    found: dict[str, Any] = {}
    for path, text in user_texts(environment):
        if name not in text and "\\u" not in text:
            continue
        try:
            raw, _ = decode(text)
        except InvalidJson as error:
            raise UnusableSetting(str(path), f"holdfast.{name}", f"the file mentions it, and {error}") from None
        written = _section(raw, name)
        if not written:
            continue
        reader = DocumentReader(
            path, path.parent, "user", ConfigLocation(_NOWHERE, _NOWHERE, environment), TRUST_NOTHING
        )
        document = reader.parse(text)
        values = _section(document.data, name) if document is not None else {}
        for key, value in written.items():
            if value is not None and values.get(key) is None:
                reasons = "; ".join(problem.message for problem in reader.problems() if "holdfast" in problem.message)
                raise UnusableSetting(str(path), f"holdfast.{name}.{key}", reasons or "it has no value")
        found |= {key: value for key, value in values.items() if value is not None}
    return found


def _section(document: Any, name: str) -> dict[str, Any]:
    own = document.get("holdfast") if isinstance(document, dict) else None
    section = own.get(name) if isinstance(own, dict) else None
    return section if isinstance(section, dict) else {}
