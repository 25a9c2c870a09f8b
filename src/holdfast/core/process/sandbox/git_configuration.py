"""Reads the configuration of a git repository that a confined command may have written, without running git on it.

Invariants
- The parser is stricter than git's: a file in which git could see a setting that the parser does not see is unreadable,
  which counts as naming programs.
- A setting is harmless only if the table says so. A setting that git will have one day is not."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from functools import cache
from typing import TYPE_CHECKING

from holdfast.core.process.sandbox.place_names import HARMLESS_SETTINGS
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 1024 * 1024
_SECTION = re.compile(rb'\[([A-Za-z0-9-]+)(?:[ \t]+"((?:[^"\\\n\0]|\\["\\])*)")?\]')
_SETTING = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=(.*))?")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"b": b"\b", b'"': b'"', b"\\": b"\\"}
_HELPER = pattern(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
"""A URL that names a program, `git-remote-NAME`."""


class Setting(Frozen):
    """The key in lower case, but for its subsection, as git prints it."""

    key: str
    value: str

    @property
    def harmless(self) -> bool:
        if self.key.endswith("url") and _HELPER.match(self.value):
            return False
        return _harmless().fullmatch(self.key) is not None


class UnreadableSettings(Exception):
    """The file is no regular file, too large, or git could read it in another way than the parser."""

    def __init__(self, digest: str) -> None:
        super().__init__("it cannot be read with certainty")
        self.digest = digest
        """Of the content, to tell whether it changed."""


def read_settings(path: Path) -> tuple[Setting, ...]:
    """All settings of a configuration file, without those that it includes; none if there is no file. Raises
    UnreadableSettings."""
    content = read_regular(path)
    if content is None:
        return ()
    try:
        return tuple(_parsed(content))
    except (ValueError, KeyError) as error:
        raise UnreadableSettings(hashlib.sha256(content).hexdigest()) from error


def read_regular(path: Path) -> bytes | None:
    """The content of a file that a confined command may have made; None if it does not exist. Never waits for a pipe.
    Raises UnreadableSettings."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableSettings(str(error.errno)) from error
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
            raise UnreadableSettings(f"{status.st_mode} {status.st_size} {status.st_ctime_ns}")
        return opened.read(LIMIT)


def _parsed(content: bytes) -> Iterator[Setting]:
    """Raises ValueError for everything but the plain form: a section, a setting or a comment on a line of its own."""
    section: str | None = None
    if b"\0" in content:
        raise ValueError("a NUL character")
    for line in content.split(b"\n"):
        words = line.strip(b" \t\r")
        if not words or words[:1] in (b"#", b";"):
            continue
        if words.endswith(b"\\"):
            raise ValueError("a line that continues")
        if heading := _SECTION.fullmatch(words):
            name = heading[1].decode("ascii").lower()
            section = name if heading[2] is None else f"{name}.{os.fsdecode(heading[2])}"
        elif (setting := _SETTING.fullmatch(words)) and section is not None:
            value = "true" if setting[2] is None else _value(setting[2])
            yield Setting(f"{section}.{setting[1].decode('ascii').lower()}", value)
        else:
            raise ValueError("a line that is neither a section nor a setting")


def _value(raw: bytes) -> str:
    """The value as git reads it. Raises ValueError."""
    value, quoted, spaces = bytearray(), False, b""
    position = 0
    while position < len(raw):
        character = raw[position : position + 1]
        position += 1
        if character in (b" ", b"\t", b"\r") and not quoted:
            spaces += character
            continue
        if character in (b"#", b";") and not quoted:
            break
        value += spaces if value else b""
        spaces = b""
        if character == b'"':
            quoted = not quoted
        elif character == b"\\":
            value += _ESCAPES[raw[position : position + 1]]
            position += 1
        else:
            value += character
    if quoted:
        raise ValueError("a quote that does not end")
    return os.fsdecode(bytes(value))


@cache
def _harmless() -> re.Pattern[str]:
    names = (re.escape(name).replace(r"\*", ".*") for name in HARMLESS_SETTINGS)
    return re.compile("|".join(names), re.DOTALL)
