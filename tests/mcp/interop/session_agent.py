"""A client of the official package that gives work to a Session through `holdfast mcp serve`. Prints what it got, for
each kind of protocol version. The command to start is its argument."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters

SERVER = StdioServerParameters(command=sys.argv[1], args=["mcp", "serve"], env=dict(os.environ), cwd=os.getcwd())


async def visit(mode: Any) -> dict[str, Any]:
    async with Client(SERVER, mode=mode) as client:
        found: dict[str, Any] = {"version": client.protocol_version}
        found["tools"] = len((await client.list_tools()).tools)
        made = (await client.call_tool("session_create", {"model": "demo/echo"})).structured_content
        assert made is not None
        asked = {"session": made["session"], "text": "one", "wait_seconds": 30}
        done = (await client.call_tool("session_prompt", asked)).structured_content
        assert done is not None
        found["answer"] = [done["state"], done["answer"]]
        read = (await client.call_tool("session_read", {"session": made["session"]})).structured_content
        assert read is not None
        found["read"] = [message["text"] for message in read["messages"]]
        failed = await client.call_tool("session_wait", {"session": "ses_nothing"})
        found["failed"] = failed.is_error
    return found


async def main() -> None:
    print(json.dumps([await visit("legacy"), await visit("auto")]))


asyncio.run(main())
