"""A host in a process of its own, stuck in a turn: `python -m tests.core.session.child DATA PROJECT SESSION WHERE`.

WHERE is `model` (the provider never answers) or `tool` (a call never ends). It says `held` when it is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.core.conftest import HeldTool, ToolRuntime, new_session

from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.prompt import Prompt


async def main(data: Path, project: Path, session_id: str, where: str) -> None:
    held = HeldTool()
    model = ScriptedTransport([Turn(text="calling", calls=(Call(tool="held", input={}),))])
    if where == "model":
        model.hold(0)
    async with ToolRuntime(data=data, directory=project, transport=model, tools={"held": held.tool}) as runtime:
        await new_session(runtime, id=session_id)
        await runtime.sessions.prompt(session_id, Prompt(text="hello"))
        await (model.seen(1) if where == "model" else held.started.wait())
        print("held", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
