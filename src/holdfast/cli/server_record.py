"""Which servers run on a data directory: a file for each, locked for as long as its process lives.

The lock is the operating system's, so a server that was killed leaves a file which says by itself that it is stale."""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.schema.record import Record
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = "servers"
RECORD_BYTES = 4096


class ServerRecord(Record):
    id: str
    version: str
    url: str
    pid: int


def data_directory(environment: Mapping[str, str]) -> Path:
    """Where the runtime keeps its data, found without loading the runtime."""
    home = Path(environment.get("HOME", "~")).expanduser()
    base = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return Path(environment.get("HOLDFAST_DATA") or base / "holdfast")


@contextmanager
def recorded(url: str, data: Path) -> Iterator[None]:
    """Known as running until the block ends, however it ends."""
    from holdfast.schema.codec import encode

    folder = data / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    record = ServerRecord(id=secrets.token_hex(8), version=__version__, url=url, pid=os.getpid())
    path, draft = folder / f"{record.id}.json", folder / f"{record.id}.new"
    with draft.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(encode(record))
        file.flush()
        draft.rename(path)  # seen only when complete and locked
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def running(data: Path) -> list[ServerRecord]:
    """The newest first. Records of servers that are gone are removed."""
    try:
        paths = sorted((data / FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    except OSError:
        return []  # one ended while we looked; whoever wants a server looks again
    return [record for path in paths if (record := _read(path)) is not None]


def _read(path: Path) -> ServerRecord | None:
    import msgspec

    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return msgspec.json.decode(file.read(RECORD_BYTES), type=ServerRecord)
            path.unlink(missing_ok=True)
    except (OSError, msgspec.DecodeError):
        pass
    return None
