"""The entries of one directory, in an order that depends on nothing but their names."""

from __future__ import annotations

import os
import stat
import unicodedata
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.core.filesystem.descriptor import parent
from holdfast.core.filesystem.errors import PathError
from holdfast.core.filesystem.location_path import below, canonical

if TYPE_CHECKING:
    from holdfast.core.filesystem.location_path import Target


class Entry(NamedTuple):
    path: str
    """As a path argument for the next call; a directory's ends with a slash."""
    type: Literal["directory", "file"]


def list_directory(target: Target) -> list[Entry]:
    """Directories first. What is neither file nor directory is left out, and so is a link that leads out of here."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with parent(target) as (above, name):
        handle = os.open(name, flags, dir_fd=above)
    try:
        with os.scandir(handle) as entries:
            found = [(entry.name, kind) for entry in entries if (kind := _kind(entry, target)) is not None]
    finally:
        os.close(handle)
    found.sort(key=lambda entry: (entry[1] != "directory", *_order(entry[0])))
    prefix = "" if target.resource == "." else target.resource.rstrip("/") + "/"
    return [Entry(prefix + name + ("/" if kind == "directory" else ""), kind) for name, kind in found]


def _kind(entry: os.DirEntry[str], target: Target) -> Literal["directory", "file"] | None:
    # A name that is not valid UTF-8 could be passed to no tool.
    if not entry.name.isprintable() and any("\udc80" <= character <= "\udcff" for character in entry.name):
        return None
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return _linked_kind(entry.name, target) if entry.is_symlink() else None


def _linked_kind(name: str, target: Target) -> Literal["directory", "file"] | None:
    path = str(target.path / name)
    try:
        found = canonical(path, path)
    except PathError:
        return None
    if found.mode is None or not below(found.path, str(target.path)):
        return None
    if stat.S_ISDIR(found.mode):
        return "directory"
    return "file" if stat.S_ISREG(found.mode) else None


def _order(name: str) -> tuple[str, str]:
    normal = unicodedata.normalize("NFC", name)
    return normal.casefold(), normal
