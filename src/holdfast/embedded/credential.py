"""Generates the server's password when the environment gives none: a new one for every start.

Invariants
- Servers of one user that run at the same time share one generated password, which is in the file.
- Each of them holds a shared lock. A server that gets the lock exclusively is the first, and writes a new password, or
  the last, and removes the file. After `kill -9` the lock is free, so the old password is not used again."""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.client.credential import credential_file, kept_password
from holdfast.private_files import own_directory
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOCK_SECONDS = 5.0
POLL_SECONDS = 0.01


class PasswordUnavailable(HoldfastError):
    """Another server has been writing the password for too long."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is locked by another server that is starting or ending; try again")


@contextmanager
def generated_password(environment: Mapping[str, str]) -> Iterator[str]:
    path = credential_file(environment)
    own_directory(path.parent)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if _take(lock, fcntl.LOCK_EX):
            _write(path, replace=True)
        # The exclusive lock is released first: another server may write before the shared lock is granted.
        _share(lock, path)
        password = kept_password(environment)
        if password is None:
            _write(path, replace=False)
            password = kept_password(environment)
        if password is None:
            raise PasswordUnavailable(path)
        try:
            yield password
        finally:
            if _take(lock, fcntl.LOCK_EX):
                path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _write(path: Path, *, replace: bool) -> None:
    """Write a new password atomically. Without `replace`, a password that another server has just written stays."""
    handle, draft = tempfile.mkstemp(dir=path.parent)  # readable by its owner only
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        if replace or (path.exists() and not path.read_bytes().strip()):
            os.replace(draft, path)
        else:
            try:
                os.link(draft, path)
            except FileExistsError:
                return
    finally:
        Path(draft).unlink(missing_ok=True)


def _share(lock: int, path: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while not _take(lock, fcntl.LOCK_SH):
        if time.monotonic() > deadline:
            raise PasswordUnavailable(path)
        time.sleep(POLL_SECONDS)


def _take(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
