"""How the user's configuration describes this machine among those on the database: `holdfast.storage`, read at start.

A setting that is there and cannot be used is an error, as it is for the address of the database."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.environment import user_path
from holdfast.core.config.jsonc import InvalidJson, decode
from holdfast.core.config.reading import ConfigLocation, DocumentReader
from holdfast.core.config.storage import SECTION, UnusableStorageSetting, user_texts
from holdfast.core.config.trust import TRUST_NOTHING
from holdfast.core.session.roots import usable_roots
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET_FILE = "HOLDFAST_NODE_SECRET_FILE"
FIELDS = ("roots", "name", "address", "secret_file")
NAME_LIMIT = 100
_NOWHERE = Path("/")
_ADDRESS = pattern(r"https?://[^/?#@\s*,]+/?", re.IGNORECASE)


class NodeSettings(Frozen):
    roots: tuple[str, ...] | None = None
    name: str | None = None
    address: str | None = None
    secret_file: Path | None = None


def is_node_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None


def configured_node(environment: Mapping[str, str]) -> NodeSettings:
    """What the user's files say, later ones before earlier ones. Raises UnusableStorageSetting."""
    found: dict[str, Any] = {}
    for path, text in user_texts(environment):
        if SECTION in text or "\\u" in text:
            found |= {
                name: _usable(path, name, value, environment) for name, value in _written(path, text, environment)
            }
    if given := environment.get(SECRET_FILE):
        found["secret_file"] = Path(given)
    return NodeSettings(**found)


def _written(path: Path, text: str, environment: Mapping[str, str]) -> list[tuple[str, Any]]:
    try:
        raw, _ = decode(text)
    except InvalidJson:
        return []  # the address of the database is looked for in the same files, and reports it
    if not (named := [name for name in FIELDS if _section(raw).get(name) is not None]):
        return []
    reader = DocumentReader(path, path.parent, "user", ConfigLocation(_NOWHERE, _NOWHERE, environment), TRUST_NOTHING)
    document = reader.parse(text)
    values = _section(document.data) if document is not None else {}
    for name in named:
        if values.get(name) is None:
            reasons = "; ".join(problem.message for problem in reader.problems() if "holdfast" in problem.message)
            raise UnusableStorageSetting(path, reasons or "it has no value", f"holdfast.{SECTION}.{name}")
    return [(name, values[name]) for name in named]


def _section(document: Any) -> dict[str, Any]:
    own = document.get("holdfast") if isinstance(document, dict) else None
    storage = own.get(SECTION) if isinstance(own, dict) else None
    return storage if isinstance(storage, dict) else {}


def _usable(path: Path, name: str, value: Any, environment: Mapping[str, str]) -> Any:
    def refused(reason: str) -> UnusableStorageSetting:
        return UnusableStorageSetting(path, reason, f"holdfast.{SECTION}.{name}")

    match name:
        case "roots":
            if not value:
                raise refused("the list is empty, and no Session would be executed; leave it out to execute all")
            try:
                return usable_roots(value, expand=lambda root: user_path(root, environment))
            except ValueError as error:
                raise refused(str(error)) from None
        case "name" if not value.strip() or len(value) > NAME_LIMIT or not value.isprintable():
            raise refused(f"a name has 1 to {NAME_LIMIT} printable characters")
        case "address":
            if not is_node_address(value):
                raise refused("expected scheme, host and port, as in http://10.0.0.5:4096")
            return value.rstrip("/")
        case "secret_file":
            return path.parent / user_path(value, environment)
    return value
