"""Configurations of the scripted server, and ways to wait for it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from holdfast import Holdfast
from holdfast.schema.mcp import McpServer

SCRIPT = Path(__file__).with_name("scripted.py")
PATIENCE = 20.0


def scripted(*options: str, **config: Any) -> dict[str, Any]:
    """The scripted server as a configuration file names it. Without site packages it starts in 20 ms."""
    return {"type": "local", "command": [sys.executable, "-S", "-E", str(SCRIPT), *options], **config}


async def until(hf: Holdfast, name: str, *states: str) -> McpServer:
    """The server once it is in one of these states."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await server_of(hf, name)
            if found.state in states:
                return found
            await asyncio.sleep(0.005)


async def server_of(hf: Holdfast, name: str) -> McpServer:
    return next(found for found in (await hf.mcp.list()).data if found.name == name)


async def text_of_call(hf: Holdfast, server: str, tool: str, **arguments: Any) -> str:
    result = (await hf.mcp.call(server, tool=tool, arguments=arguments)).data
    return "".join(part.get("text", "") for part in result.content)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


async def until_gone(*pids: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while any(map(alive, pids)):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
