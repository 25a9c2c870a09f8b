"""Reads small text files safely: the path may be a folder, a pipe, too large, or not text."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from holdfast.private_files import refusal

if TYPE_CHECKING:
    from pathlib import Path


class Unreadable(Exception):
    """Something is there, but its text cannot be had."""


def read_text(path: str | Path, limit: int) -> str | None:
    """The content, or None if the file does not exist. Raises Unreadable."""
    try:
        # Non-blocking: opening a pipe must return.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("is not a regular file")
        if status.st_size > limit:
            raise Unreadable(f"is larger than {limit} bytes")
        content = os.read(file, limit + 1)
        while len(content) <= limit and (more := os.read(file, limit + 1 - len(content))):
            content += more
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    finally:
        os.close(file)
    if len(content) > limit:
        raise Unreadable(f"is larger than {limit} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: byte {error.start}") from error


def read_private_text(path: Path, limit: int) -> str | None:
    """Like `read_text`, for a file in a directory of this program: it must belong to this user alone."""
    text = read_text(path, limit)
    if text is None:
        return None
    for one, name in ((path, "it"), (path.parent, "its folder")):
        try:
            reason = refusal(os.stat(one))
        except OSError as error:
            raise Unreadable(f"cannot be read: {error.strerror}") from error
        if reason is not None:
            raise Unreadable(f"is not believed: {name} {reason}")
    return text


def is_text(value: str) -> bool:
    """Whether the text can be encoded. File names and variables may hold arbitrary bytes, which could be neither sent
    nor stored."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
