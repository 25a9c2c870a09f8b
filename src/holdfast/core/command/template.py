"""Expands command templates: placeholders for arguments, and output of shell commands.

Invariants
- The template is parsed once: arguments and command output are never parsed as template.
- Inside a shell command every argument is quoted: as one word, or as part of the quoted word around it.
- The text is bounded, however often a template repeats its arguments. So is the output of each shell command. A denied
  or failed command leaves a note in its place."""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import Protocol

from holdfast.core.config.authority import SHELL_COMMAND, SHELL_INSERT
from holdfast.core.session.attachments import TEXT_BYTES
from holdfast.core.tool.tool import ToolFailure
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

INSERT_CHARACTERS = 16_000
MOST_SHELL_COMMANDS = 20
SHOWN_COMMAND = 500
QUICK_CHARACTERS = 16_000
"""Arguments up to this length are split on the event loop. A megabyte takes half a second."""

NOT_RUN = "[`{command}` was not run: {reason}]"
CUT = "\n[output cut after {count} characters]"

_PLACEHOLDER = pattern(r"\$ARGUMENTS(?![A-Za-z0-9_])|\$([1-9]\d?)(?!\d)")


class Shell(Protocol):
    async def __call__(self, command: str) -> str:
        """Ask for permission, run the command in the Location and return its output. Raises ToolFailure."""


class ArgumentsTooLarge(InvalidRequest):
    """The arguments of a command, put into its template, exceed the limit of a prompt."""

    code = "Session.ArgumentsTooLargeError"

    def __init__(self) -> None:
        message = (
            f"The command with these arguments has more than {TEXT_BYTES} characters. The prompt was not admitted."
        )
        super().__init__(message, kind="Payload", field="arguments")


class Expanded(Frozen):
    text: str
    arguments: tuple[tuple[int, int], ...] = ()
    """The spans of the text that are arguments."""
    output: tuple[tuple[int, int], ...] = ()
    """The spans that shell commands wrote, or that tell why they did not run."""


class Template:
    def __init__(self, text: str) -> None:
        self._text = text
        self._places = [int(found[1] or 0) for found in _PLACEHOLDER.finditer(text)]
        """The number of each placeholder; 0 is `$ARGUMENTS`."""

    async def expand(self, arguments: str, shell: Shell) -> Expanded:
        """Raises ArgumentsTooLarge."""
        splits = any(self._places) or SHELL_INSERT in self._text
        if splits and len(arguments) > QUICK_CHARACTERS:
            words = await asyncio.to_thread(split_arguments, arguments)
        else:
            words = split_arguments(arguments) if splits else []
        given = _Arguments(arguments, words, max(self._places, default=0))
        if len(self._text) + sum(len(given.text(place)) for place in self._places or (0,)) > TEXT_BYTES:
            raise ArgumentsTooLarge
        filling = _Filling()
        end = 0
        for number, match in enumerate(re.finditer(SHELL_COMMAND, self._text)):
            filling.fill(self._text[end : match.start()], given)
            filling.add(await _output(shell, _quoted(match[1], given), number), filling.output)
            end = match.end()
        filling.fill(self._text[end:], given)
        if not self._places and arguments.strip():
            filling.add("\n\n")
            filling.add(arguments, filling.arguments)
        return filling.expanded()


class _Arguments:
    """What stands for each placeholder. The highest number takes all remaining words."""

    def __init__(self, arguments: str, words: list[str], last: int) -> None:
        self._words = words
        self._last = last
        self._texts: dict[int, str] = {0: arguments}

    def text(self, place: int) -> str:
        if place not in self._texts:
            self._texts[place] = " ".join(self.words(place))
        return self._texts[place]

    def words(self, place: int) -> list[str]:
        if place == 0:
            return self._words
        return self._words[place - 1 :] if place == self._last else self._words[place - 1 : place]


