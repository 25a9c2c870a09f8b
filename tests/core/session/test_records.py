"""The Session's own record: titles, renaming, archiving, deleting; and which provider texts mean an overflow."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.core.conftest import event_types, new_session, tables
from tests.core.session.support_lab import LAB, Lab, Provider, refuses, says

from holdfast.core.database.errors import Moved
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.errors import Interrupted, SessionNotFound
from holdfast.core.session.stored_sessions import SessionFilter
from holdfast.llm.errors import classify
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio


class Titled(Lab):
    """With titles, as the product has them."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        super().__init__(folder, provider)
        self._options = self._options.replace(titles=True)


async def titled(runtime: Runtime, session_id: str) -> Session:
    """After the background work that an exchange started."""
    await runtime.sessions.wait(session_id)
    if tasks := list(runtime._titles._tasks.values()):
        await asyncio.wait(tasks)
    return await runtime.sessions.get(session_id)


async def test_an_unnamed_session_is_named_once(tmp_path: Path) -> None:
    """SES-026: after the first completed exchange, short, by a durable event; a later prompt does not change it."""
    async with Titled(tmp_path, Provider()) as runtime:
        session = await new_session(runtime, model=LAB)
        assert session.title.startswith("New session - ")
        await runtime.sessions.prompt(session.id, Prompt(text="Fix the parser, please.\n\n" + "details " * 100))
        named = await titled(runtime, session.id)
        assert named.title == "Fix the parser, please"
        assert (await event_types(runtime, session.id)).count("session.updated") == 1
        await runtime.sessions.prompt(session.id, Prompt(text="something else"))
        assert (await titled(runtime, session.id)).title == named.title
        assert await runtime.verify() == []


async def test_a_title_that_a_user_set_stays(tmp_path: Path) -> None:
    """SES-026, SES-027: also one that is given while the exchange is still running."""
    provider = Provider()
    gate = provider.hold(0)
    async with Titled(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="hello there"))
        await provider.seen(1)
        await runtime.sessions.rename(session.id, "Mine")
        gate.set()
        assert (await titled(runtime, session.id)).title == "Mine"


async def test_a_failed_exchange_has_its_prompt_as_title_and_closing_waits_for_nobody(tmp_path: Path) -> None:
    """SES-026, CLI-033: no model is asked, and the work is bounded by the runtime's life."""
    async with Titled(tmp_path, Provider(refuses("no"))) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="hello there"))
        assert (await titled(runtime, session.id)).title == "hello there"


async def test_renaming_and_archiving_are_durable_and_disturb_nothing(tmp_path: Path) -> None:
    """SES-027: events that change the title or the archive mark and nothing else, also while a turn runs."""
    provider = Provider(says("one", usage={"prompt_tokens": 10, "completion_tokens": 2}))
    gate = provider.hold(0)
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="hello"))
        await provider.seen(1)
        assert (await runtime.sessions.rename(session.id, "Mine")).title == "Mine"
        assert (await runtime.sessions.archive(session.id)).time.archived is not None
        gate.set()
        await runtime.sessions.wait(session.id)
        now = await runtime.sessions.get(session.id)
        assert (now.title, now.time.archived is not None) == ("Mine", True)
        assert (now.tokens.input, now.tokens.output) == (10, 2)
        assert (await runtime.sessions.archive(session.id, archived=False)).time.archived is None
        assert (await event_types(runtime, session.id)).count("session.updated") == 3
        with pytest.raises(SessionNotFound):
            await runtime.sessions.rename("ses_none", "x")
        assert await runtime.verify() == []


