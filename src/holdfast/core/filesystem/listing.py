"""The entries of one directory, in an order that depends on nothing but their names."""

from __future__ import annotations

import os
import stat
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Literal

from holdfast.core.filesystem.descriptor import parent
from holdfast.core.filesystem.errors import FileError, PathError
from holdfast.core.filesystem.location_path import below, canonical
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.filesystem.location_path import Target


class Entry(Frozen):
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


def names_beside(target: Target, limit: int) -> list[str]:
    """Some names in the directory of a target, in no order; none when it has no directory."""
    try:
        with parent(target) as (directory, _):
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except (FileError, OSError):
        return []
    try:
        with os.scandir(handle) as entries:
            return [entry.name for entry in islice(entries, limit) if _is_text(entry.name)]
    finally:
        os.close(handle)


def _kind(entry: os.DirEntry[str], target: Target) -> Literal["directory", "file"] | None:
    if not _is_text(entry.name):
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


def _is_text(name: str) -> bool:
    """A name that is not valid UTF-8 could be passed to no tool."""
    return not any("\udc80" <= character <= "\udcff" for character in name)


def _order(name: str) -> tuple[str, str]:
    normal = unicodedata.normalize("NFC", name)
    return normal.casefold(), normal
