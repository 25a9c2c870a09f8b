"""Prompts of MCP servers, called like commands: `server:prompt`.

Invariants
- What a server sends is text of a stranger: nothing in it is a mention, a placeholder or a shell command.
- Nothing of it is dropped in silence: what is not text is attached, or a note names it."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING

from holdfast.core.command.command import Command
from holdfast.core.command.template import split_arguments
from holdfast.core.filesystem.content import PLAIN, UNKNOWN
from holdfast.core.mcp.errors import ServerUnavailable
from holdfast.core.mcp.stranger_text import one_line
from holdfast.mcp.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from holdfast.mcp.errors import McpError
from holdfast.schema.exceptions import InvalidRequest, ServiceUnavailable
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern
from holdfast.schema.prompt import FileAttachment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.mcp.seam import ManifestPrompt, Servers
    from holdfast.mcp.content import Content

SECONDS = 60.0
"""How long a call waits for its prompt, the start of the server included."""
SHOWN = 200
MOST_NOTES = 20
LEFT_OUT = "The prompt {name} has content that was left out: {reason}"

_OTHER = pattern(r"[^a-zA-Z0-9_-]")
_MEDIA_TYPE = pattern(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")


class ServerPrompt(Frozen):
    name: str
    """Under which it is listed and called here."""
    server: str
    prompt: ManifestPrompt

    @property
    def command(self) -> Command:
        told = self.prompt.description or self.prompt.title
        return Command(name=self.name, template="", description=told)


class FetchedPrompt(Frozen):
    """What a server made of a call. `own` is where the caller's arguments begin that follow its text."""

    text: str
    own: int
    files: tuple[FileAttachment, ...] = ()
    notes: tuple[str, ...] = ()


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
        return _fetched(called, [message.content for message in result.messages], appended)


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


def _fetched(called: ServerPrompt, contents: Iterable[Content], appended: str) -> FetchedPrompt:
    texts: list[str] = []
    files: list[FileAttachment] = []
    notes: list[str] = []
    for content in contents:
        match content:
            case TextContent(text=text):
                texts.append(text)
            case ResourceLink(uri=uri):
                texts.append(one_line(uri, SHOWN * 10))
            case ImageContent(data=data, mime_type=mime) | AudioContent(data=data, mime_type=mime):
                _attach(called, files, notes, data, mime, f"{called.name} {len(files) + 1}")
            case EmbeddedResource(resource=resource):
                own = _encoded(resource.text) if resource.text is not None else resource.blob or ""
                kind = resource.mime_type or (PLAIN if resource.text is not None else UNKNOWN)
                _attach(called, files, notes, own, kind, one_line(resource.uri, SHOWN))
            case _:
                notes.append(LEFT_OUT.format(name=called.name, reason=one_line(content.reason, SHOWN)))
    text = "\n".join(texts)
    begin = len(text)
    if appended:
        text = f"{text}\n\n{appended}"
        begin += 2
    return FetchedPrompt(text, begin, tuple(files), tuple(notes[:MOST_NOTES]))


def _attach(
    called: ServerPrompt, files: list[FileAttachment], notes: list[str], data: str, mime: str, name: str
) -> None:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        notes.append(LEFT_OUT.format(name=called.name, reason=f"the base64 of {name} is broken"))
        return
    kind = mime.partition(";")[0].strip().lower()
    kind = kind if _MEDIA_TYPE.fullmatch(kind) else UNKNOWN
    files.append(FileAttachment(uri=f"data:{kind};base64,{data}", mime=kind, name=name))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def _unavailable(called: ServerPrompt, reason: str) -> ServiceUnavailable:
    message = f"The prompt /{called.name} of the MCP server {called.server} cannot be used: {reason}"
    return ServiceUnavailable(message, service="mcp")
