"""A client of the official package. Prints what it got from the server of `our_server.py`, for each way to connect."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from mcp import Client, StdioServerParameters

SERVER = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).parent / "our_server.py")])


async def elicited(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": f"Ada, asked: {params.message}"})


def text(result: Any) -> str:
    [content] = result.content
    return str(content.text)


async def visit(mode: Any) -> dict[str, Any]:
    changed = anyio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    reports: list[Any] = []

    async def reported(progress: float, total: float | None, message: str | None) -> None:
        reports.append([progress, total, message])

    async with Client(SERVER, mode=mode, elicitation_callback=elicited, message_handler=heard) as client:
        found: dict[str, Any] = {"version": client.protocol_version, "instructions": client.instructions}
        info = client.server_info
        found["server"] = info.name if info is not None else None
        found["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        added = await client.call_tool("add", {"a": 1, "b": 2})
        found["add"] = [text(added), added.structured_content]
        failed = await client.call_tool("fail", {})
        found["fail"] = [text(failed), failed.is_error]
        found["steps"] = text(await client.call_tool("steps", {}, progress_callback=reported))
        found["progress"] = reports
        found["ask"] = text(await client.call_tool("ask", {}))
        try:
            await client.call_tool("nothing", {})
        except MCPError as error:
            found["unknown"] = [error.code, error.message]
        waiting = anyio.Event()

        async def started(progress: float, total: float | None, message: str | None) -> None:
            waiting.set()

        async with anyio.create_task_group() as group:

            async def wait() -> None:
                await client.call_tool("wait", {}, progress_callback=started)

            group.start_soon(wait)
            await waiting.wait()
            group.cancel_scope.cancel()
        found["cancelled"] = text(await client.call_tool("cancellations", {}))
        if found["version"] == "2026-07-28":
            async with client.listen(tools_list_changed=True) as subscription:
                await client.call_tool("change", {})
                found["changed"] = type(await anext(subscription)).__name__
        else:
            await client.call_tool("change", {})
            with anyio.fail_after(10):
                await changed.wait()
            found["changed"] = "ToolsListChanged"
    return found


async def main() -> None:
    print(json.dumps([await visit("legacy"), await visit("auto")]))


asyncio.run(main())
