"""Random forks, reverts, compactions, deletions and rebuilds, compared with a model that copies lists."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.event.samples import ENSURE_PROJECT, MODEL, raw, record
from tests.stores.stores import STORES

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.context.epoch import Epochs
from holdfast.core.context.metrics import Metrics
from holdfast.core.database.database import PROJECTIONS
from holdfast.core.event.log import EventLog
from holdfast.core.runtime.forks import Forks
from holdfast.core.session.errors import EmptySession
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.core.session.records import SessionRecords
from holdfast.core.session.store import SessionStore
from holdfast.schema.fork_event import LineageShortened
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import NO_TOKENS
from holdfast.schema.session_event import (
    CompactionEnded,
    CompactionUndone,
    PromptAdmitted,
    Prompted,
    RevertCommitted,
    SessionCreated,
    StepEnded,
    StepStarted,
    TextEnded,
    TextStarted,
)

Action = Literal["say", "answer", "compact", "undo", "fork", "fork before", "revert", "delete", "rebuild", "lose"]
TABLES = (
    "session_message",
    "session_message_part",
    "session_lineage",
    "session_attachment",
    "session_input",
    "session",
)

STEPS = st.lists(
    st.tuples(
        st.sampled_from([*get_args(Action), "say", "answer", "fork", "fork before"]),
        st.integers(0, 5),
        st.integers(0, 30),
    ),
    min_size=4,
    max_size=24,
)


class Message(NamedTuple):
    id: str
    type: str


class Machine:
    """Each action happens in the database and to plain lists."""

    def __init__(self, path: Path) -> None:
        self.database = STORES.open(path)
        clock = SystemClock()
        self.ids = Ids(clock, random.Random(7))
        self.log = EventLog(self.database, MANIFEST, SESSION_PROJECTORS, self.ids)
        self.store = SessionStore(self.database)
        self.records = SessionRecords(self.log, self.store, self.ids, clock)
        epochs = Epochs(self.database, self.ids, clock, Metrics())
        self.forks = Forks(self.log, self.store, self.database, epochs, self.ids, clock)
        self.sessions: dict[str, list[Message]] = {}

    async def begin(self) -> None:
        for number in range(2):
            id = f"ses_{number}"
            await self.log.publish(SessionCreated(session_id=id, info=record(id)), before=[ENSURE_PROJECT])
            self.sessions[id] = []

    async def act(self, action: Action, chosen: int, place: int) -> None:
        if not self.sessions:
            return
        id = list(self.sessions)[chosen % len(self.sessions)]
        messages = self.sessions[id]
        stamp: dict[str, Any] = {"timestamp": 1, "session_id": id}
        message = self.ids.message()
        match action:
            case "say":
                prompt: dict[str, Any] = {"message_id": message, "prompt": Prompt(text="x"), "delivery": "steer"}
                await self.log.publish(PromptAdmitted(**stamp, **prompt), Prompted(**stamp, **prompt))
                messages.append(Message(message, "user"))
            case "answer":
                step: dict[str, Any] = {**stamp, "assistant_message_id": message}
                await self.log.publish(
                    StepStarted(**step, agent="build", model=MODEL),
                    TextStarted(**step, text_id="t"),
                    TextEnded(**step, text_id="t", text=message),
                    StepEnded(**step, finish="stop", cost=0.0, tokens=NO_TOKENS),
                )
                messages.append(Message(message, "assistant"))
            case "compact":
                await self.log.publish(CompactionEnded(**stamp, message_id=message, reason="auto", text="s", recent=""))
                messages.append(Message(message, "compaction"))
            case "undo" if messages and messages[-1].type == "compaction":
                undone = messages.pop().id
                await self.log.publish(
                    CompactionUndone(**stamp, message_id=undone, message_seq=await self._seq(id, undone))
                )
            case "fork":
                await self._fork(id, None, messages)
            case "fork before" if messages:
                cut = place % len(messages)
                await self._fork(id, messages[cut].id, messages[:cut])
            case "revert" if messages:
                kept = place % len(messages)
                boundary = messages[kept].id
                seq = await self._seq(id, boundary)
                shortened = [LineageShortened(**stamp, through_seq=seq)] if seq is not None else []
                await self.log.publish(*shortened, RevertCommitted(**stamp, message_id=boundary))
                del messages[kept + 1 :]
            case "delete":
                await self.records.delete(id)
                del self.sessions[id]
            case "rebuild":
                await self.log.rebuild(id)
            case "lose":
                for table in TABLES:
                    raw(self.database.path, f"delete from {table}")
                for aggregate in await self.log.aggregates():
                    await self.log.rebuild(aggregate)

    async def check(self) -> None:
        for id, messages in self.sessions.items():
            expected = [message.id for message in messages]
            assert [row.id for row in await self.store.messages(id, order="asc", limit=1000)] == expected
            assert [row.id for row in await self.store.messages(id, order="desc", limit=4)] == expected[::-1][:4]
            newest = max((n for n, message in enumerate(messages) if message.type == "compaction"), default=None)
            active = [row.id for row in await self.store.active_history(id)]
            if newest is None:
                assert active == expected
            else:
                assert active[0] == expected[newest]
                assert active[len(active) - len(expected[newest + 1 :]) :] == expected[newest + 1 :]
            for n, message in enumerate(expected[:3]):
                row = await self.store.message(id, message)
                after = await self.store.history_after(id, row.seq)
                assert [item.id for item in after] == expected[n + 1 :]
        # Exactly what somebody shows is kept.
        stored = {str(row[0]) for row in raw(self.database.path, "select id from session_message")}
        assert stored == {message.id for messages in self.sessions.values() for message in messages}
        parts = raw(self.database.path, "select json_extract(data, '$.text') from session_message_part")
        answers = {item.id for messages in self.sessions.values() for item in messages if item.type == "assistant"}
        assert {str(row[0]) for row in parts} == answers

    async def finish(self) -> None:
        for aggregate in await self.log.aggregates():
            assert [found async for found in self.log.verify([aggregate])] == []
        await self.log.close()
        self.database.close()

    async def _fork(self, id: str, before: str | None, shared: list[Message]) -> None:
        if before is None and not shared:
            try:
                await self.forks.fork(id, before)
            except EmptySession:
                return
            raise AssertionError("nothing to fork")
        fork = await self.forks.fork(id, before)
        self.sessions[fork.id] = list(shared)

    async def _seq(self, id: str, message_id: str) -> int | None:
        place = await self.store.place(id, message_id)
        assert place is not None
        return place.shared_seq(id)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_forks_are_like_copies(steps: list[tuple[Action, int, int]]) -> None:
    """SES-029, SES-323, SES-324, SES-325, SES-327: whatever happens in whatever order, each Session shows what a copied
    list would; rows that nobody shows are gone; each rebuild, even after all projections were lost, gives the same."""
    assert "lineage" in PROJECTIONS

    async def play() -> None:
        with TemporaryDirectory() as folder:
            machine = Machine(Path(folder) / "holdfast.db")
            await machine.begin()
            for step in steps:
                await machine.act(*step)
                await machine.check()
            await machine.finish()

    asyncio.run(play())
