"""The folder of isolated copies: one directory per copy, named after the Session that works in it, and a record beside
it.

Invariants
- The record is written before anything of the copy, and says `ready` only when the copy is complete: whatever a killed
  process leaves is found by its record.
- A copy that was removed leaves a text file in its place, so that nothing can be written there, and its record."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from holdfast.core.atomic_write import atomic_write
from holdfast.core.filesystem.canonical import contains
from holdfast.core.project.repository import read_small
from holdfast.private_files import make_directory
from holdfast.schema.frozen import Frozen
from holdfast.schema.ids import name_of_id
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = ".json"
_NAME = pattern(r"(?:ses|id\.)[0-9A-Za-z_-]{1,100}")


class CopyRecord(Frozen):
    session_id: str
    """The Session that works in the copy."""
    source: str
    """The root of the worktree that was copied."""
    repository: str
    """The git directory that the worktrees share."""
    trees: str
    """The snapshot store with the trees below."""
    state: Literal["making", "ready", "removed"] = "making"
    base: str = ""
    """The tree that was copied, or the newest one whose changes were applied to the source."""
    result: str | None = None
    """The tree of the copy when it was last recorded."""
    not_copied: str = ""
    """What the copy does not have, in words."""
    file_bytes: int = 0
    files: int = 0
    """The snapshot limits with which the base was captured."""

    @property
    def offered(self) -> bool:
        """Whether recorded changes have not been applied."""
        return self.result is not None and self.result != self.base


class CopyFolder:
    def __init__(self, folder: Path) -> None:
        self.path = Path(os.path.realpath(folder))

    def directory(self, session_id: str) -> Path:
        return self.path / name_of_id(session_id)

    def record(self, session_id: str) -> Path:
        return self.path / f"{name_of_id(session_id)}{RECORD}"

    def lock(self, repository: str) -> Path:
        """Held while a copy of this repository is made or removed."""
        return self.path / f"{hashlib.sha256(os.fsencode(repository)).hexdigest()[:20]}.lock"

    def touch(self, session_id: str) -> None:
        """Make the record young: somebody is about to use the copy."""
        with suppress(OSError):
            os.utime(self.record(session_id))

    def touched(self, session_id: str) -> int:
        """When the record was written or touched; 0 without one."""
        try:
            return self.record(session_id).stat().st_mtime_ns
        except OSError:
            return 0

    def age(self, session_id: str, now: float) -> float:
        """Seconds since the record was written or touched."""
        try:
            return now - self.record(session_id).stat().st_mtime
        except OSError:
            return 0.0

    def read(self, session_id: str) -> CopyRecord | None:
        """None if this Session has no copy. Blocks for one small file."""
        return self._read(name_of_id(session_id))

    def _read(self, name: str) -> CopyRecord | None:
        """The record of the copy whose directory has this name."""
        if _NAME.fullmatch(name) is None:
            return None
        data = read_small(self.path / f"{name}{RECORD}")
        try:
            found = msgspec.json.decode(data, type=CopyRecord) if data else None
        except msgspec.MsgspecError:
            return None
        return found if found is not None and name_of_id(found.session_id) == name else None

    def create(self) -> None:
        make_directory(self.path)

    def write(self, record: CopyRecord) -> None:
        atomic_write(self.record(record.session_id), msgspec.json.encode(record))

    def forget(self, session_id: str) -> None:
        with suppress(OSError):
            self.record(session_id).unlink(missing_ok=True)

    def records(self) -> Iterator[CopyRecord]:
        try:
            names = sorted(os.listdir(self.path))
        except OSError:
            return
        for name in names:
            if name.endswith(RECORD) and (record := self._read(name.removesuffix(RECORD))) is not None:
                yield record

    def containing(self, directory: Path) -> CopyRecord | None:
        """The record of the copy that a directory is in."""
        root, here = str(self.path), os.path.realpath(directory)
        if here == root or not contains(root, here):
            return None
        return self._read(Path(here).relative_to(root).parts[0])

    def has(self, directory: str) -> bool:
        """Whether a directory is in a copy that was made here, even if it was removed."""
        return self.containing(Path(directory)) is not None

    def original(self, path: Path) -> Path:
        """The path that a path in a copy was copied from; any other path itself."""
        for _ in range(10):  # a copy of a copy
            if (record := self.containing(path)) is None or record.state != "ready":
                break
            inside = Path(os.path.realpath(path)).relative_to(self.directory(record.session_id))
            path = Path(record.source) / inside
        return path
