"""Taking back prompts, the first one included."""

from __future__ import annotations

import pytest
from tests.outside.scripted_provider import Turn
from tests.outside.world import World, ask, newest, text_of

from holdfast import ForkThrough, Holdfast, PromptInput, Session

pytestmark = pytest.mark.anyio

LARGE = "word " * 24_000
SMALL = {"context": 24_000, "output": 1000}


async def take_back(hf: Holdfast, session: Session, prompt: str) -> None:
    await hf.sessions.stage_revert(session.id, message_id=prompt, before=True)
    await hf.sessions.commit_revert(session.id)


async def test_a_first_prompt_that_is_too_large_can_be_taken_back(world: World) -> None:
    """CMP-057, SES-489: the error says how, and the Session then works with prompts that fit."""
    world.configure(provider={"mock": world.provider(limit=SMALL)})
    async with world.host() as hf:
        session = await hf.sessions.create()
        large = await hf.sessions.prompt(session.id, prompt=PromptInput(text=LARGE))
        outcome = await hf.sessions.outcome(session.id)
        assert outcome.type == "failed"
        assert f"holdfast sessions undo {session.id}" in (outcome.error or "")
        small = await hf.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
        outcome = await hf.sessions.outcome(session.id)
        assert outcome.type == "failed"
        assert "What has no answer yet is too large" in (outcome.error or "")
        assert world.model.requests == []
        await take_back(hf, session, small.id)
        await take_back(hf, session, large.id)
        assert await hf.sessions.context(session.id) == []
        assert (await hf.sessions.outcome(session.id)).type == "idle"
        assert (await hf.sessions.overview()).items[0].status == "new"
        await ask(hf, session, "small")
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert [text for role, text in world.model.last.said] == ["small"]
        assert await hf.verify() == []


async def test_the_next_prompt_commits_it_and_nothing_of_it_is_sent(world: World) -> None:
    """SES-173, SES-489: a second stage moves the boundary; clearing brings everything back."""
    world.model.plays(Turn(text="one"), Turn(text="two"), Turn(text="three"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        first = await hf.sessions.prompt(session.id, prompt=PromptInput(text="first"))
        await hf.sessions.wait(session.id)
        second = await hf.sessions.prompt(session.id, prompt=PromptInput(text="second"))
        await hf.sessions.wait(session.id)
        before = await hf.sessions.context(session.id)
        for message in (second.id, first.id):
            staged = await hf.sessions.stage_revert(session.id, message_id=message, before=True)
            assert (staged.message_id, staged.before) == (message, True)
        await hf.sessions.clear_revert(session.id)
        assert await hf.sessions.context(session.id) == before
        await hf.sessions.stage_revert(session.id, message_id=second.id, before=True)
        fork = await hf.sessions.fork(session.id, boundary=ForkThrough())
        assert [message.id for message in await hf.sessions.context(fork.id)] == [message.id for message in before[:2]]
        await ask(hf, session, "another")
        assert [text for _, text in world.model.last.said] == ["first", "one", "another"]
        assert text_of(await newest(hf, session)) == "three"
        await take_back(hf, fork, first.id)  # a message that the fork shares
        await ask(hf, fork, "in the fork")
        assert [text for _, text in world.model.last.said] == ["in the fork"]
        assert [message.id for message in (await hf.sessions.context(session.id))[:2]] == [m.id for m in before[:2]]
        assert await hf.verify() == []


async def test_a_revert_without_it_keeps_its_message(world: World) -> None:
    """SES-167: as the contract has it."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        first = await hf.sessions.prompt(session.id, prompt=PromptInput(text="first"))
        await hf.sessions.wait(session.id)
        staged = await hf.sessions.stage_revert(session.id, message_id=first.id)
        assert staged.before is None
        await hf.sessions.commit_revert(session.id)
        assert [message.id for message in await hf.sessions.context(session.id)] == [first.id]
