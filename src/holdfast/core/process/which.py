"""Finds programs, like `shutil.which`; importing `shutil` takes 2 ms, because it loads the archive formats."""

from __future__ import annotations

import os


def which(name: str, path: str | None = None) -> str | None:
    """The first executable of that name in `path` (default: PATH of this process). A name with a slash is a path."""
    places = os.environ.get("PATH", os.defpath) if path is None else path
    folders = [""] if os.path.dirname(name) else places.split(os.pathsep)
    candidates = (os.path.join(folder, name) for folder in folders)
    return next((each for each in candidates if os.path.isfile(each) and os.access(each, os.X_OK)), None)
