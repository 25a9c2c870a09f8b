"""Directories of this user that nobody else may write, and the check before files in them are believed.

Invariants
- A directory that is made here, and every missing parent of it, has mode 0700 whatever the umask is.
- An own directory with a wider mode is corrected when it is opened. One in which another user may write is refused:
  that user could replace passwords, settings and decisions about trust.
- A file is believed only if this user, root or, for root under sudo, the user who called sudo owns it and its
  directory, and nobody else can write it."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ROOT = 0
OTHERS = 0o077
OTHERS_WRITE = 0o022


class NotPrivate(HoldfastError):
    """Another user may write in a directory of this program."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} {reason}, so what is kept there cannot be believed. Make it yours alone "
            f"(`chown {os.geteuid()} {path}` and `chmod 700 {path}`), or choose another place with XDG_STATE_HOME"
        )


def make_directory(path: Path) -> None:
    """Create the directory and its missing parents, unless it exists. Raises OSError."""
    missing = []
    for folder in (path, *path.parents):
        if folder.exists():
            break
        missing.append(folder)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:  # made by another process, or no directory
            if not folder.is_dir():
                raise


def own_directory(path: Path) -> None:
    """Create the directory if it is missing, correct its mode, and check its owner. Raises OSError and NotPrivate."""
    make_directory(path)
    status = close_to_others(path)
    if status is None:
        raise NotADirectoryError(f"{path} is not a directory")
    if status.st_uid not in trusted_owners():
        raise NotPrivate(path, f"belongs to user {status.st_uid}")
    if status.st_uid != os.geteuid() and status.st_mode & OTHERS_WRITE:
        raise NotPrivate(path, "can be written by other users")


def close_to_others(path: Path) -> os.stat_result | None:
    """Give a directory of this user the mode 0700. Returns its status; None if there is no such directory, or it cannot
    be opened."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        if status.st_uid == os.geteuid() and status.st_mode & OTHERS:
            os.fchmod(handle, 0o700)
        return os.fstat(handle)
    finally:
        os.close(handle)


def refusal(status: os.stat_result) -> str | None:
    """Why a file or its directory is not believed, or None."""
    if status.st_uid not in trusted_owners():
        return f"is owned by user {status.st_uid}"
    if status.st_mode & OTHERS_WRITE and not stat.S_ISDIR(status.st_mode):
        return "can be changed by other users"
    return None


def trusted_owners() -> set[int]:
    """Root can do everything anyway. Only root may believe SUDO_UID: other users can set the variable themselves."""
    own = os.geteuid()
    caller = calling_user(os.environ)
    return {own, ROOT, caller} if own == ROOT and caller is not None else {own, ROOT}


def calling_user(environment: Mapping[str, str]) -> int | None:
    """The user who called sudo."""
    value = environment.get("SUDO_UID", "")
    return int(value) if value.isascii() and value.isdecimal() and len(value) <= 10 else None
