"""A command's template: places for arguments, shell commands whose output is inserted, and named files.

Invariants
- The template is read once, before anything is put into it: neither an argument nor a command's output is ever read as
  template.
- Inside a shell command every argument is one quoted word.
- What a shell command inserts is bounded; that it was denied or failed is said in its place."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.core.tool.tool import ToolFailure

if TYPE_CHECKING:
    from collections.abc import Callable

INSERT_CHARACTERS = 16_000
MOST_SHELL_COMMANDS = 20

NOT_RUN = "[`{command}` was not run: {reason}]"
CUT = "\n[output cut after {count} characters]"

_SHELL = re.compile(r"!`([^`\n]+)`")
_PLACE = re.compile(r"\$ARGUMENTS(?![A-Za-z0-9_])|\$([1-9])(?!\d)")
_MENTION = re.compile(r"(?<![\w`@])@([\w~./-]*[\w/-])")


class Shell(Protocol):
    async def __call__(self, command: str) -> str:
        """Ask for permission, run in the Location, give the output; ToolFailure says why there is none."""


class Expanded(NamedTuple):
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
        for number, match in enumerate(_SHELL.finditer(self._text)):
            before = self._text[end : match.start()]
            mentions += _MENTION.findall(before)
            parts.append(self._filled(before, arguments, words, _verbatim))
            command = self._filled(match[1], arguments, words, shlex.quote)
            parts.append(await _output(shell, command, number))
            end = match.end()
        rest = self._text[end:]
        mentions += _MENTION.findall(rest)
        parts.append(self._filled(rest, arguments, words, _verbatim))
        if not self._has_places and arguments.strip():
            parts.append(f"\n\n{arguments}")
        return Expanded("".join(parts), tuple(dict.fromkeys(mentions)))

    def _filled(self, text: str, arguments: str, words: list[str], quote: Callable[[str], str]) -> str:
        def argument(place: re.Match[str]) -> str:
            if place[1] is None:
                return arguments if quote is _verbatim else " ".join(map(quote, words))
            index = int(place[1])
            taken = words[index - 1 :] if index == self._last else words[index - 1 : index]
            return " ".join(map(quote, taken))

        return _PLACE.sub(argument, text)


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


def _verbatim(text: str) -> str:
    return text
