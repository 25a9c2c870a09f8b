"""Keeps the traceback of a defect that did not end the terminal, in a private file of the state folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.private_files import make_directory

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1024 * 1024


def log_defect(folder: Path | None, error: BaseException) -> str:
    """Returns where it is, as the end of a sentence."""
    if folder is None:
        return ""
    import traceback

    path = folder / "terminal.log"
    try:
        make_directory(folder)
        large = path.exists() and path.stat().st_size > MOST_BYTES
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if large else os.O_APPEND)
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        return ""
    return f"; see {path}"
