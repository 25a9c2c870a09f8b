"""A server on the core of `holdfast.mcp`, for clients of the official package."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.catalog import Tool
from holdfast.mcp.content import TextContent
from holdfast.mcp.input import Elicitation, ElicitationAnswer, InputRequired
from holdfast.mcp.own_pipes import OwnPipes
from holdfast.mcp.results import ToolResult
from holdfast.mcp.server import Server, ToolCall, UnknownTool
from holdfast.mcp.stdio import StdioTransport

OBJECT = {"type": "object", "properties": {}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


def said(text: str) -> ToolResult:
    return ToolResult((TextContent(text=text),))


class Tools:
    def __init__(self) -> None:
        self.cancelled = 0

    async def tools(self) -> Sequence[Tool]:
        return [
            Tool(name="add", input_schema=OBJECT, output_schema=TOTAL, description="Adds."),
            *(
                Tool(name=name, input_schema=OBJECT)
                for name in ("fail", "steps", "wait", "cancellations", "ask", "change")
            ),
        ]

    async def call(self, call: ToolCall) -> ToolResult | InputRequired:
        match call.name:
            case "add":
                total = call.arguments["a"] + call.arguments["b"]
                return ToolResult((TextContent(text=str(total)),), {"total": total})
            case "fail":
                return ToolResult((TextContent(text="it does not work"),), is_error=True)
            case "steps":
                for number in (1, 2):
                    await call.report(number, 2, f"step {number}")
                return said("2 steps")
            case "wait":
                await call.report(0, None, "waiting")
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled += 1
                return said("")
            case "cancellations":
                return said(str(self.cancelled))
            case "ask":
                answer = call.answers.get("name")
                if answer is None:
                    return InputRequired({"name": Elicitation(message="Who?", requested_schema=NAME)}, "state")
                assert isinstance(answer, ElicitationAnswer)
                assert call.state == "state"
                return said(f"{answer.action}: {(answer.content or {}).get('name')}")
            case "change":
                await server.tools_changed()
                return said("announced")
            case _:
                raise UnknownTool


server = Server(Implementation(name="ours", version="3"), Tools(), instructions="Ask.")


async def main() -> None:
    pipes = await OwnPipes.open()
    print("printed by mistake", flush=True)
    await server.serve(StdioTransport(pipes))


if __name__ == "__main__":
    asyncio.run(main())
