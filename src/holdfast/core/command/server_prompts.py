"""Prompts of MCP servers, called like commands: `server:prompt`. They are listed from what is known of the servers;
nothing of the protocol is imported for that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.command.command import Command
from holdfast.core.command.template import split_arguments
from holdfast.core.mcp.errors import ServerUnavailable
from holdfast.core.mcp.stranger_text import one_line
from holdfast.schema.exceptions import InvalidRequest, ServiceUnavailable
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.command.fetched_prompt import FetchedPrompt
    from holdfast.core.mcp.seam import ManifestPrompt, Servers

SECONDS = 60.0
"""How long a call waits for its prompt, the start of the server included."""
SHOWN = 200

_OTHER = pattern(r"[^a-zA-Z0-9_-]")


class ServerPrompt(Frozen):
    name: str
    """Under which it is listed and called here."""
    server: str
    prompt: ManifestPrompt

    @property
    def command(self) -> Command:
        told = self.prompt.description or self.prompt.title
        return Command(name=self.name, template="", description=told)


class ServerPrompts:
    """Of one Location."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def list(self) -> Mapping[str, ServerPrompt]:
        """By name. Of several that have the same name the first counts, sorted by server and name."""
        found: dict[str, ServerPrompt] = {}
        for server in self._servers.known():
            for prompt in server.manifest.prompts:
                name = f"{_OTHER.sub('_', server.name)}:{_OTHER.sub('_', prompt.name)}"
                found.setdefault(name, ServerPrompt(name, server.name, prompt))
        return found

    async def fetch(self, called: ServerPrompt, arguments: str) -> FetchedPrompt:
        """Starts the server if needed. Nobody is asked anything for it. Raises InvalidRequest for arguments that are
        missing, and ServiceUnavailable."""
        from holdfast.core.command.fetched_prompt import fetched_prompt
        from holdfast.mcp.errors import McpError

        given = _assigned(called, await asyncio.to_thread(split_arguments, arguments))
        try:
            async with asyncio.timeout(SECONDS):
                result = await self._servers.get_prompt(called.server, called.prompt.name, given, None)
        except TimeoutError:
            raise _unavailable(called, f"the server did not send it within {SECONDS:g} s") from None
        except ServerUnavailable as error:
            raise _unavailable(called, error.reason) from error
        except McpError as error:
            raise _unavailable(called, str(error)) from error
        appended = arguments.strip() if not called.prompt.arguments else ""
        fetched = fetched_prompt(called.name, [message.content for message in result.messages], appended)
        if not fetched.text.strip() and not fetched.files:
            raise _unavailable(called, fetched.notes[0] if fetched.notes else "the server sent nothing")
        return fetched


def _assigned(called: ServerPrompt, words: list[str]) -> dict[str, str]:
    """The words in the declared order; the last argument takes all that remain."""
    declared = called.prompt.arguments
    given = {argument.name: word for argument, word in zip(declared, words, strict=False)}
    if declared and len(words) > len(declared):
        given[declared[-1].name] = " ".join(words[len(declared) - 1 :])
    if missing := [argument.name for argument in declared if argument.required and argument.name not in given]:
        names = (one_line(argument.name, SHOWN) for argument in declared)
        usage = " ".join(
            name if argument.required else f"[{name}]" for name, argument in zip(names, declared, strict=True)
        )
        message = f"/{called.name} needs the argument {one_line(missing[0], SHOWN)}: /{called.name} {usage}"
        raise InvalidRequest(f"{message}. The prompt was not admitted.", kind="Payload", field="arguments")
    return given


def _unavailable(called: ServerPrompt, reason: str) -> ServiceUnavailable:
    message = f"The prompt /{called.name} of the MCP server {called.server} cannot be used: {reason}"
    return ServiceUnavailable(message, service="mcp")
