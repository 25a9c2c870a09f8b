"""Parses the words of a shell command: quotes, escapes, expansions and substitutions.

Only syntax that dash and bash parse alike is accepted; anything else raises `Unclear`. Commands inside a substitution
are passed to a callback, so that no command in a word is overlooked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.shell.script import Word
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Callable


class Unclear(Exception):
    """The text is not in the part of the shell language that all shells parse alike."""


class Cursor:
    """A text and a position in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def peek(self, count: int = 1) -> str:
        return self.text[self.position : self.position + count]

    def take(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        """Consume a match at the current position."""
        found = expression.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
        return found


class WordReader:
    def __init__(self, cursor: Cursor, read_commands: Callable[[Cursor], None]) -> None:
        """`read_commands` reads the commands of a substitution at the cursor and consumes the closing `)`."""
        self._cursor = cursor
        self._read_commands = read_commands

    def read(self) -> Word:
        """The word at the cursor."""
        cursor = self._cursor
        start = cursor.position
        value = self._value()
        if cursor.position == start or cursor.peek() not in _WORD_END:
            raise Unclear
        return Word(cursor.text[start : cursor.position], value)

    def read_quoted(self, end: str) -> str | None:
        """Read text in which only `$` and `\\` are special, up to `end`: the rest of a double-quoted string, or a line
        of a here-document if `end` is empty. Returns its value."""
        cursor = self._cursor
        parts: list[str | None] = []
        while cursor.peek() != end:
            if (plain := cursor.take(_QUOTED if end else _LINE)) is not None:
                parts.append(plain[0])
            elif (escaped := cursor.take(_QUOTED_ESCAPE)) is not None:
                parts.append(escaped[1] if escaped[1] in _ESCAPABLE else escaped[0])
            elif cursor.peek() == "$":
                parts.append(self._dollar(end))
            else:
                raise Unclear
        cursor.position += len(end)
        return _joined(parts)

    def _value(self) -> str | None:
        cursor = self._cursor
        if cursor.peek() == "#":
            raise Unclear
        if cursor.peek(2) in ("<(", ">("):
            cursor.position += 2
            self._read_commands(cursor)
            return None
        if (braced := cursor.take(_BRACED)) is not None:
            # Only literal text may be in the same word: brace expansion could join a `$` with a name.
            if cursor.peek() in ("<", ">"):
                raise Unclear  # `{name}>file` assigns a variable
            return None if _EXPANDING.search(braced[0]) else braced[0]
        parts: list[str | None] = []
        while cursor.peek() not in _WORD_END:
            parts.append(self._part())
        return _joined(parts)

    def _part(self) -> str | None:
        cursor = self._cursor
        if (plain := cursor.take(_PLAIN)) is not None:
            return plain[0]
        if (quoted := cursor.take(_SINGLE_QUOTED)) is not None:
            return quoted[1]
        if (escaped := cursor.take(_ESCAPE)) is not None:
            return escaped[1]
        match cursor.peek():
            case '"':
                cursor.position += 1
                return self.read_quoted('"')
            case "$":
                return self._dollar("")
            case "`" if (old := cursor.take(_BACKQUOTED)) is not None:
                self._read_commands(Cursor(f"{old[1]})"))
                return None
            case _:
                raise Unclear

    def _dollar(self, end: str) -> str | None:
        cursor = self._cursor
        if cursor.take(_LONE_DOLLAR) is not None:
            return "$"
        if end and cursor.peek(2) == f"${end}":
            cursor.position += 1
            return "$"
        if cursor.take(_VARIABLE) or cursor.take(_PARAMETER) or cursor.take(_NUMBERS):
            return None
        if cursor.peek(2) != "$(" or cursor.peek(3) == "$((":
            raise Unclear
        cursor.position += 2
        self._read_commands(cursor)
        return None


def _joined(parts: list[str | None]) -> str | None:
    return None if None in parts else "".join(part for part in parts if part is not None)


_WORD_END = frozenset(("", " ", "\t", "\n", ";", "&", "|", "<", ">", ")"))
_PLAIN = pattern(r"[A-Za-z0-9_./:,@%+=~^*?\[\]!#-]+")
_BRACED = pattern(r"[A-Za-z0-9_./:,@%+=~^*?\[\]!#-]*+[{}][A-Za-z0-9_./:,@%+=~^*?\[\]!#{}-]*+(?![^ \t\n;&|<>)])")
_EXPANDING = pattern(r",|\.\.")
_SINGLE_QUOTED = pattern(r"'([^']*+)'")
_ESCAPE = pattern(r"\\([ -~])")
_QUOTED = pattern(r'[^"\\$`]+')
_LINE = pattern(r"[^\\$`]+")
_QUOTED_ESCAPE = pattern(r"\\([^\n])")
_ESCAPABLE = frozenset('"\\$`')
# Backquoted commands are unescaped before parsing, so quotes, escapes and expansions are not accepted in them.
_BACKQUOTED = pattern(r"`([^`'\"\\$#<>()\n]*+)`")
# A dollar sign is literal if nothing follows that could make it an expansion.
_LONE_DOLLAR = pattern(r"\$(?=[ \t\n|);]|\Z)")
# zsh reads a bracket after a name as a subscript; `$$(…)` is ambiguous.
_VARIABLE = pattern(r"\$(?:[A-Za-z_][A-Za-z0-9_]*+(?!\[)|[0-9@*#?$!-](?![({\[]))")
# Excludes operators that assign, evaluate, or expand a value again.
_PARAMETER = pattern(
    r"\$\{(?:#?[A-Za-z_][A-Za-z0-9_]*+|[0-9]++|[@*?]|"
    r"(?:[A-Za-z_][A-Za-z0-9_]*+|[0-9]++)(?::?[-+]|%%?|##?)[A-Za-z0-9_./:,@%+=~*?-]*+)\}"
)
# Names in arithmetic are evaluated recursively, and bash runs substitutions in subscripts of their values.
_NUMBERS = pattern(r"\$\(\([0-9 \t+*/%-]*+\)\)")
