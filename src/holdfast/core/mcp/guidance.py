"""`core/mcp-guidance`: the MCP servers whose tools an agent may use, their instructions and the names of their tools.

The list is a Context Source and not part of a tool's description: what a server adds or removes is told in one message,
and the requests before it stay a prefix of those after it. It is made of manifests, so that nothing is told when a
connection comes or goes. All of it is text of strangers: bounded, escaped, and inside tags."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.context.source import ABSENT, JsonCodec, Source
from holdfast.core.context.system_context import make
from holdfast.core.mcp.stranger_text import escaped, one_line, printable
from holdfast.core.mcp.tool_names import server_prefix
from holdfast.schema.codec import encode
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from holdfast.core.context.source import Absent
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.mcp.tool_names import NamedTool

KEY = "core/mcp-guidance"
INTRODUCTION = (
    "MCP servers offer these tools. The name of a tool is the prefix of its server and what is listed. Call it by that "
    "name if it is in your list of tools, otherwise with `mcp_call`; `mcp_search` tells what it does and takes. What "
    "is inside the tags was written by the servers."
)
CHANGED = (
    "What MCP servers offer has changed. An entry takes the place of the earlier one of its server, or says which "
    "tools changed."
)
GONE = "No longer available, do not call their tools: {names}."
REMOVED = "The list of MCP servers has ended. Do not call the tools that were listed, unless `mcp_search` finds them."
CHARACTERS_PER_TOKEN = 4
INSTRUCTION_CHARACTERS = (1_500, 800, 400, 200, 100, 0)
"""How much of each server's instructions is told, the most that fits."""
DESCRIPTION_CHARACTERS = (100, 50, 0)
SERVER_CHARACTERS = 80
SHORTENED = "… (shortened)"


class ListedServer(Record):
    name: str
    prefix: str
    tools: tuple[str, ...] = ()
    """Names without the prefix, each with what of its description there was room for."""
    more: int = 0
    """How many tools are not in the list."""
    instructions: str = ""


class ListedServers(Record):
    servers: tuple[ListedServer, ...] = ()
    more: int = 0
    """How many servers are not in the list."""


def guidance(load: Callable[[], Awaitable[ListedServers]]) -> SystemContext:
    async def value() -> ListedServers | Absent:
        listed = await load()
        return listed if listed.servers else ABSENT

    return make(
        Source(
            key=KEY,
            codec=_CODEC,
            load=value,
            baseline=baseline,
            update=update,
            removed=lambda _: REMOVED,
            immediate=True,
        )
    )


# -- texts -------------------------------------------------------------------------------------------------------


def baseline(value: ListedServers) -> str:
    return _text([INTRODUCTION], [_block(server) for server in value.servers], value.more)


def update(previous: ListedServers, current: ListedServers) -> str:
    """Only the servers of which something has changed."""
    before = {server.name: server for server in previous.servers}
    changed = [
        _difference(before.get(server.name), server) for server in current.servers if before.get(server.name) != server
    ]
    names = {server.name for server in current.servers}
    gone = [server.name for server in previous.servers if server.name not in names]
    lines = [CHANGED]
    if gone and not current.more:  # otherwise there may just be no room for them
        lines.append(GONE.format(names=", ".join(escaped(name) for name in gone)))
    return _text(lines, changed, current.more)


def _difference(before: ListedServer | None, server: ListedServer) -> str:
    """The whole entry, or only the tools that were added, changed or removed, if that is all there is."""
    if before is None or before.more or server.more or before.instructions != server.instructions:
        return _block(server)
    known = set(before.tools)
    added = [tool for tool in server.tools if tool not in known]
    names = {_name(tool) for tool in server.tools}
    gone = [_name(tool) for tool in before.tools if _name(tool) not in names]
    if len(added) + len(gone) >= len(server.tools):
        return _block(server)
    lines = [_opening(server, ' change="tools"')]
    if added:
        lines.append(f"added or changed: {_joined(added)}")
    if gone:
        lines.append(f"removed: {_joined(gone)}")
    return "\n".join([*lines, "</server>"])


def _text(lines: list[str], servers: Sequence[str], more: int) -> str:
    if servers:
        lines += ["<mcp_servers>", *servers, "</mcp_servers>"]
    if more:
        lines.append(f"Further servers: {more}; mcp_search finds their tools.")
    return "\n".join(lines)


def _block(server: ListedServer) -> str:
    lines = [_opening(server)]
    if server.instructions:
        lines.append(f"<instructions>{escaped(server.instructions)}</instructions>")
    tools = _joined(server.tools)
    if server.more:
        tools += f"{_separator(server.tools)}and {server.more} more" if tools else f"{server.more} tools"
    return "\n".join([*lines, *([tools] if tools else []), "</server>"])


