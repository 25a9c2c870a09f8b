"""A command's template: places for arguments, shell commands whose output is inserted, and named files.

Invariants
- The template is read once, before anything is put into it: neither an argument nor a command's output is ever read as
  template.
- Inside a shell command every argument is quoted: one word, or part of the one whose quotes it stands in.
- What a shell command inserts is bounded; that it was denied or failed is said in its place."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Protocol

from holdfast.core.config.authority import SHELL_COMMAND
from holdfast.core.tool.tool import ToolFailure
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    import re

INSERT_CHARACTERS = 16_000
MOST_SHELL_COMMANDS = 20

NOT_RUN = "[`{command}` was not run: {reason}]"
CUT = "\n[output cut after {count} characters]"

_PLACE = pattern(r"\$ARGUMENTS(?![A-Za-z0-9_])|\$([1-9])(?!\d)")
_MENTION = pattern(r"(?<![\w`@])@([\w~./-]*[\w/-])")


class Shell(Protocol):
    async def __call__(self, command: str) -> str:
        """Ask for permission, run in the Location, give the output; ToolFailure says why there is none."""


class Expanded(Frozen):
    text: str
    mentions: tuple[str, ...]


class Template:
    def __init__(self, text: str) -> None:
        self._text = text
        places = list(_PLACE.finditer(text))
        self._has_places = bool(places)
        self._last = max((int(place[1]) for place in places if place[1]), default=0)

    async def expand(self, arguments: str, shell: Shell) -> Expanded:
        words = _words(arguments)
        parts: list[str] = []
        mentions: list[str] = []
        end = 0
        for number, match in enumerate(SHELL_COMMAND.finditer(self._text)):
            before = self._text[end : match.start()]
            mentions += _MENTION.findall(before)
            parts.append(self._filled(before, arguments, words))
            command = self._quoted(match[1], arguments, words)
            parts.append(await _output(shell, command, number))
            end = match.end()
        rest = self._text[end:]
        mentions += _MENTION.findall(rest)
        parts.append(self._filled(rest, arguments, words))
        if not self._has_places and arguments.strip():
            parts.append(f"\n\n{arguments}")
        return Expanded("".join(parts), tuple(dict.fromkeys(mentions)))

    def _filled(self, text: str, arguments: str, words: list[str]) -> str:
        return _PLACE.sub(lambda place: " ".join(self._taken(place, words)) if place[1] else arguments, text)

    def _quoted(self, command: str, arguments: str, words: list[str]) -> str:
        def argument(place: re.Match[str]) -> str:
            taken = self._taken(place, words)
            if not (quote := _open_quote(command[: place.start()])):
                return " ".join(map(shlex.quote, taken))
            # The template's quotes are closed before it and opened again behind it: quotes do not nest.
            return quote + shlex.quote(" ".join(taken) if place[1] else arguments) + quote

        return _PLACE.sub(argument, command)

    def _taken(self, place: re.Match[str], words: list[str]) -> list[str]:
        if place[1] is None:
            return words
        index = int(place[1])
        return words[index - 1 :] if index == self._last else words[index - 1 : index]


def _open_quote(before: str) -> str:
    """The quotes that the end of this text stands in, as a shell reads it: a substitution begins anew inside them."""
    around, skip = [""], False
    for number, character in enumerate(before):
        here = around[-1]
        if skip:
            skip = False
        elif character == "\\" and here != "'":
            skip = True
        elif character == here or (character == ")" and here == "("):
            around.pop()
        elif here == "'":
            continue
        elif character == "(" and (here != '"' or before[number - 1 : number] == "$"):
            around.append("(")
        elif character == '"' or (character == "'" and here != '"'):
            around.append(character)
    return around[-1] if around[-1] != "(" else ""


async def _output(shell: Shell, command: str, number: int) -> str:
    if number >= MOST_SHELL_COMMANDS:
        return NOT_RUN.format(command=command, reason=f"a template runs at most {MOST_SHELL_COMMANDS} commands")
    try:
        output = await shell(command)
    except ToolFailure as failure:
        return NOT_RUN.format(command=command, reason=str(failure)[:INSERT_CHARACTERS])
    if len(output) > INSERT_CHARACTERS:
        return output[:INSERT_CHARACTERS] + CUT.format(count=INSERT_CHARACTERS)
    return output


def _words(arguments: str) -> list[str]:
    """As a shell would split them; an unclosed quote is just a character."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
