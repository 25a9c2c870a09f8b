"""Calls in the text of a prompt: `/name arguments` calls a command, `!command` runs a shell command."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from holdfast.schema.deferred import deferred
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    import shlex
    from collections.abc import Iterable

    from holdfast.cli.run import Ask
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.location import Location
else:
    shlex = deferred("shlex")

PLAIN_TEXT = "A prompt that begins with a slash and is no call needs a space before it."
SIMILAR = 3

_SLASH = pattern(r"/([^\s/]+(?:/[^\s/]+)*)(?:\s+([\s\S]*))?\Z")


class Call(NamedTuple):
    """What the text of a prompt calls. All fields are None for an ordinary prompt."""

    command: str | None = None
    arguments: str = ""
    shell: str | None = None


def read_call(text: str) -> Call:
    if text.startswith("!"):
        return Call(shell=text[1:].strip())
    found = _SLASH.match(text)
    return Call(command=found[1], arguments=found[2] or "") if found is not None else Call()


def joined(words: Iterable[str], *, quoting: bool) -> str:
    """The words of the command line as one text. `quoting` keeps a word with white space in it one argument, if there
    are several."""
    words = tuple(words)
    if not quoting or len(words) == 1:
        return " ".join(words)
    return " ".join(shlex.quote(word) if not word or any(map(str.isspace, word)) else word for word in words)


async def known_command(client: AsyncClient, ask: Ask, location: Location) -> Ask:
    """The same if the command exists. Text that begins like a path and names no command is an ordinary prompt."""
    names = [command.name for command in (await client.commands.list(location=location)).data]
    if ask.command in names:
        if ask.system is not None or ask.no_reply or ask.schema is not None:
            raise click.UsageError(f"the command {ask.command} takes no --system, --format or --no-reply")
        return ask
    assert ask.command is not None
    if ask.typed is not None and "/" in ask.command:
        return ask._replace(command=None, text=ask.typed)
    raise _unknown(ask.command, names, location, typed=ask.typed is not None)


def _unknown(name: str, names: list[str], location: Location, *, typed: bool) -> click.BadParameter:
    import difflib

    near = difflib.get_close_matches(name[:200], names, n=SIMILAR)
    similar = f"; similar: {', '.join(near)}" if near else ""
    message = f"no command {name} in {location.directory}{similar}; `holdfast commands` lists them"
    if typed:
        return click.BadParameter(f"{message}. {PLAIN_TEXT}", param_hint="PROMPT")
    return click.BadParameter(message, param_hint="--command")
