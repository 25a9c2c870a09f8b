"""A section of `holdfast` in the user's own configuration, read when a process starts or when it is applied.

Invariants
- Only the user's own files count; a project cannot set it.
- A setting that is there and cannot be used is an error: nothing is done by settings that were half understood."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.config import FILE_LIMIT, INLINE
from holdfast.core.config.discovery import CandidateFile, discover
from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.reading import ConfigLocation, DocumentReader
from holdfast.core.config.trust import TRUST_NOTHING
from holdfast.core.permission.project_reads import READ_DEFAULTS
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.config.document import Document

_NOWHERE = Path("/")


class UnusableSetting(HoldfastError):
    """A setting of the user's configuration, or of the environment, that cannot be used."""

    def __init__(self, place: Path | str, setting: str, reason: str) -> None:
        super().__init__(f"{place}: {setting} cannot be used: {reason}")


class WrittenSection(Frozen):
    """What one file says."""

    path: Path
    values: dict[str, Any]


def user_section(environment: Mapping[str, str], name: str, known: Sequence[str] = ()) -> dict[str, Any]:
    """What the user's files say, later ones before earlier ones. `known` are the settings of the section, for the
    message about another one. Raises UnusableSetting."""
    found: dict[str, Any] = {}
    for section in written_sections(environment, name, known):
        found |= section.values
    return found


def written_sections(environment: Mapping[str, str], name: str, known: Sequence[str] = ()) -> Iterator[WrittenSection]:
    """The same by files. Raises UnusableSetting."""
    for path, text in user_texts(environment):
        if name in text or "\\u" in text:
            yield WrittenSection(path, _values(path, text, name, known, environment))


def user_texts(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """The documents of the user that can be read, earlier ones first."""
    for candidate in discover(_NOWHERE, _NOWHERE / "no-project", environment):
        if isinstance(candidate, CandidateFile) and candidate.origin == "user":
            text = candidate.read(FILE_LIMIT)
            if isinstance(text, str):
                yield candidate.path, text
    if inline := environment.get(INLINE):
        yield Path(INLINE), inline


def parsed(path: Path, text: str, environment: Mapping[str, str]) -> tuple[Document | None, list[str]]:
    """A document of the user, and its problems below `holdfast`."""
    location = ConfigLocation(_NOWHERE, _NOWHERE, environment)
    reader = DocumentReader(path, path.parent, "user", location, TRUST_NOTHING, READ_DEFAULTS)
    document = reader.parse(text)
    return document, [problem.message for problem in reader.problems() if "holdfast" in problem.message]


def _values(path: Path, text: str, name: str, known: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    setting = f"holdfast.{name}"
    try:
        raw, _ = decode(text)
    except InvalidJson as error:
        raise UnusableSetting(path, setting, f"the file mentions it, and {error}") from None
    written = _section(raw, name)
    if written is None:
        return {}
    document, problems = parsed(path, text, environment)
    reasons = "; ".join(problems) or "it has no value"
    if not isinstance(written, dict):
        raise UnusableSetting(path, setting, reasons)
    for key in written:
        if known and key not in known:
            raise UnusableSetting(path, f"{setting}.{key}", f"there is no such setting; there are {', '.join(known)}")
    values = _section(document.data, name) if document is not None else None
    values = values if isinstance(values, dict) else {}  # a wrong value makes the whole of `holdfast` unusable
    missing = [key for key, value in written.items() if value is not None and values.get(key) is None]
    if missing:
        wrong = next((key for key in missing if any(f"{name}.{key}" in problem for problem in problems)), missing[0])
        raise UnusableSetting(path, f"{setting}.{wrong}", reasons)
    if any(setting in problem for problem in problems):  # inside a value
        raise UnusableSetting(path, setting, reasons)
    return {key: value for key, value in values.items() if value is not None}


def _section(document: Any, name: str) -> Any:
    own = document.get("holdfast") if isinstance(document, dict) else None
    return own.get(name) if isinstance(own, dict) else None
