"""Managed files of a bundle in the directory of managed files. A file that is there is never replaced."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.bundle.errors import BundleConflict
from holdfast.core.bundle.lines import Digest
from holdfast.core.tool.output import UNFINISHED
from holdfast.private_files import make_directory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holdfast.schema.bundle import BundleFile

READ_BYTES = 256 * 1024


def is_there(folder: Path, file: BundleFile) -> bool:
    """Whether this file is there already. Raises BundleConflict if another one has its name."""
    path = folder / file.name
    if not os.path.lexists(path):
        return False
    digest = Digest()
    if path.is_file() and not path.is_symlink():
        with path.open("rb") as existing:
            while chunk := existing.read(READ_BYTES):
                digest.add(chunk)
        if digest.part(file.content.name) == file.content:
            return True
    raise BundleConflict(f"{path} is another file than the one of the bundle")


def restore(folder: Path, file: BundleFile, content: Iterable[bytes]) -> bool:
    """Write the file, unless it is there; whether it was written. `content` is read to its end in either case."""
    make_directory(folder)
    handle, draft = tempfile.mkstemp(dir=folder, prefix=file.name, suffix=UNFINISHED)  # mode 0600
    try:
        with open(handle, "wb") as written:
            for chunk in content:
                written.write(chunk)
        if is_there(folder, file):
            return False
        os.link(draft, folder / file.name)
        return True
    finally:
        os.unlink(draft)


def remove(folder: Path, names: Iterable[str]) -> None:
    """Take back files that `restore` wrote."""
    for name in names:
        with suppress(OSError):
            os.unlink(folder / name)
