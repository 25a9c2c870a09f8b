"""Give the model a tool of your own.

The name, the types and the docstring of a function tell the model what the tool does. `demo/scripted` plays
own_tool.json: it calls the tool, then answers.

    python examples/own_tool.py
"""

import asyncio
import os
from pathlib import Path

from holdfast import Holdfast, ToolContext, ToolFailure

SCRIPT = {"HOLDFAST_SCRIPT": str(Path(__file__).with_name("own_tool.json"))}
TICKETS = {7: "The export button is hidden on small screens."}


async def main() -> None:
    async with Holdfast(environment={**os.environ, **SCRIPT}) as hf:

        @hf.tool
        async def ticket(number: int, context: ToolContext) -> str:
            """Look up a ticket.

            Args:
                number: The number of the ticket.
            """
            print(f"[{context.tool_call_id}] looking up ticket {number}")
            if number not in TICKETS:
                raise ToolFailure(f"There is no ticket {number}.")  # the model reads this and can go on
            return TICKETS[number]

        print((await hf.run("What is ticket 7 about?", model="demo/scripted")).text)


asyncio.run(main())
