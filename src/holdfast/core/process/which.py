"""Finds programs, like `shutil.which`; importing `shutil` takes 2 ms, because it loads the archive formats."""

from __future__ import annotations

import os


def which(name: str, path: str | None = None) -> str | None:
    """The first executable of that name in `path` (default: PATH of this process). A name with a slash is a path."""
    places = os.environ.get("PATH", os.defpath) if path is None else path
    folders = [""] if os.path.dirname(name) else places.split(os.pathsep)
    return next(filter(is_program, (os.path.join(folder, name) for folder in folders)), None)


def is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
