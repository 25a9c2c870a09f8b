"""One-shot answers on the settled history of a Session."""

from __future__ import annotations

import asyncio

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.world import UNCHECKED, World, ask, types

from holdfast import ApiError

pytestmark = pytest.mark.anyio

USAGE = {"prompt_tokens": 1000, "completion_tokens": 10}


async def test_an_answer_is_generated_and_nothing_is_added(world: World) -> None:
    """SES-304, API-488: it sees the baseline and the history, has no tools, and leaves usage only."""
    priced = world.provider(cost={"input": 1, "output": 2})
    world.configure(provider={"mock": priced})
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "remember 42")
        before = await types(hf, session), await hf.sessions.context(session.id)
        world.model.plays(Turn(text="It was 42.", usage=USAGE))
        cost = (await hf.sessions.get(session.id)).cost
        answer = await hf.sessions.generate(session.id, prompt="Which number?")

        assert answer.text == "It was 42."
        assert (await types(hf, session), await hf.sessions.context(session.id)) == before
        assert (await hf.sessions.get(session.id)).cost > cost
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        await ask(hf, session, "next")
        assert await hf.verify() == []
    first, generated, after = world.model.requests
    assert generated.said == [("user", "remember 42"), ("assistant", "done"), ("user", "Which number?")]
    assert generated.system == first.system
    assert generated.tools == []
    assert b"Which number?" not in after.raw


async def test_it_works_before_the_first_prompt(world: World) -> None:
    """SES-304: with the baseline that the Session would begin with; none is stored."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.put_instruction(session.id, key="a", value="Facts matter.")
        await hf.sessions.generate(session.id, prompt="Hello?")
        assert (await hf.sessions.request_context(session.id)).__struct_config__.tag == "not initialized"
    assert world.model.last.said == [("user", "Hello?")]
    assert "Facts matter." in world.model.last.system


async def test_it_does_not_wait_for_a_running_turn(world: World) -> None:
    """SES-304: the answer that is being written is not part of the history; the turn goes on."""
    silent = asyncio.Event()
    world.model.plays(calling("read", filePath="hello.txt"), Turn(text="part", end=silent), Turn(text="one-shot"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="go")
        await world.model.asked(2)
        async with asyncio.timeout(PATIENCE):
            assert (await hf.sessions.generate(session.id, prompt="Status?")).text == "one-shot"
        silent.set()
        await hf.sessions.wait(session.id)
        assert (await hf.sessions.outcome(session.id)).type == "completed"
    roles = [role for role, _ in world.model.requests[2].said]
    assert roles[-2:] == ["tool", "user"]


async def test_without_a_model_it_is_unavailable(world: World) -> None:
    """API-488: also without an agent, and when the provider fails."""
    world.configure(holdfast={"titles": False, "retry": {"total_seconds": 0}})
    async with world.host() as hf:
        nobody = await hf.sessions.create(agent="nobody", options=UNCHECKED)
        session = await hf.sessions.create()
        for id, turn in ((nobody.id, None), (session.id, Turn(status=500))):
            if turn is not None:
                world.model.plays(turn)
            with pytest.raises(ApiError) as failed:
                await hf.sessions.generate(id, prompt="Hello?")
            assert (failed.value.status, failed.value.code) == (503, "ServiceUnavailableError")
        with pytest.raises(ApiError) as empty:
            await hf.sessions.generate(session.id, prompt="")
        assert empty.value.status == 400
        with pytest.raises(ApiError) as unknown:
            await hf.sessions.generate("ses_none", prompt="Hello?")
        assert unknown.value.status == 404


async def test_a_caller_that_leaves_ends_it(world: World) -> None:
    """API-488: the Session is as before, and the host closes at once."""
    silent = asyncio.Event()
    world.model.plays(Turn(begin=silent))
    async with world.host() as hf:
        session = await hf.sessions.create()
        asking = asyncio.create_task(hf.sessions.generate(session.id, prompt="Hello?"))
        await world.model.asked(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await types(hf, session) == []
        await ask(hf, session, "go")
    assert world.model.last.said == [("user", "go")]
