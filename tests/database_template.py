"""New databases as copies of a migrated one: the migrations of an empty file take 13 ms, and most tests open one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from holdfast.core.database.sqlite import prepare


class DatabaseTemplate:
    """Takes the place of `prepare`. What it copies was made by `prepare`, which also runs on the copy."""

    def __init__(self, folder: Path) -> None:
        path = folder / "template.db"
        prepare(path)
        self._content = path.read_bytes()

    def prepare(self, path: Path) -> None:
        if not path.exists():
            with suppress(OSError):  # `prepare` meets the same error and reports it
                self._copy(path)
        prepare(path)

    def _copy(self, path: Path) -> None:
        """The file appears whole: another process may open it at the same time."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.touch(mode=0o600)
        try:
            partial.write_bytes(self._content)
            os.link(partial, path)
        finally:
            partial.unlink()
