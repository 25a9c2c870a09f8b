"""How often a drain waits for the database before a request is sent. Over a network each time costs milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import messages, new_session
from tests.core.session.support_lab import LAB, Lab, Provider, calls, says, tool
from tests.round_trips import Operation, RoundTrips, round_trips, told

from holdfast.schema.budget import Budget
from holdfast.schema.prompt import FileAttachment, OutputFormat, Prompt, PromptOptions

pytestmark = pytest.mark.anyio

MOST = 4
GIVING = 6


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for commits of other processes: that may take a read more, whenever it is due."""
    monkeypatch.setattr("holdfast.core.event.signal.POLL_SECONDS", 1000.0)


class Place:
    """A runtime far away from its database. Its Location is open."""

    def __init__(self, runtime: Lab, provider: Provider, gate: asyncio.Event) -> None:
        self.runtime = runtime
        self.provider = provider
        self.gate = gate
        self.trips = RoundTrips(runtime.database)

    async def session(self) -> str:
        return (await new_session(self.runtime, model=LAB)).id

    async def prompt(self, session_id: str, text: str = "go") -> None:
        await self.runtime.sessions.prompt(session_id, Prompt(text=text))

    async def answered(self, session_id: str) -> None:
        async with asyncio.timeout(20):
            await self.runtime.sessions.wait(session_id)

    async def until_request(self, number: int, *, since: int = 0) -> list[Operation]:
        """What was asked of the database until that request was sent, after the last admission."""
        async with asyncio.timeout(20):
            await self.provider.seen(number)
        operations = self.trips.operations[since:]
        admitted = [place for place, it in enumerate(operations) if "prompt.admitted" in it.what]
        if not admitted:
            return operations
        commit = operations[admitted[-1]]
        return [it for it in operations[admitted[-1] + 1 :] if it.number > commit.number]


@asynccontextmanager
async def place(folder: Path, *replies: Any) -> AsyncIterator[Place]:
    """One Session was answered with `opened`."""
    gate = asyncio.Event()
    gate.set()

    async def held(context: object) -> dict[str, Any]:
        await gate.wait()
        return {}

    provider = Provider(says("opened"), *replies)
    async with Lab(folder, provider, tools={"held": tool(held)}) as runtime:
        it = Place(runtime, provider, gate)
        session_id = await it.session()
        await it.prompt(session_id)
        await it.answered(session_id)
        it.trips.operations.clear()
        yield it


async def test_the_first_prompt_of_a_session(tmp_path: Path) -> None:
    """STO-081: the start, the promotion with the first epoch, the history, the dispatch."""
    async with place(tmp_path) as it:
        await it.prompt(await it.session())
        waited = await it.until_request(2)
        assert round_trips(waited) <= MOST, told(waited)


async def test_a_following_prompt(tmp_path: Path) -> None:
    """STO-081"""
    async with place(tmp_path) as it:
        session_id = await it.session()
        await it.prompt(session_id)
        await it.answered(session_id)
        await it.prompt(session_id)
        waited = await it.until_request(3)
        assert round_trips(waited) <= MOST, told(waited)


async def test_a_step_after_tool_calls(tmp_path: Path) -> None:
    """STO-081: the calls, then the dispatch with their results; a boundary at which nothing waits reads nothing."""
    async with place(tmp_path, calls(("held", {})), calls(("held", {})), says("done")) as it:
        session_id = await it.session()
        await it.prompt(session_id)
        await it.until_request(2)
        for number in (3, 4):
            since = len(it.trips.operations)
            waited = await it.until_request(number, since=since)
            assert round_trips(waited) <= MOST, told(waited)
        assert [operation.what.partition(" ")[0] for operation in waited] == ["commit", "commit"], told(waited)


async def test_a_steer_at_a_boundary(tmp_path: Path) -> None:
    """STO-081: the input, its promotion after what the step has left to say, the history, the dispatch."""
    async with place(tmp_path, calls(("held", {})), says("done")) as it:
        session_id = await it.session()
        it.gate.clear()
        await it.prompt(session_id)
        await it.until_request(2)
        await it.prompt(session_id, "steer")
        it.gate.set()
        waited = await it.until_request(3)
        assert "steer" in str(it.provider.requests[2]["messages"][-1])
        assert round_trips(waited) <= MOST, told(waited)


async def test_the_first_turn_of_a_child(tmp_path: Path) -> None:
    """STO-081, STO-085: its ancestors are read with the rest."""
    given = {"agent": "general", "description": "look", "prompt": "look around"}
    async with place(tmp_path, calls(("subagent", given)), says("seen"), says("done")) as it:
        await it.prompt(await it.session())
        await it.until_request(2)
        since = len(it.trips.operations)
        waited = [operation for operation in await it.until_request(3) if "turn._execute" not in operation.where]
        assert "look around" in str(it.provider.requests[2]["messages"])
        assert round_trips(waited) <= MOST, told(waited)
        operations = it.trips.operations[since:]
        called, admitted = (
            next(operation.number for operation in operations if what in operation.what)
            for what in ("tool.called", "prompt.admitted")
        )
        assert admitted - called <= GIVING, told(operations)


async def with_budget(it: Place, session_id: str) -> Prompt:
    await it.runtime.budgets.set(session_id, Budget(turns=100))
    return Prompt(text="go")


async def with_file(it: Place, session_id: str) -> Prompt:
    file = it.runtime.directory / "a.txt"
    file.write_text("hello", encoding="utf-8")
    return Prompt(text="go", files=(FileAttachment(uri=file.as_uri(), mime="text/plain", name="a.txt"),))


async def with_entries(it: Place, session_id: str) -> Prompt:
    await it.runtime.instructions.put(session_id, "key", {"value": 1})
    return Prompt(text="go")


async def with_format(it: Place, session_id: str) -> Prompt:
    return Prompt(text="go", options=PromptOptions(format=OutputFormat(type="json_schema", schema={"type": "object"})))


@pytest.mark.parametrize("prepare", [with_budget, with_file, with_entries, with_format])
async def test_what_a_session_has_besides(tmp_path: Path, prepare: Any) -> None:
    """STO-081: budgets, files, instruction entries and a format for the answer cost no round trip of their own."""
    async with place(tmp_path, says("{}"), says("{}")) as it:
        session_id = await it.session()
        for number in (2, 3):
            prompt = await prepare(it, session_id)
            await it.runtime.sessions.prompt(session_id, prompt)
            waited = await it.until_request(number)
            await it.answered(session_id)
            assert round_trips(waited) <= MOST, told(waited)


async def test_a_compacted_conversation(tmp_path: Path) -> None:
    """STO-081: the input that was open at the checkpoint is read with the history."""
    async with place(tmp_path) as it:
        session_id = await it.session()
        for _ in range(4):
            await it.prompt(session_id, "word " * 12_000)
            await it.answered(session_id)
        await it.runtime.sessions.compact(session_id)
        for _ in range(2):  # the first request after it begins an epoch
            sent = len(it.provider.requests)
            await it.prompt(session_id)
            waited = await it.until_request(sent + 1)
            await it.answered(session_id)
        assert "compaction" in [message.type for message in await messages(it.runtime, session_id)]
        assert round_trips(waited) <= MOST, told(waited)
