"""Going back to a message, with the files; and taking a Session to another directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.outside.scripted_provider import Turn, calling
from tests.outside.world import World, ask, events, of_type, types, until

from holdfast import ApiError, Holdfast, PromptInput, Session
from holdfast.schema.session_event import Moved

pytestmark = pytest.mark.anyio


async def written(world: World, hf: Holdfast) -> Session:
    """A Session that made one.txt, then changed it and made two.txt."""
    session = await hf.sessions.create()
    for name, contents in (("first", {"one.txt": "1\n"}), ("second", {"one.txt": "1\n2\n", "two.txt": "2\n"})):
        for path, content in contents.items():
            world.model.plays(calling("write", path=path, content=content))
            await ask(hf, session, f"write {path}", id=f"msg_{name}_{path.removesuffix('.txt')}")
    return session


async def test_a_staged_revert_takes_the_files_back_and_can_be_cleared(world: World) -> None:
    """SES-166, SES-167, SES-168, SES-169, SES-170, API-120: the boundary stays; each changed path goes to what it was
    before the first message after it; moving the boundary is exact; clearing brings all of it back."""
    world.repository()
    one, two = world.project / "one.txt", world.project / "two.txt"
    async with world.host() as hf:
        session = await written(world, hf)
        staged = await hf.sessions.stage_revert(session.id, message_id="msg_second_one")
        assert (one.read_text(), two.exists()) == ("1\n", False)
        assert (await hf.sessions.get(session.id)).revert == staged
        assert staged.files is not None
        assert [(file.path, file.status) for file in staged.files] == [("one.txt", "modified"), ("two.txt", "deleted")]
        assert [(file.additions, file.deletions) for file in staged.files] == [(0, 1), (0, 1)]
        assert "-2" in staged.files[0].patch

        further = await hf.sessions.stage_revert(session.id, message_id="msg_first_one")
        assert (one.exists(), two.exists(), further.snapshot) == (False, False, staged.snapshot)
        nearer = await hf.sessions.stage_revert(session.id, message_id="msg_second_two")
        assert (one.read_text(), two.exists(), nearer.snapshot) == ("1\n2\n", False, staged.snapshot)

        for _ in range(2):
            await hf.sessions.clear_revert(session.id)
        assert (one.read_text(), two.read_text()) == ("1\n2\n", "2\n")
        assert (await hf.sessions.get(session.id)).revert is None
        assert (await types(hf, session))[-4:] == ["revert.staged"] * 3 + ["revert.cleared"]


async def test_a_committed_revert_removes_what_followed_and_keeps_the_events(world: World) -> None:
    """SES-171, API-120: messages and inputs after the boundary are gone for the model and for clients;
    committing with nothing staged is nothing."""
    world.repository()
    async with world.host() as hf:
        session = await written(world, hf)
        await hf.sessions.prompt(session.id, id="msg_waiting", prompt=PromptInput(text="later"), resume=False)
        before = await events(hf, session)
        await hf.sessions.commit_revert(session.id)
        assert await events(hf, session) == before
        await hf.sessions.stage_revert(session.id, message_id="msg_second_one", files=False)
        assert (world.project / "two.txt").exists()
        await hf.sessions.commit_revert(session.id)
        assert [message.id for message in await hf.sessions.context(session.id)][-1] == "msg_second_one"
        assert await hf.sessions.pending(session.id) == []
        after = await events(hf, session)
        assert after[: len(before)] == before
        assert [event.type for event in after[len(before) :]] == [
            "session.next.revert.staged",
            "session.next.revert.committed",
        ]
        await ask(hf, session, "go on")
        assert [text for role, text in world.model.last.said if role == "user"] == ["write one.txt"] * 2 + ["go on"]
        assert await hf.verify() == []


async def test_a_prompt_on_a_staged_revert_commits_it(world: World) -> None:
    """SES-173: the model is not shown what a person took back."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one", id="msg_one")
        await ask(hf, session, "two")
        await hf.sessions.stage_revert(session.id, message_id="msg_one")
        await ask(hf, session, "three")
        assert [text for _, text in world.model.last.said] == ["one", "three"]
        assert "revert.committed" in await types(hf, session)


async def test_a_move_takes_the_session_and_its_context_along(world: World) -> None:
    """SES-148, SES-149, CTX-106, CAT-008: the destination is told about anew before the next prompt; tools work there;
    the conversation stays."""
    world.repository()
    (world.project / "sub").mkdir()
    world.write("sub/here.txt", "sub\n")
    destination = str(world.project / "sub")
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        await hf.sessions.move(session.id, directory=destination)
        moved = await hf.sessions.get(session.id)
        (event,) = [event for event in await events(hf, session) if isinstance(event.data, Moved)]
        assert (moved.location.directory, moved.subpath) == (destination, "sub")
        assert isinstance(event.data, Moved)
        assert event.data.location.directory == destination
        assert type(await hf.sessions.request_context(session.id)).__name__ == "RequestContextAbsent"
        world.model.plays(calling("read", path="here.txt"))
        await ask(hf, session, "two")
    before, first, after = world.model.requests
    assert f"Working directory: {world.project}\n" in before.system
    assert f"Working directory: {destination}\n" in first.system
    assert [text for role, text in first.said if role == "user"] == ["one", "two"]
    assert "sub" in after.results[-1]


async def test_a_move_stays_in_its_project(world: World) -> None:
    """SES-145, CAT-009, API-026: to where it is: nothing; to another project or to nowhere: refused, and it stays."""
    world.repository()
    stranger = world.home / "stranger"
    stranger.mkdir()
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.move(session.id, directory=str(world.project))
        assert await types(hf, session) == []
        for directory, said in ((stranger, session.project_id), (world.home / "absent", str(world.home / "absent"))):
            with pytest.raises(ApiError, match=said) as refused:
                await hf.sessions.move(session.id, directory=str(directory))
            assert (refused.value.status, refused.value.code) == (400, "InvalidRequestError")
        assert (await hf.sessions.get(session.id)).location == session.location


async def test_a_move_can_bring_the_changes_to_another_checkout(world: World) -> None:
    """SES-146: edits and new files go over and are gone where they were."""
    world.repository()
    copy = world.home / "copy"
    world.git("worktree", "add", "-q", str(copy))
    world.write("hello.txt", "changed\n")
    world.write("new.txt", "new\n")
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.move(session.id, directory=str(copy), move_changes=True)
        assert (await hf.sessions.get(session.id)).location.directory == str(copy)
    assert ((copy / "hello.txt").read_text(), (copy / "new.txt").read_text()) == ("changed\n", "new\n")
    assert (world.project / "hello.txt").read_text() == "hello world\n"
    assert not (world.project / "new.txt").exists()


async def test_a_move_ends_the_turn_that_runs(world: World) -> None:
    """SES-143, SES-144, CTX-107: what waited is answered at the destination, by a request that speaks of it."""
    world.repository()
    (world.project / "sub").mkdir()
    never = asyncio.Event()
    world.model.plays(Turn(text="half", end=never))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="one"))
        await until(hf, session, of_type("text.started"))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="two"))
        await hf.sessions.move(session.id, directory=str(world.project / "sub"))
        await hf.sessions.wait(session.id)
        told = await types(hf, session)
    assert told.index("step.failed") < told.index("moved") < told.index("prompted", told.index("moved"))
    assert f"Working directory: {Path(world.project) / 'sub'}\n" in world.model.last.system
    assert [text for role, text in world.model.last.said if role == "user"] == ["one", "two"]
