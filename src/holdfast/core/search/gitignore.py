"""Parses and matches ignore files as git does.

A pattern becomes a regular expression over bytes: git compares bytes, so `?` is one byte and sets are byte ranges. The
literal prefix of a pattern is compared first and only the rest is a glob, because `**` at the start of that rest also
counts as a whole name (`a**/b` matches `ax/y/b`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SPECIAL = b"*?[\\"
MARK = b"\xef\xbb\xbf"
NEVER = rb"(?!)"
CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e",
    b"lower": rb"a-z",
    b"print": rb"\x20-\x7e",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}


class Pattern(NamedTuple):
    expression: re.Pattern[bytes]
    ignores: bool
    """False for a pattern with `!`, which negates earlier ones."""
    directories_only: bool
    names: bool
    """A pattern without a slash is compared with the last component only."""


class IgnoreFile:
    def __init__(self, content: bytes) -> None:
        self._patterns = tuple(_patterns(content))[::-1]

    def ignores(self, path: bytes, *, directory: bool) -> bool | None:
        """Whether a path relative to this file's directory is ignored; None if no pattern matches."""
        name = path.rpartition(b"/")[2]
        for pattern in self._patterns:
            if pattern.directories_only and not directory:
                continue
            if pattern.expression.fullmatch(name if pattern.names else path) is not None:
                return pattern.ignores
        return None


def _patterns(content: bytes) -> Iterator[Pattern]:
    for line in content.removeprefix(MARK).split(b"\n"):
        text = _without_trailing_spaces(line.removesuffix(b"\r").partition(b"\0")[0])
        if not text or text.startswith(b"#"):
            continue
        glob = text.removeprefix(b"!")
        anywhere = glob.removesuffix(b"/")
        yield Pattern(
            expression=re.compile(_expression(anywhere.removeprefix(b"/")), re.DOTALL),
            ignores=glob == text,
            directories_only=anywhere != glob,
            names=b"/" not in anywhere,
        )


def _without_trailing_spaces(line: bytes) -> bytes:
    """Keeps spaces after a backslash, and other kinds of white space."""
    end = position = 0
    while position < len(line):
        byte = line[position : position + 1]
        position += 2 if byte == b"\\" else 1
        if byte != b" ":
            end = position
    return line[:end]


def _expression(glob: bytes) -> bytes:
    if not glob:
        return NEVER
    literal = next((index for index, byte in enumerate(glob) if byte in SPECIAL), len(glob))
    rest = _Translation(glob[literal:]).expression()
    return NEVER if rest is None else re.escape(glob[:literal]) + rest


class _Translation:
    """Translates one glob from left to right."""

    def __init__(self, glob: bytes) -> None:
        self._glob = glob
        self._at = 0

    def expression(self) -> bytes | None:
        """None if the glob cannot match anything."""
        parts: list[bytes] = []
        while self._at < len(self._glob):
            part = self._next()
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)

    def _next(self) -> bytes | None:
        byte = self._take()
        if byte == b"*":
            return self._star()
        if byte == b"?":
            return rb"[^/]"
        if byte == b"[":
            return self._set()
        if byte == b"\\":
            escaped = self._take()
            return re.escape(escaped) if escaped else None
        return re.escape(byte)

    def _star(self) -> bytes:
        begin = self._at - 1
        while self._peek() == b"*":
            self._at += 1
        if self._at - begin == 1 or self._glob[max(begin - 1, 0) : begin] not in (b"", b"/"):
            return rb"[^/]*"
        if self._peek() == b"/":
            self._at += 1
            return rb"(?:.*/)?"
        whole_name = self._at == len(self._glob) or self._glob[self._at : self._at + 2] == rb"\/"
        return rb".*" if whole_name else rb"[^/]*"

    def _set(self) -> bytes | None:
        """A set never matches a slash. A set without an end or with an unknown class matches nothing."""
        negated = self._peek() in (b"!", b"^")
        self._at += negated
        members: list[bytes] = []
        previous = b""
        while True:
            byte = self._take()
            if byte == b"]" and members:
                break
            if not byte:
                return None
            if byte == b"-" and previous and self._peek() not in (b"", b"]"):
                end = self._member(self._take())
                if end is None:
                    return None
                members.append(_range(previous, end))
                previous = b""
            elif byte == b"[" and (name := self._class_name()) is not None:
                if name not in CLASSES:
                    return None
                members.append(CLASSES[name])
                previous = b""
            else:
                member = self._member(byte)
                if member is None:
                    return None
                members.append(re.escape(member))
                previous = member
        inside = b"".join(members)
        if negated:
            return rb"[^/" + inside + b"]"
        return rb"(?!/)[" + inside + b"]" if inside else NEVER

    def _member(self, byte: bytes) -> bytes | None:
        return byte if byte != b"\\" else self._take() or None

    def _class_name(self) -> bytes | None:
        """The name in `[:name:]`, after the first bracket; None if it is an ordinary bracket."""
        if self._peek() != b":":
            return None
        end = self._glob.find(b"]", self._at + 1)
        if end < 0 or self._glob[end - 1 : end] != b":" or end - 1 == self._at:
            return None
        name = self._glob[self._at + 1 : end - 1]
        self._at = end + 1
        return name

    def _peek(self) -> bytes:
        return self._glob[self._at : self._at + 1]

    def _take(self) -> bytes:
        byte = self._peek()
        self._at += 1
        return byte


def _range(first: bytes, last: bytes) -> bytes:
    """Empty if the range is reversed."""
    return re.escape(first) + b"-" + re.escape(last) if first <= last else b""