async def test_a_rename_that_never_gets_through_says_so(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-027: a Session that records without pause cannot make a rename look done."""
    session = await new_session(runtime)
    latest = runtime.log.latest

    async def behind(aggregate_id: str) -> int:
        return await latest(aggregate_id) - 1

    monkeypatch.setattr(runtime.log, "latest", behind)
    with pytest.raises(Moved):
        await runtime.sessions.rename(session.id, "new")
    assert (await runtime.sessions.get(session.id)).title == session.title


async def test_deleting_stops_removes_and_keeps_the_events(tmp_path: Path) -> None:
    """SES-028: what runs is interrupted first; the row and all that hangs on it go; the stream of events stays."""
    provider = Provider()
    provider.hold(0)
    async with Lab(tmp_path, provider) as runtime:
        session, other = [await new_session(runtime, model=LAB) for _ in range(2)]
        await runtime.sessions.prompt(session.id, Prompt(text="hello"), resume=False)
        joined = asyncio.create_task(runtime.sessions.run(session.id))
        await provider.seen(1)
        await runtime.sessions.prompt(session.id, Prompt(text="waiting"), resume=False)
        await runtime.sessions.delete(session.id)
        with pytest.raises(Interrupted):
            await joined
        with pytest.raises(SessionNotFound):
            await runtime.sessions.get(session.id)
        with tables(runtime) as sql:
            for table in ("session_message", "session_input", "session_context_epoch", "todo"):
                assert sql(f"select count(*) from {table} where session_id = ?", session.id) == [(0,)]
            assert sql("select count(*) from event where aggregate_id = ?", session.id)[0][0] > 4
        found = await runtime.sessions.page(SessionFilter(), order="desc", limit=10)
        assert [item.id for item in found] == [other.id]
        with pytest.raises(SessionNotFound):
            await runtime.sessions.prompt(session.id, Prompt(text="late"))
        assert await runtime.sessions.interrupted() == []
        assert await runtime.verify() == []


async def test_operations_on_a_deleted_session_fail_and_write_nothing(
    runtime: Runtime, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-010, SES-028: also when it was still there at the first look; nothing is written."""
    sessions = runtime.sessions
    await sessions.delete(session.id)
    before = await event_types(runtime, session.id)

    async def seen_before(session_id: str) -> Session:
        return session

    monkeypatch.setattr(runtime.store, "get", seen_before)
    model = ModelRef(id="other", provider_id="demo")
    for late in (
        sessions.prompt(session.id, Prompt(text="late")),
        sessions.switch_agent(session.id, "plan"),
        sessions.switch_model(session.id, model),
    ):
        with pytest.raises(SessionNotFound):
            await late
    assert await event_types(runtime, session.id) == before


async def test_operations_that_opencode_leaves_unfinished_work(tmp_path: Path) -> None:
    """SES-030: existence is checked first; none of these is unavailable."""
    async with Lab(tmp_path, Provider()) as runtime:
        for operation in (runtime.sessions.compact, runtime.sessions.wait):
            with pytest.raises(SessionNotFound):
                await operation("ses_none")
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.wait(session.id)
        await runtime.sessions.switch_agent(session.id, "quick")


OVERFLOWS = [
    "prompt is too long: 212000 tokens > 200000 maximum",
    "Your input exceeds the context window of this model",
    "This model's maximum context length is 8192 tokens, however you requested 9000 tokens",
    "The input token count (300000) exceeds the maximum number of tokens allowed (200000)",
    "Input is too long for requested model",
    "CONTEXT_LENGTH_EXCEEDED",
    "model_context_window_exceeded",
    "Request entity too large",
    "too many tokens in the request",
    "token limit exceeded",
]
OTHERS = [
    "Rate limit reached: too many tokens per minute",
    "Too many requests, slow down",
    "Service unavailable",
    "Throttling: too many tokens, please wait before trying again",
    "invalid value for temperature",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_texts_that_mean_an_overflow(text: str) -> None:
    """CMP-037: whatever the case."""
    for spelled in (text, text.upper(), text.lower()):
        body = {"error": {"message": spelled}}
        assert classify(400, body, spelled).classification == "context-overflow", spelled


@pytest.mark.parametrize("text", OTHERS)
def test_rate_and_service_limits_are_no_overflow(text: str) -> None:
    """CMP-037: limits of rate and service are never an overflow."""
    assert classify(400, {"error": {"message": text}}, text).classification is None


@pytest.mark.parametrize("status", [400, 413])
def test_a_bare_refusal_without_a_body_is_one(status: int) -> None:
    """CMP-037: some gateways say nothing more."""
    assert classify(status, None, "").classification == "context-overflow"
