"""Send one prompt and print the answer while the model writes it.

python examples/one_prompt.py ["What does README.md say?"]
"""

import asyncio
import sys

from holdfast import Holdfast, ToolStarted


async def main(question: str) -> None:
    async with Holdfast() as hf:  # the project is the current directory
        session = await hf.sessions.create(model="demo/echo")
        async for piece in hf.stream(session, question):  # raises ActivityFailed if the turn fails
            if isinstance(piece, ToolStarted):
                print()  # the text so far is one message, and another one follows
            print(piece.text, end="", flush=True)
        print()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "What does README.md say?"))