def _opening(server: ListedServer, attributes: str = "") -> str:
    return f'<server name="{escaped(server.name)}" prefix="{escaped(server.prefix)}"{attributes}>'


def _joined(tools: Sequence[str]) -> str:
    return _separator(tools).join(escaped(tool) for tool in tools)


def _separator(tools: Sequence[str]) -> str:
    """A line for each tool that is described."""
    return "\n" if any(": " in tool for tool in tools) else ", "


def _name(tool: str) -> str:
    return tool.partition(": ")[0]


# -- what fits ---------------------------------------------------------------------------------------------------


def listed_servers(
    tools: Iterable[NamedTool], instructions: Mapping[str, str], most_tokens: int, *, described: bool
) -> ListedServers:
    """The servers of these tools, in about so many tokens. `described` says whether tools are listed with
    descriptions, as far as there is room for them."""
    of: dict[str, list[NamedTool]] = {}
    for tool in tools:
        of.setdefault(tool.server, []).append(tool)
    room = most_tokens * CHARACTERS_PER_TOKEN
    told = _instructions({name: instructions.get(name, "") for name in of}, room // 3)
    described = described and sum(_width(_entry(tool, 0)) for own in of.values() for tool in own) <= room
    for most in DESCRIPTION_CHARACTERS if described else (0,):
        listed = ListedServers(
            servers=tuple(_server(name, [_entry(tool, most) for tool in own], told[name]) for name, own in of.items())
        )
        if _size(listed) <= room:
            return listed
    return _cut(listed, room)


def _cut(listed: ListedServers, room: int) -> ListedServers:
    """As many names of tools as fit, in equal shares; if not even the servers fit, as many of those."""
    bare = _without_tools(listed.servers, room)
    names = [server.tools for server in listed.servers[: len(bare)]]
    needs = [sum(map(_width, own)) + MORE_WIDTH for own in names]
    shares = _shares(needs, room - _size(ListedServers(servers=bare, more=1)))
    told = [_fitting(own, share - MORE_WIDTH) for own, share in zip(names, shares, strict=True)]
    servers = (
        msgspec.structs.replace(server, tools=own, more=server.more - len(own))
        for server, own in zip(bare, told, strict=True)
    )
    return ListedServers(servers=tuple(servers), more=len(listed.servers) - len(bare))


def _without_tools(servers: Sequence[ListedServer], room: int) -> tuple[ListedServer, ...]:
    """The servers with the number of their tools only; if they do not fit like that, without instructions, and then as
    many as fit."""
    replace = msgspec.structs.replace
    bare = tuple(replace(server, tools=(), more=len(server.tools) + server.more) for server in servers)
    if _size(ListedServers(servers=bare, more=1)) > room:
        bare = tuple(replace(server, instructions="") for server in bare)
    while bare and _size(ListedServers(servers=bare, more=1)) > room:
        bare = bare[: len(bare) * 9 // 10]
    return bare


def _shares(needs: Sequence[int], room: int) -> list[int]:
    """Equal shares of the room. What one does not need goes to those that need more."""
    shares = [0] * len(needs)
    for done, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], room // (len(needs) - done))
        room -= shares[index]
    return shares


def _fitting(names: Sequence[str], room: int) -> tuple[str, ...]:
    """The first of these names that fit."""
    widths = accumulate(map(_width, names))
    return tuple(name for name, width in zip(names, widths, strict=True) if width <= room)


def _instructions(given: Mapping[str, str], room: int) -> dict[str, str]:
    clean = {name: _clean(text[: 2 * INSTRUCTION_CHARACTERS[0]]) for name, text in given.items()}
    for most in INSTRUCTION_CHARACTERS:
        told = {name: _shortened(text, most) for name, text in clean.items()}
        if sum(map(len, told.values())) <= room:
            return told
    return dict.fromkeys(given, "")


def _clean(text: str) -> str:
    return "\n".join(line.rstrip() for line in printable(text).strip().splitlines())


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: most - len(SHORTENED)].rstrip() + SHORTENED if most else ""


def _server(name: str, entries: Sequence[str], instructions: str) -> ListedServer:
    shown = one_line(name, SERVER_CHARACTERS)
    return ListedServer(name=shown, prefix=server_prefix(name), tools=tuple(entries), instructions=instructions)


def _entry(named: NamedTool, most: int) -> str:
    name = named.name.removeprefix(server_prefix(named.server))
    text = one_line(named.tool.description or named.tool.title or "", most) if most else ""
    return f"{name}: {text}" if text else name


def _width(name: str) -> int:
    """With its separator."""
    return len(name) + 2


def _size(listed: ListedServers) -> int:
    """Characters of the text in a request."""
    return len(encode(baseline(listed)).decode())


_CODEC = JsonCodec(ListedServers)
MORE_WIDTH = _width("and 0000 more")
