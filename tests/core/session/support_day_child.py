"""A process that dies at a commit: `python -m tests.core.session.support_day_child FOLDER SESSION POINT`.

It lives through one boundary with changes and a tool call; right after its POINT-th commit, before anyone is told of
it, it kills itself. With fewer commits than that it ends as usual."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import ManualClock
from tests.core.session.support_day import AGENTS, DAY, MORNING, Place, calling, play, say

from holdfast.core.database.job import Job, Outcome
from holdfast.core.database.writer import Writer
from holdfast.llm.offline import ScriptedTransport


async def main(folder: Path, session_id: str, point: int) -> None:
    outcomes, commits = Writer._outcomes, 0

    def dying(self: Writer, batch: Sequence[Job]) -> list[Outcome]:
        nonlocal commits
        done = outcomes(self, batch)
        if commits == point:
            os.kill(os.getpid(), signal.SIGKILL)
        commits += 1
        return done

    Writer._outcomes = dying  # type: ignore[method-assign]
    place, model = Place(folder), ScriptedTransport()
    async with place.runtime(model, ManualClock(MORNING + DAY)) as runtime:
        play(model, calling(("write", {"path": AGENTS, "content": "Be brief.\n"})))
        await say(runtime, session_id, "two")
        await say(runtime, session_id, "three")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
