"""Files that the command line writes."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.atomic_write import atomic_write


def replace_file(path: str, data: bytes) -> None:
    """The whole file or none of it. Only its owner can read it."""
    atomic_write(Path(path).absolute(), data)
