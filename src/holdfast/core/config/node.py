"""How the user's configuration describes this machine among those on the database: `holdfast.storage`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.config.environment import user_path
from holdfast.core.config.storage import SECTION
from holdfast.core.config.user_settings import UnusableSetting, written_sections
from holdfast.core.session.roots import usable_roots
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET_FILE = "HOLDFAST_NODE_SECRET_FILE"
FIELDS = ("roots", "name", "address", "secret_file")
NAME_LIMIT = 100
_ADDRESS = pattern(r"https?://[^/?#@\s*,]+/?", re.IGNORECASE)


class NodeSettings(Frozen):
    roots: tuple[str, ...] | None = None
    name: str | None = None
    address: str | None = None
    secret_file: Path | None = None


def is_node_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None


def configured_node(environment: Mapping[str, str]) -> NodeSettings:
    """What the user's files say, later ones before earlier ones. Raises UnusableSetting."""
    found: dict[str, Any] = {}
    for section in written_sections(environment, SECTION):
        given = {name: value for name, value in section.values.items() if name in FIELDS}
        found |= {name: _usable(section.path, name, value, environment) for name, value in given.items()}
    if secret_file := environment.get(SECRET_FILE):
        found["secret_file"] = Path(secret_file)
    return NodeSettings(**found)


def _usable(path: Path, name: str, value: Any, environment: Mapping[str, str]) -> Any:
    def refused(reason: str) -> UnusableSetting:
        return UnusableSetting(path, f"holdfast.{SECTION}.{name}", reason)

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
