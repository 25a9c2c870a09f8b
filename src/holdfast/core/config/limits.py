"""What a server takes: `holdfast.limits` of the user's configuration, read at start.

A project cannot change it, and a setting that is there and cannot be used is an error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.reading import ConfigLocation, DocumentReader
from holdfast.core.config.storage import UnusableStorageSetting, user_texts
from holdfast.core.config.trust import TRUST_NOTHING
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTION = "limits"
MEBIBYTE = 1024 * 1024
_NOWHERE = Path("/")


class ServerLimits(Frozen):
    """Sizes in bytes. None: without a limit."""

    sessions: int | None = None
    drains: int | None = None
    pending_inputs: int = 10_000
    followers: int = 5_000
    requests_per_second: float = 100.0
    burst: int = 1_000
    body_bytes: int = 32 * MEBIBYTE
    disk_floor_bytes: int = 100 * MEBIBYTE


def configured_limits(environment: Mapping[str, str]) -> ServerLimits:
    """What the user's files say, later ones before earlier ones. Raises UnusableStorageSetting."""
    found: dict[str, Any] = {}
    for path, text in user_texts(environment):
        if SECTION in text or "\\u" in text:
            found |= _written(path, text, environment)
    return ServerLimits(**found)


def _written(path: Path, text: str, environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        raw, _ = decode(text)
    except InvalidJson:
        return {}  # the address of the database is looked for in the same files, and reports it
    named = [name for name, value in _section(raw).items() if value is not None]
    if not named:
        return {}
    reader = DocumentReader(path, path.parent, "user", ConfigLocation(_NOWHERE, _NOWHERE, environment), TRUST_NOTHING)
    document = reader.parse(text)
    values = _section(document.data) if document is not None else {}
    for name in named:
        if name not in ServerLimits.__struct_fields__:
            known = ", ".join(ServerLimits.__struct_fields__)
            raise UnusableStorageSetting(
                path, f"there is no such limit; there are {known}", f"holdfast.{SECTION}.{name}"
            )
        if values.get(name) is None:
            reasons = "; ".join(problem.message for problem in reader.problems() if "holdfast" in problem.message)
            raise UnusableStorageSetting(path, reasons or "it has no value", f"holdfast.{SECTION}.{name}")
    return {name: values[name] for name in named}


def _section(document: Any) -> dict[str, Any]:
    own = document.get("holdfast") if isinstance(document, dict) else None
    limits = own.get(SECTION) if isinstance(own, dict) else None
    return limits if isinstance(limits, dict) else {}
