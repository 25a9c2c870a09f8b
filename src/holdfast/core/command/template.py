"""Expands command templates: placeholders for arguments, output of shell commands, and mentioned files.

Invariants
- The template is parsed once: arguments and command output are never parsed as template.
- Inside a shell command every argument is quoted: as one word, or as part of the quoted word around it.
- Inserted output is bounded. A denied or failed command leaves a note in its place."""

from __future__ import annotations

import re
import shlex
from typing import Protocol

from holdfast.core.config.authority import SHELL_COMMAND
from holdfast.core.tool.tool import ToolFailure
from holdfast.schema.frozen import Frozen

INSERT_CHARACTERS = 16_000
MOST_SHELL_COMMANDS = 20

NOT_RUN = "[`{command}` was not run: {reason}]"
CUT = "\n[output cut after {count} characters]"

_PLACEHOLDER = r"\$ARGUMENTS(?![A-Za-z0-9_])|\$([1-9])(?!\d)"
_MENTION = r"(?<![\w`@])@([\w~./-]*[\w/-])"


class Shell(Protocol):
    async def __call__(self, command: str) -> str:
        """Ask for permission, run the command in the Location and return its output. Raises ToolFailure."""


class Expanded(Frozen):
    text: str
    mentions: tuple[str, ...]


class Template:
    def __init__(self, text: str) -> None:
        self._text = text
        placeholders = list(re.finditer(_PLACEHOLDER, text))
        self._has_placeholders = bool(placeholders)
        self._last = max((int(found[1]) for found in placeholders if found[1]), default=0)

    async def expand(self, arguments: str, shell: Shell) -> Expanded:
        words = _words(arguments)
        parts: list[str] = []
        mentions: list[str] = []
        end = 0
        for number, match in enumerate(re.finditer(SHELL_COMMAND, self._text)):
            before = self._text[end : match.start()]
            mentions += re.findall(_MENTION, before)
            parts.append(self._filled(before, arguments, words))
            command = self._quoted(match[1], arguments, words)
            parts.append(await _output(shell, command, number))
            end = match.end()
        rest = self._text[end:]
        mentions += re.findall(_MENTION, rest)
        parts.append(self._filled(rest, arguments, words))
        if not self._has_placeholders and arguments.strip():
            parts.append(f"\n\n{arguments}")
        return Expanded("".join(parts), tuple(dict.fromkeys(mentions)))

    def _filled(self, text: str, arguments: str, words: list[str]) -> str:
        def argument(place: re.Match[str]) -> str:
            return " ".join(self._taken(place, words)) if place[1] else arguments

        return re.sub(_PLACEHOLDER, argument, text)

    def _quoted(self, command: str, arguments: str, words: list[str]) -> str:
        def argument(place: re.Match[str]) -> str:
            taken = self._taken(place, words)
            if not (quote := _open_quote(command[: place.start()])):
                return " ".join(map(shlex.quote, taken))
            # Quotes do not nest: close the template's quotes before the argument and reopen them after it.
            return quote + shlex.quote(" ".join(taken) if place[1] else arguments) + quote

        return re.sub(_PLACEHOLDER, argument, command)

    def _taken(self, place: re.Match[str], words: list[str]) -> list[str]:
        if place[1] is None:
            return words
        index = int(place[1])
        return words[index - 1 :] if index == self._last else words[index - 1 : index]


def _open_quote(before: str) -> str:
    """The quote character that is open at the end of this text, by shell rules; a substitution starts a new context."""
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
    """Split like a shell; an unclosed quote is an ordinary character."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
