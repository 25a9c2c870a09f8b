"""The tail against a plain list: whatever is published, announced, closed and reopened in between, it delivers the
public events after its cursor, each once, in order."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.event.samples import Follower, Opened, Story, follow, opened, record, seqs

from holdfast.schema.live_event import TextDelta
from holdfast.schema.session_event import SessionUpdated

Step = Literal["public", "private", "several", "delta", "foreign", "foreign private", "start", "read", "reopen"]
STEPS: tuple[Step, ...] = (
    "public",
    "private",
    "several",
    "delta",
    "foreign",
    "foreign private",
    "start",
    "read",
    "reopen",
)


class Model:
    """One Session, the list of its public sequences, and a reader with a cursor."""

    def __init__(self, here: Opened, there: Opened, session_id: str, after: int) -> None:
        self.here = Story(here.database, here.log, session_id)
        self.there = Story(there.database, there.log, session_id)
        self.public: list[int] = []
        self.received: list[int] = []
        self.cursor = self.first = after
        self.numbers = count()

    @property
    def owed(self) -> list[int]:
        return [seq for seq in self.public if seq > self.first][len(self.received) :]

    async def run(self, steps: list[Step]) -> None:
        await self.here.begin()
        stack = AsyncExitStack()
        async with stack:
            follower = await stack.enter_async_context(self._open())
            for step in steps:
                match step:
                    case "start":
                        await follower.start()
                    case "read" if self.owed:
                        await self._read(follower)
                    case "reopen":
                        await stack.aclose()
                        follower = await stack.enter_async_context(self._open())
                    case _:
                        await self._publish(step)
            while self.owed:
                await self._read(follower)
            assert not (await follower.start()).done(), "nothing more is delivered than was published"
        assert self.received == [seq for seq in self.public if seq > self.first]

    def _open(self) -> AbstractAsyncContextManager[Follower]:
        return follow(self.here.log, self.here.session_id, after=self.cursor)

    async def _read(self, follower: Follower) -> None:
        self.received += seqs(await follower.batch())
        self.cursor = self.received[-1]
        assert self.received == [seq for seq in self.public if seq > self.first][: len(self.received)]

    async def _publish(self, step: Step) -> None:
        session_id = self.here.session_id
        match step:
            case "public":
                self.public.append((await self.here.note(next(self.numbers))).last)
            case "foreign":
                self.public.append((await self.there.note(next(self.numbers))).last)
            case "several":
                done = await asyncio.gather(*(self.here.note(next(self.numbers)) for _ in range(5)))
                self.public += [committed.last for committed in done]
            case "private" | "foreign private":
                story = self.here if step == "private" else self.there
                await story.log.publish(SessionUpdated(session_id=session_id, info=record(session_id)))
            case "delta":
                self.here.log.announce(
                    TextDelta(timestamp=1, session_id=session_id, assistant_message_id="msg_a", text_id="t", delta="d")
                )
            case _:
                pass


def test_a_tail_is_the_list_of_public_events_after_its_cursor(tmp_path: Path) -> None:
    """EVT-021..025, EVT-062: against a plain list model, with a second database on the same file."""
    names = count()
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        here = runner.run(stack.enter_async_context(opened(tmp_path / "h.db", project=True)))
        there = runner.run(stack.enter_async_context(opened(tmp_path / "h.db", seed=5)))

        @settings(max_examples=60, deadline=None, derandomize=True, database=None)
        @given(steps=st.lists(st.sampled_from(STEPS), max_size=25), after=st.integers(-1, 6))
        def check(steps: list[Step], after: int) -> None:
            runner.run(Model(here, there, f"ses_{next(names)}", after).run(steps))

        try:
            check()
        finally:
            runner.run(stack.aclose())
