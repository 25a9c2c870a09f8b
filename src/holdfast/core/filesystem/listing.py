"""Lists the entries of one directory in an order that depends only on their names."""

from __future__ import annotations

import os
import stat
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Literal

from holdfast.core.filesystem.canonical import contains, is_text
from holdfast.core.filesystem.descriptor import open_parent
from holdfast.core.filesystem.errors import FileError, PathError
from holdfast.core.filesystem.location_path import canonicalize
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.filesystem.location_path import Target


class DirectoryEntry(Frozen):
    path: str
    """Usable as a path argument; ends with a slash for a directory."""
    type: Literal["directory", "file"]


def list_directory(target: Target) -> list[DirectoryEntry]:
    """Directories first. Omits special files and links that lead outside the directory."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with open_parent(target) as (above, name):
        handle = os.open(name, flags, dir_fd=above)
    try:
        with os.scandir(handle) as entries:
            found = [(entry.name, kind) for entry in entries if (kind := _kind(entry, target)) is not None]
    finally:
        os.close(handle)
    found.sort(key=lambda entry: (entry[1] != "directory", *_order(entry[0])))
    prefix = "" if target.resource == "." else target.resource.rstrip("/") + "/"
    return [DirectoryEntry(prefix + name + ("/" if kind == "directory" else ""), kind) for name, kind in found]


def names_beside(target: Target, limit: int) -> list[str]:
    """Up to `limit` names in the target's directory, unordered; empty if the directory does not exist."""
    try:
        with open_parent(target) as (directory, _):
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except (FileError, OSError):
        return []
    try:
        with os.scandir(handle) as entries:
            return [entry.name for entry in islice(entries, limit) if is_text(entry.name)]
    finally:
        os.close(handle)


def _kind(entry: os.DirEntry[str], target: Target) -> Literal["directory", "file"] | None:
    if not is_text(entry.name):  # no tool could be given this name
        return None
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return _linked_kind(entry.name, target) if entry.is_symlink() else None


def _linked_kind(name: str, target: Target) -> Literal["directory", "file"] | None:
    path = str(target.path / name)
    try:
        found = canonicalize(path, path)
    except PathError:
        return None
    if found.mode is None or not contains(str(target.path), found.path):
        return None
    if stat.S_ISDIR(found.mode):
        return "directory"
    return "file" if stat.S_ISREG(found.mode) else None


def _order(name: str) -> tuple[str, str]:
    normal = unicodedata.normalize("NFC", name)
    return normal.casefold(), normal