class _Filling:
    """The text that is being made, with the spans of its parts."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.arguments: list[tuple[int, int]] = []
        self.output: list[tuple[int, int]] = []

    def fill(self, text: str, given: _Arguments) -> None:
        """Add text of the template with its placeholders replaced."""
        end = 0
        for place in _PLACEHOLDER.finditer(text):
            self.add(text[end : place.start()])
            self.add(given.text(int(place[1] or 0)), self.arguments)
            end = place.end()
        self.add(text[end:])

    def add(self, text: str, spans: list[tuple[int, int]] | None = None) -> None:
        if not text:
            return
        start, self._length = self._length, self._length + len(text)
        self._parts.append(text)
        if spans is not None:
            spans.append((start, self._length))

    def expanded(self) -> Expanded:
        return Expanded("".join(self._parts), tuple(self.arguments), tuple(self.output))


def _quoted(command: str, given: _Arguments) -> str:
    quotes = _Quotes()
    parts: list[str] = []
    end = 0
    for found in _PLACEHOLDER.finditer(command):
        place = int(found[1] or 0)
        before = command[end : found.start()]
        quotes.read(before)
        parts.append(before)
        if quote := quotes.open:
            # Quotes do not nest: close the template's quotes before the argument and reopen them after it.
            parts.append(quote + shlex.quote(given.text(place)) + quote)
        else:
            parts.append(" ".join(map(shlex.quote, given.words(place))))
        quotes.read(found[0])
        end = found.end()
    return "".join((*parts, command[end:]))


class _Quotes:
    """Reads a shell command from left to right; a substitution starts a new context."""

    def __init__(self) -> None:
        self._around = [""]
        self._skip = False
        self._last = ""

    @property
    def open(self) -> str:
        """The quote character that is open, by shell rules; empty if there is none."""
        return self._around[-1] if self._around[-1] != "(" else ""

    def read(self, text: str) -> None:
        for character in text:
            self._read(character)
            self._last = character

    def _read(self, character: str) -> None:
        here = self._around[-1]
        if self._skip:
            self._skip = False
        elif character == "\\" and here != "'":
            self._skip = True
        elif character == here or (character == ")" and here == "("):
            self._around.pop()
        elif here == "'":
            return
        elif character == "(" and (here != '"' or self._last == "$"):
            self._around.append("(")
        elif character == '"' or (character == "'" and here != '"'):
            self._around.append(character)


async def _output(shell: Shell, command: str, number: int) -> str:
    shown = command if len(command) <= SHOWN_COMMAND else f"{command[:SHOWN_COMMAND]}…"
    if number >= MOST_SHELL_COMMANDS:
        return NOT_RUN.format(command=shown, reason=f"a template runs at most {MOST_SHELL_COMMANDS} commands")
    try:
        output = await shell(command)
    except ToolFailure as failure:
        return NOT_RUN.format(command=shown, reason=str(failure)[:INSERT_CHARACTERS])
    if len(output) > INSERT_CHARACTERS:
        return output[:INSERT_CHARACTERS] + CUT.format(count=INSERT_CHARACTERS)
    return output


def split_arguments(arguments: str) -> list[str]:
    """Split like a shell; with an unclosed quote, at white space only."""
    words: list[str] = []
    end = 0
    # `shlex.split` reads one character at a time, which takes seconds for a megabyte.
    for match in _WORD.finditer(arguments):
        if arguments[end : match.start()].strip():
            return arguments.split()
        words.append(_PIECE.sub(_unquoted, match[0]))
        end = match.end()
    return arguments.split() if arguments[end:].strip() else words


def _unquoted(piece: re.Match[str]) -> str:
    plain, escaped, double, single = piece.groups()
    if double is not None:
        return re.sub(r'\\(["\\])', r"\1", double)
    return plain or escaped or single or ""


_PIECES = r"""([^ \t\r\n"'\\]+)|\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'"""
_PIECE = pattern(_PIECES, re.DOTALL)
_WORD = pattern(rf"(?:{_PIECES})+", re.DOTALL)
