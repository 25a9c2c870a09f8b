"""An MCP server of the newest protocol version for tests: its tool needs an answer of a model, which its result asks
for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.catalog import Tool
from holdfast.mcp.content import TextContent
from holdfast.mcp.input import InputRequired, Sampling, SamplingAnswer, SamplingMessage
from holdfast.mcp.own_pipes import OwnPipes
from holdfast.mcp.results import ToolResult
from holdfast.mcp.server import Server, ToolCall
from holdfast.mcp.stdio import StdioTransport


class Tools:
    async def tools(self) -> Sequence[Tool]:
        return [Tool(name="ask", input_schema={"type": "object", "properties": {}})]

    async def call(self, call: ToolCall) -> ToolResult | InputRequired:
        answer = call.answers.get("it")
        if not isinstance(answer, SamplingAnswer):
            question = SamplingMessage(role="user", content=TextContent(text="What is it?"))
            return InputRequired({"it": Sampling(messages=[question], max_tokens=100)}, "state")
        assert call.state == "state"
        assert isinstance(answer.content, TextContent)
        return ToolResult((TextContent(text=f"{answer.model} says {answer.content.text}"),))


async def main() -> None:
    server = Server(Implementation(name="newest", version="1"), Tools())
    await server.serve(StdioTransport(await OwnPipes.open()))


asyncio.run(main())
