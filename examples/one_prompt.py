"""Send one prompt and print the answer while the model writes it.

python examples/one_prompt.py ["What does README.md say?"]
"""

import asyncio
import sys

from holdfast import Holdfast, ModelRef, Options, PromptInput, check_outcome
from holdfast.schema.live_event import TextDelta
from holdfast.schema.session_event import StepEnded, StepFailed, TextEnded

MODEL = ModelRef(provider_id="demo", id="echo")


async def show(hf: Holdfast, session_id: str, connected: asyncio.Event) -> None:
    """Print the answer. A step that ends with tool calls is followed by another step."""
    async for event in hf.sessions.events(session_id, live=True, options=Options(on_open=connected.set)):
        match event.data:
            case TextDelta(delta=text):
                print(text, end="", flush=True)
            case TextEnded():
                print()
            case StepEnded(finish=reason) if reason != "tool-calls":
                return
            case StepFailed():
                return
            case _:
                pass


async def main(question: str) -> None:
    async with Holdfast() as hf:  # the project is the current directory
        session = await hf.sessions.create(model=MODEL)
        connected = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(show(hf, session.id, connected))
            await connected.wait()  # deltas are live events: whoever connects later does not get them
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=question))
        check_outcome(await hf.sessions.outcome(session.id))  # raises ActivityFailed if the turn failed


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "What does README.md say?"))
