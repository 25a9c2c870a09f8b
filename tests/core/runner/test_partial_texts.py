"""What is kept of blocks that are open: when it is written, what each commit holds, and who may write it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import Pair, ToolRuntime, event_types, messages, new_session, tables

from holdfast.core.database.errors import Fenced, StorageFull
from holdfast.core.database.unit import Committed, Statement
from holdfast.core.runner import partial_texts
from holdfast.core.runner.open_blocks import OpenBlocks
from holdfast.core.runner.partial_texts import PartialTexts
from holdfast.llm.offline import ScriptedTransport, Turn
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_message import AssistantMessage, TextPart

pytestmark = pytest.mark.anyio

SOON = 0.05
WORDS = "".join(f"w{number} " for number in range(200))


class Desk:
    """An outbox whose operational writes end as a test says."""

    def __init__(self) -> None:
        self.written: list[tuple[Any, ...]] = []
        self.commits: list[asyncio.Future[Committed]] = []
        self.came = asyncio.Event()

    def write(self, *statements: Statement) -> asyncio.Future[Committed]:
        self.written.append(tuple((row.params["kind"], row.params["start"], row.params["text"]) for row in statements))
        self.commits.append(asyncio.get_running_loop().create_future())
        self.came.set()
        return self.commits[-1]

    async def next(self) -> tuple[Any, ...]:
        await asyncio.wait_for(self.came.wait(), 5)
        self.came.clear()
        return self.written[-1]


class Writer:
    def __init__(self) -> None:
        self.desk, self.blocks = Desk(), OpenBlocks()
        outbox: Any = self.desk
        self.partials = PartialTexts(outbox, self.blocks, "ses_1")
        self.partials.begin("msg_1")

    def add(self, text: str, kind: Any = "text") -> None:
        self.blocks.add(kind, "b", text)
        self.partials.keep_soon()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_texts, "KEEP_SECONDS", SOON)


@pytest.fixture
async def writer() -> Writer:
    writer = Writer()
    writer.blocks.begin("text", "b")
    return writer


async def test_each_commit_holds_what_was_added(writer: Writer) -> None:
    """SES-470: of all open blocks; the pieces of a block follow one another."""
    writer.blocks.begin("input", "b")
    writer.add("one ")
    writer.add("{", "input")
    assert await writer.desk.next() == (("text", 0, "one "), ("tool", 0, "{"))
    writer.desk.commits[0].set_result(Committed(-1, -1))
    await asyncio.sleep(0)
    writer.add("two ")
    assert await writer.desk.next() == (("text", 4, "two "),)


async def test_text_whose_commit_failed_is_written_again(writer: Writer) -> None:
    """SES-470: from where it began, with what came since, and not before the next second."""
    writer.add("one ")
    await writer.desk.next()
    writer.add("two ")
    await asyncio.sleep(SOON * 3)
    assert len(writer.desk.written) == 1  # one commit is under way at a time
    writer.desk.commits[0].set_exception(StorageFull("the disk"))
    assert await writer.desk.next() == (("text", 0, "one two "),)


async def test_a_process_that_lost_its_lease_stops(writer: Writer) -> None:
    """SES-470."""
    writer.add("one ")
    await writer.desk.next()
    writer.desk.commits[0].set_exception(Fenced("ses_1"))
    await asyncio.sleep(0)
    writer.add("two ")
    await asyncio.sleep(SOON * 3)
    assert len(writer.desk.written) == 1


async def test_a_block_that_ends_before_a_second_has_passed_is_not_written(writer: Writer) -> None:
    """SES-470: and there is nothing to remove then."""
    writer.add("one ")
    assert writer.partials.removal(writer.blocks.end("text", "b")) == ()
    await asyncio.sleep(SOON * 3)
    assert writer.desk.written == []


async def test_a_block_that_ends_while_it_is_written_is_removed(writer: Writer) -> None:
    """SES-471: the next block under its id begins anew."""
    writer.add("one ")
    await writer.desk.next()
    (removal,) = writer.partials.removal(writer.blocks.end("text", "b"))
    assert removal.name == "partial.end"
    writer.blocks.begin("text", "b")
    writer.desk.commits[0].set_result(Committed(-1, -1))
    await asyncio.sleep(0)
    writer.add("again ")
    assert await writer.desk.next() == (("text", 0, "again "),)


# -- with a store ------------------------------------------------------------------------------------------------------


def kept(runtime: ToolRuntime) -> str:
    with tables(runtime) as sql:
        return "".join(str(text) for (text,) in sql("select text from session_partial order by start"))


async def until_kept(runtime: ToolRuntime, longer_than: int = 0) -> str:
    async with asyncio.timeout(20):
        while len(text := kept(runtime)) <= longer_than:  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.02)
    return text


@pytest.fixture
def slow() -> ScriptedTransport:
    return ScriptedTransport([Turn(text=WORDS, pace=0.005), Turn(text="done")])


async def test_readers_see_it_grow_and_the_end_removes_it(
    slow: ScriptedTransport, tmp_path: Path, project: Path
) -> None:
    """SES-470, SES-471, SES-472: no event tells of it, and nothing is left."""
    async with ToolRuntime(data=tmp_path / "data", directory=project, transport=slow) as runtime:
        session = await new_session(runtime)
        await runtime.sessions.prompt(session.id, Prompt(text="tell"))
        first = await until_kept(runtime)
        types = await event_types(runtime, session.id)
        await until_kept(runtime, len(first))
        assert await event_types(runtime, session.id) == types
        (part,) = (await answer(runtime, session.id)).content
        assert isinstance(part, TextPart)
        assert part.text == ""
        assert part.partial is not None
        assert WORDS.startswith(part.partial)
        assert part.partial.startswith(first)
        await runtime.sessions.wait(session.id)
        assert (await answer(runtime, session.id)).content == (TextPart(id=part.id, text=WORDS),)
        assert kept(runtime) == ""


async def test_a_rebuild_leaves_it_alone_and_a_deletion_does_not(
    slow: ScriptedTransport, tmp_path: Path, project: Path
) -> None:
    """SES-471."""
    async with ToolRuntime(data=tmp_path / "data", directory=project, transport=slow) as runtime:
        session = await new_session(runtime)
        await runtime.sessions.prompt(session.id, Prompt(text="tell"))
        before = await until_kept(runtime)
        await runtime.log.rebuild(session.id)
        assert kept(runtime).startswith(before)
        await runtime.sessions.delete(session.id)
        assert kept(runtime) == ""


async def test_an_owner_that_lost_its_lease_keeps_nothing_more(pair: Pair) -> None:
    """SES-470: a newer token makes the commit fail, as any of the old drain."""
    pair.model_a._turns = [Turn(text=WORDS, pace=0.005)]
    await pair.a.sessions.prompt(pair.session.id, Prompt(text="tell"))
    await until_kept(pair.a)
    with tables(pair.b) as sql:
        sql("update session_lease set owner_id = 'own_other', token = token + 1")
    before = kept(pair.b)
    await asyncio.sleep(SOON * 4)
    assert kept(pair.b) == before


async def answer(runtime: ToolRuntime, session_id: str) -> AssistantMessage:
    message = (await messages(runtime, session_id))[-1]
    assert isinstance(message, AssistantMessage)
    return message
