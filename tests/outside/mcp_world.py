"""MCP servers on a user's machine: processes that say what the test writes."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.outside.scripted_provider import PATIENCE
from tests.outside.world import World

from holdfast import Holdfast

Json = dict[str, Any]
SCRIPT = Path(__file__).with_name("mcp_script.py")
TEXT: Json = {"type": "string"}


def tool(name: str, description: str = "", **properties: Json) -> Json:
    """A tool as a server lists it. All arguments are required."""
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    return {"name": name, "inputSchema": schema, **({"description": description} if description else {})}


class Peer:
    """One server. What it says can be changed at any time."""

    def __init__(self, folder: Path, name: str, *tools: Json, **more: Any) -> None:
        self.name = name
        self.folder = folder
        folder.mkdir(parents=True)
        self.said: Json = {}
        self.says(tools=list(tools), **more)

    def says(self, **changes: Any) -> None:
        self.said |= changes
        (self.folder / "says.json").write_text(json.dumps(self.said))

    def answers(self, tool: str, **answer: Any) -> None:
        self.says(answers={**self.said.get("answers", {}), tool: answer})

    @property
    def config(self) -> Json:
        return {"type": "local", "command": [sys.executable, "-S", "-E", str(SCRIPT), str(self.folder)]}

    def heard(self, method: str = "tools/call") -> list[Any]:
        """What it was asked, in order."""
        file = self.folder / "heard.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [params for name, params in lines if name == method]

    async def hears(self, method: str = "tools/call") -> None:
        """Returns when it was asked this once more than before."""
        before = len(self.heard(method))
        async with asyncio.timeout(PATIENCE):
            while len(self.heard(method)) == before:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.01)


def peer(world: World, name: str, *tools: Json, **more: Any) -> Peer:
    return Peer(world.home / "peers" / name, name, *tools, **more)


def servers(world: World, *peers: Peer, **document: Any) -> None:
    """Write the user's configuration with these servers."""
    world.configure(
        mcp={"servers": {one.name: {**one.config, **document.pop(one.name, {})} for one in peers}}, **document
    )


async def known(hf: Holdfast, *peers: Peer) -> None:
    """Returns when the servers are connected and what they offer is known."""
    for one in peers:
        await hf.mcp.connect(one.name)
    async with asyncio.timeout(PATIENCE):
        while True:
            found = {server.name: server for server in (await hf.mcp.list()).data}
            if all(found[one.name].status.__class__.__name__ == "McpConnected" for one in peers):
                return
            await asyncio.sleep(0.01)
