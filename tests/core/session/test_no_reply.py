"""Prompts that ask for no answer, and options of prompts, where processes die and inputs change at the last moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import event_types, messages, new_session
from tests.core.runtime.test_recovery import stuck
from tests.core.session.support_lab import LAB, OTHER, Lab, Provider, calls, contents, crashed, overflows, says, tool

from holdfast.core.database.unit import Committed
from holdfast.core.runner.history import History
from holdfast.core.session.inbox import Inbox
from holdfast.schema.prompt import Admission, Prompt, PromptOptions
from holdfast.schema.session_message import UserMessage

pytestmark = pytest.mark.anyio

NOTE = Prompt(text="note", options=PromptOptions(no_reply=True))
ROOMY = {"context": 1_000_000, "output": 100}


async def texts(runtime: Lab, session_id: str) -> list[str]:
    return [message.text for message in await messages(runtime, session_id) if isinstance(message, UserMessage)]


async def test_a_process_that_dies_after_the_admission_loses_nothing(tmp_path: Path) -> None:
    """SES-297, SES-077: the next host makes it a message; nobody is asked, and nothing is open afterwards."""

    async def life() -> tuple[Lab, str]:
        runtime = Lab(tmp_path, Provider())
        await runtime.__aenter__()
        session = await new_session(runtime, model=LAB)
        place, nothing = session.location, asyncio.sleep(0)
        await runtime._inbox.admit(
            session.id, NOTE, id="msg_1", delivery="queue", location=place, wake=True, first=lambda: nothing
        )
        return runtime, session.id

    session_id = await crashed(life)
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        assert await runtime.sessions.interrupted() == []
        await runtime.recovery.start()
        await runtime.sessions.wait(session_id)
        assert await texts(runtime, session_id) == ["note"]
        assert await runtime.sessions.interrupted() == []
        assert await runtime.verify() == []
    assert provider.requests == []


@pytest.mark.parametrize("where", ["dispatched", "answering", "tool"])
async def test_it_decides_nothing_about_work_that_was_left(tmp_path: Path, where: str) -> None:
    """SES-297, SES-254: it waits behind the decision, and `wait` does not hang on it."""
    session_id = await stuck(tmp_path, where)
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        await runtime.sessions.prompt(session_id, NOTE, id="msg_note")
        await asyncio.wait_for(runtime.sessions.wait(session_id), 20)
        assert provider.requests == []
        assert [item.id for item in await runtime.sessions.pending(session_id)] == ["msg_note"]
        assert len(await runtime.sessions.interrupted()) == 1
        await runtime.sessions.run(session_id)
        assert await texts(runtime, session_id) == ["hello", "note"]
        assert await runtime.sessions.interrupted() == []
    assert len(provider.requests) == 1


async def test_it_does_not_renew_the_step_allowance(tmp_path: Path) -> None:
    """SES-297, SES-080: notes during a loop do not lengthen it."""
    provider = Provider(calls(("t", {})), calls(("t", {"n": 1})), calls(("t", {"n": 2})), says("end"))

    async def note(context: Any) -> dict[str, Any]:
        await runtime.sessions.prompt(session.id, NOTE)
        return {}

    config = {"agents": {"short": {"mode": "all", "steps": 3}}}
    async with Lab(tmp_path, provider, config=config, tools={"t": tool(note)}) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.switch_agent(session.id, "short")
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        await runtime.sessions.wait(session.id)
    assert len(provider.requests) == 3
    assert "steps" in str(contents(provider.requests[-1])[-1])


async def test_it_is_no_open_input(tmp_path: Path) -> None:
    """CMP-050, SES-297: what a compaction keeps word for word is the prompt that the loop works on."""
    provider = Provider(says("one"), calls(("t", {})), overflows(), says("notes"), says("end"))

    async def note(context: Any) -> dict[str, Any]:
        await runtime.sessions.prompt(session.id, NOTE)
        return {}

    config = {"compaction": {"keep": {"tokens": 0}}}
    async with Lab(tmp_path, provider, config=config, limit=ROOMY, tools={"t": tool(note)}) as runtime:
        session = await new_session(runtime, model=LAB)
        for text in ("first " * 300, "work on this"):
            await runtime.sessions.prompt(session.id, Prompt(text=text))
            await runtime.sessions.wait(session.id)
        assert (await event_types(runtime, session.id))[-1] == "step.ended"
    assert "work on this" in str(contents(provider.requests[-1]))


async def test_an_input_that_is_withdrawn_at_the_last_moment_does_not_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-303, SES-206: the turn is prepared again, with the options of the input that is left."""
    original = Inbox.promote_all

    async def withdrawing(self: Inbox, inputs: Sequence[Admission], *more: Any, **options: Any) -> Committed:
        if inputs and inputs[-1].id == "msg_2":
            await runtime.sessions.withdraw(session.id, "msg_2")
        return await original(self, inputs, *more, **options)

    monkeypatch.setattr(Inbox, "promote_all", withdrawing)
    provider = Provider()
    async with Lab(tmp_path, provider) as runtime:
        session = await new_session(runtime, model=LAB)
        first = Prompt(text="one", options=PromptOptions(system="Be brief."))
        await runtime.sessions.prompt(session.id, first, id="msg_1", resume=False)
        second = Prompt(text="two", options=PromptOptions(model=OTHER))
        await runtime.sessions.prompt(session.id, second, id="msg_2")
        await runtime.sessions.wait(session.id)
    (request,) = provider.requests
    assert request["model"] == "m"
    assert "Be brief." in str(contents(request)[-1])
    assert "two" not in str(contents(request))


async def test_a_closing_text_costs_no_second_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-294: the history is loaded and encoded once for a whole drain."""
    loads = 0
    original = History._load

    async def counted(self: History, *more: Any) -> Any:
        nonlocal loads
        loads += 1
        return await original(self, *more)

    monkeypatch.setattr(History, "_load", counted)
    provider = Provider(*[calls(("t", {"n": number})) for number in range(10)], says("end"))
    async with Lab(tmp_path, provider, tools={"t": tool(lambda context: {})}) as runtime:
        session = await new_session(runtime, model=LAB)
        options = PromptOptions(system="Be brief.")
        await runtime.sessions.prompt(session.id, Prompt(text="go", options=options))
        await runtime.sessions.wait(session.id)
    assert len(provider.requests) == 11
    assert all("Be brief." in str(contents(request)[-1]) for request in provider.requests)
    assert loads == 1
