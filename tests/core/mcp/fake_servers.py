"""Servers of a Location that are no processes: manifests by hand, and calls that are recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from holdfast.core.mcp.seam import CallFor, KnownServer, Manifest, ManifestTool
from holdfast.mcp.content import TextContent
from holdfast.mcp.results import Progress, PromptResult, ReadResult, ToolResult

Answer = Callable[[str, str, Mapping[str, Any], Callable[[Progress], None]], Awaitable[ToolResult]]


def tool(name: str, description: str | None = None, **schema: Any) -> ManifestTool:
    """`schema` has the properties of the input, all required."""
    more = {"properties": schema, "required": sorted(schema)} if schema else {}
    return ManifestTool(name=name, description=description, input_schema={"type": "object", **more})


def manifest(*tools: ManifestTool, instructions: str | None = None) -> Manifest:
    return Manifest(instructions=instructions, tools=tuple(sorted(tools, key=lambda tool: tool.name)))


def result(*texts: str, **more: Any) -> ToolResult:
    return ToolResult(content=tuple(TextContent(text=text) for text in texts), **more)


class FakeServers:
    def __init__(self, **manifests: Manifest) -> None:
        self.manifests: dict[str, Manifest] = {}
        self.stored: dict[str, Manifest] = {}
        self.configured = bool(manifests)
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []
        self.whom: list[CallFor | None] = []
        self.answer: Answer = self._echo
        self._known: tuple[KnownServer, ...] = ()
        self.set(**manifests)

    def set(self, **manifests: Manifest) -> None:
        """What is known from now on."""
        self.manifests = dict(manifests)
        known = []
        for name in sorted(manifests):
            hash = hashlib.sha256(msgspec.json.encode(manifests[name], order="sorted")).hexdigest()
            self.stored[hash] = manifests[name]
            known.append(KnownServer(name, hash, manifests[name]))
        self._known = tuple(known)

    def names(self) -> frozenset[str]:
        return frozenset(self.manifests)

    def known(self) -> tuple[KnownServer, ...]:
        return self._known

    async def look_again(self) -> None:
        pass

    def unknown(self) -> tuple[str, ...]:
        return ()

    async def learn(self, names: Collection[str] | None = None) -> bool:
        return False

    async def manifest(self, hash: str) -> Manifest | None:
        return self.stored.get(hash)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        whom: CallFor | None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> ToolResult:
        self.calls.append((server, tool, arguments))
        self.whom.append(whom)
        return await self.answer(server, tool, arguments, on_progress or (lambda progress: None))

    async def read_resource(self, server: str, uri: str, whom: CallFor | None) -> ReadResult:
        raise NotImplementedError

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str], whom: CallFor | None
    ) -> PromptResult:
        raise NotImplementedError

    async def _echo(
        self, server: str, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[Progress], None]
    ) -> ToolResult:
        return result(f"{server} {tool} {msgspec.json.encode(arguments, order='sorted').decode()}")
