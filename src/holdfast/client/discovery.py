"""Which servers run on this machine: each keeps a file about itself, named after its process, while it runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.credential import state_folder
from holdfast.schema.codec import decoder
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class RunningServer(Record):
    id: str
    version: str
    url: str
    pid: int
    data: str
    """Its data directory."""
    started: int


def servers_folder(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / "servers"


def running_servers(environment: Mapping[str, str], *, data: Path | None = None) -> list[RunningServer]:
    """Newest first; only those with this data directory, if one is given. What a dead process left is passed over."""
    folder = servers_folder(environment)
    try:
        paths = sorted(folder.glob("*.json"))
    except OSError:
        return []
    found = [server for path in paths if (server := _read(path)) is not None and _alive(server.pid)]
    if data is not None:
        found = [server for server in found if server.data == str(data)]
    return sorted(found, key=lambda server: server.started, reverse=True)


def _read(path: Path) -> RunningServer | None:
    try:
        return decoder(RunningServer).decode(path.read_bytes())  # type: ignore[no-any-return]
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
