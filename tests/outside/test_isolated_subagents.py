"""Subagents in isolated copies of the project, with real git: what they see, what is offered, applied and removed."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from tests.outside.isolation import (
    applying,
    copy_of,
    delegated,
    failure,
    isolated,
    requested,
    shell,
    states,
    text,
    told_to,
    worktrees,
)
from tests.outside.scripted_provider import Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask, newest, text_of

from holdfast import PromptInput
from holdfast.schema.session_message import SyntheticMessage, ToolCompleted, ToolError

pytestmark = pytest.mark.anyio


async def test_a_child_works_in_a_copy_and_its_diff_is_offered(world: World) -> None:
    """SES-410, SES-411, TOL-470, TOL-471: uncommitted files are part of it, and nothing changes in the original."""
    world.repository()
    world.write("hello.txt", "hello uncommitted\n")
    world.write("new.txt", "new\n")
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))],
        work=[
            calling("read", path="hello.txt"),
            calling("write", path="made.txt", content="made\n"),
            calling("edit", path="new.txt", oldString="new", newString="newer"),
            Turn(text="all done"),
        ],
    )
    async with world.host() as hf:
        session, child_id, state = await delegated(hf)
        assert isinstance(state, ToolCompleted), state
        child = await hf.sessions.get(child_id)
        assert Path(child.location.directory) == copy_of(world, child_id)
        assert child.project_id == session.project_id
        assert "hello uncommitted" in cast.requests["work"][1].results[0]
        told = cast.requests["root"][-1].results[0]
        assert "all done" in told
        assert "+made" in told
        assert "-new\n+newer" in told
        assert "apply_subagent" in told
        assert str(copy_of(world, child_id)) in told_to(cast, "work")
    assert (world.project / "new.txt").read_text() == "new\n"
    assert not (world.project / "made.txt").exists()
    assert (copy_of(world, child_id) / "made.txt").read_text() == "made\n"


async def test_the_changes_are_applied_with_approval_and_the_copy_is_removed(world: World) -> None:
    """TOL-473, TOL-474, SES-413: the request shows paths and diff; then the files are here and the copy is gone."""
    world.repository()
    world.configure(permission={"edit": "ask"})
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[calling("bash", command="echo made > made.txt; rm hello.txt")]
    )
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        cast.parts["root"] = [delegating("x"), Turn(text="fine"), calling("apply_subagent", sessionID=child_id)]
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="apply it"))
        request = await requested(hf, session)
        assert request.action == "edit"
        assert sorted(request.resources) == ["hello.txt", "made.txt"]
        assert request.metadata is not None
        assert "+made" in request.metadata["diff"]
        assert not (world.project / "made.txt").exists()
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        await hf.sessions.wait(session.id)
        state = (await states(hf, session))[-1]
        assert isinstance(state, ToolCompleted), state
        assert state.structured["files"] == [
            {"file": "hello.txt", "status": "deleted"},
            {"file": "made.txt", "status": "added"},
        ]
    assert (world.project / "made.txt").read_text() == "made\n"
    assert not (world.project / "hello.txt").exists()
    assert worktrees(world) == [str(world.project)]
    assert copy_of(world, child_id).is_file()


async def test_the_copy_has_the_files_as_they_are(world: World) -> None:
    """SES-410: staged, deleted, renamed, linked, executable files, any name and any line ending; ignored ones not. The
    index and the files of the original stay as they are."""
    world.write(".gitignore", "ignored\n")
    world.write(".gitattributes", "*.txt text eol=crlf\n")
    for name in ("gone", "old name", "script"):
        world.write(name, f"{name}\n")
    os.symlink("hello.txt", world.project / "link")
    world.repository()
    world.git("mv", "old name", "new name")
    (world.project / "gone").unlink()
    world.write("staged", "staged\n")
    world.git("add", "staged")
    world.write("ignored", "ignored\n")
    world.write("line\nbreak", "odd\n")
    (world.project / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    (world.project / "script").chmod(0o755)
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[shell("echo x > x")])
    index = (world.project / ".git" / "index").read_bytes()
    before = world.git("status", "--porcelain")
    async with world.host() as hf:
        _, child_id, _ = await delegated(hf)
    copy = copy_of(world, child_id)
    names = {path.name for path in world.project.iterdir()} - {"ignored"}
    assert {path.name for path in copy.iterdir()} - {"x"} == names
    for name in names - {".git"}:
        assert (copy / name).read_bytes() == (world.project / name).read_bytes(), name
    assert os.readlink(copy / "link") == "hello.txt"
    assert os.access(copy / "script", os.X_OK)
    assert world.git("rev-parse", "HEAD", cwd=copy) == world.git("rev-parse", "HEAD")
    assert (world.project / ".git" / "index").read_bytes() == index
    assert world.git("status", "--porcelain") == before
    assert world.git("branch", "--list").split() == ["*", "main"]


@pytest.mark.parametrize(("commit", "reason"), [(None, "not a git repository"), (False, "no commit yet")])
async def test_isolation_needs_a_repository_with_a_commit(world: World, commit: bool | None, reason: str) -> None:
    """TOL-470: nothing starts without one, and the model reads why."""
    if commit is not None:
        world.git("init", "-q")
    world.model.always = Cast(root=[delegating(isolated("work"))])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (state,) = await states(hf, session)
        assert reason in failure(state)
        assert len((await hf.sessions.list()).items) == 1
    assert not (world.data / "copies").exists()


async def test_a_copy_without_changes_is_removed_when_the_task_is_over(world: World) -> None:
    """SES-413, TOL-471."""
    world.repository()
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[calling("read", path="hello.txt")])
    async with world.host() as hf:
        _, child_id, state = await delegated(hf)
        assert "changed no files" in text(state)
    assert worktrees(world) == [str(world.project)]
    assert "copy" in copy_of(world, child_id).read_text()


async def test_changes_on_both_sides_are_merged_and_conflicts_change_nothing(world: World) -> None:
    """TOL-474: other lines are merged; the same lines, and ignored files in the way, are told."""
    world.write(".gitignore", "ignored\n")
    world.write("many.txt", "".join(f"{number}\n" for number in range(20)))
    world.repository()
    world.model.always = Cast(
        root=[delegating(isolated("merges"), isolated("conflicts"))],
        merges=[shell("sed -i s/^19$/last/ many.txt")],
        conflicts=[shell("sed -i s/^0$/theirs/ many.txt; echo new > other.txt; echo x > .gitignore; echo x > ignored")],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        merging, conflicting = [state.structured["sessionID"] for state in await states(hf, session)]
        many = world.project / "many.txt"
        many.write_text(many.read_text().replace("0\n", "mine\n", 1))
        world.write("ignored", "precious\n")
        state = await applying(world, hf, session, merging)
        assert isinstance(state, ToolCompleted), state
        lines = many.read_text().splitlines()
        assert (lines[0], lines[19]) == ("mine", "last")
        state = await applying(world, hf, session, conflicting)
        assert "many.txt: it was changed here and by the subagent" in failure(state)
        assert "ignored: something else is in its place" in failure(state)
        assert not (world.project / "other.txt").exists()
        assert (world.project / "ignored").read_text() == "precious\n"
    assert worktrees(world) == [str(world.project), str(copy_of(world, conflicting))]


async def test_the_diff_of_a_background_task_comes_with_its_result(world: World) -> None:
    """TOL-472."""
    world.repository()
    world.model.always = Cast(
        root=[delegating(isolated("work", background=True)), Turn(text="meanwhile"), Turn(text="I see")],
        work=[shell("echo made > made.txt"), Turn(text="found it")],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        await world.model.asked(5)
        await hf.sessions.wait(session.id)
        (message,) = [m for m in await hf.sessions.context(session.id) if isinstance(m, SyntheticMessage)]
        assert "found it" in message.text
        assert "+made" in message.text
        assert text_of(await newest(hf, session)) == "I see"


async def test_a_child_that_fails_offers_what_it_had_changed(world: World) -> None:
    """TOL-472."""
    world.repository()
    world.model.always = Cast(
        root=[delegating(isolated("work"))],
        work=[shell("echo made > made.txt"), Turn(status=400, error="no such thing")],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (state,) = await states(hf, session)
        assert "no such thing" in failure(state)
        assert "+made" in failure(state)


async def test_a_restart_goes_on_in_the_same_copy(world: World) -> None:
    """SES-412: the call is executed again, and finds the copy with what the child did before."""
    world.repository()
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[delegating(isolated("work"))],
        work=[shell("echo made > made.txt"), Turn(text="done", begin=gate)],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(3)
    gate.set()
    async with world.host() as hf:
        await hf.sessions.list()  # the first operation starts recovery
        await world.model.asked(5)
        await hf.sessions.wait(session.id)
        (state,) = await states(hf, session)
        assert isinstance(state, ToolCompleted)
        assert "+made" in text(state)
    assert len(worktrees(world)) == 2


async def test_a_copy_that_is_deleted_while_the_child_works_is_told(world: World) -> None:
    """SES-416: not as the deletion of all files."""
    world.repository()
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[shell("echo made > made.txt"), Turn(text="done", begin=gate)]
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(3)
        (copy,) = [path for path in (world.data / "copies").iterdir() if path.is_dir()]
        shutil.rmtree(copy)
        gate.set()
        await hf.sessions.wait(session.id)
        (state,) = await states(hf, session)
        assert isinstance(state, ToolCompleted)
        assert f"the copy at {copy} is gone" in text(state)
        state = await applying(world, hf, session, copy.name)
        assert isinstance(state, ToolError)
    assert (world.project / "hello.txt").exists()


async def test_a_deleted_session_takes_its_copy_with_it(world: World) -> None:
    """SES-413: with its changes; the person decided so."""
    world.repository()
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[shell("echo made > made.txt")])
    async with world.host() as hf:
        _, child_id, _ = await delegated(hf)
        assert copy_of(world, child_id).is_dir()
        await hf.sessions.delete(child_id)
    assert worktrees(world) == [str(world.project)]
    assert [path.suffix for path in (world.data / "copies").iterdir()] == [".lock"]


async def test_a_child_goes_on_in_its_copy_or_in_a_new_one(world: World) -> None:
    """SES-414: after its changes were applied the copy is made anew from the files as they are."""
    world.repository()
    cast = world.model.always = Cast(root=[delegating(isolated("work"))], work=[shell("echo one > made.txt")])
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        assert isinstance(await applying(world, hf, session, child_id), ToolCompleted)
        assert not copy_of(world, child_id).is_dir()
        cast.parts["root"] += [Turn(text="fine"), delegating({"prompt": "more", "sessionID": child_id})]
        cast.parts["work"] += [Turn(text="ok"), shell("cat made.txt; echo two >> made.txt")]
        await ask(hf, session, "go on")
        state = (await states(hf, session))[-1]
        assert isinstance(state, ToolCompleted), state
        assert "+two" in text(state)
        assert "+one" not in text(state)
        assert "made anew" in told_to(cast, "work")
        cast.parts["plain"] = [delegating("simple"), Turn(text="fine")]
        plain, other, _ = await delegated(hf, "plain")
        cast.parts["plain"].append(delegating(isolated("x", sessionID=other)))
        await ask(hf, plain, "again")
        assert "Isolation is chosen for a new subagent" in failure((await states(hf, plain))[-1])


async def test_what_was_applied_can_be_reverted(world: World) -> None:
    """TOL-473: as every change of a step."""
    world.repository()
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[shell("echo made > made.txt; echo bye > hello.txt")]
    )
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        cast.parts["root"] += [Turn(text="fine"), calling("apply_subagent", sessionID=child_id)]
        await hf.sessions.prompt(session.id, id="msg_apply", prompt=PromptInput(text="apply it"))
        await hf.sessions.wait(session.id)
        assert (world.project / "hello.txt").read_text() == "bye\n"
        await hf.sessions.stage_revert(session.id, message_id="msg_apply", files=True)
    assert (world.project / "hello.txt").read_text() == "hello world\n"
    assert not (world.project / "made.txt").exists()


async def test_a_repeated_application_finishes_what_was_begun(world: World) -> None:
    """TOL-475: one of two files is there already, as after a crash."""
    world.repository()
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[shell("echo a > a.txt; echo b > b.txt")])
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        world.write("a.txt", "a\n")
        state = await applying(world, hf, session, child_id)
        assert state.structured["files"] == [{"file": "b.txt", "status": "added"}]
        state = await applying(world, hf, session, child_id)
        assert "nothing to apply" in text(state)


async def test_only_own_isolated_children_that_have_ended_are_applied(world: World) -> None:
    """TOL-473."""
    world.repository()
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[delegating("plain"), delegating(isolated("works", background=True))],
        works=[shell("echo x > x"), Turn(text="late", begin=gate)],
    )
    async with world.host() as hf:
        session, plain, _ = await delegated(hf)
        working = (await states(hf, session))[1].structured["sessionID"]
        await world.model.asked(6)
        for child, reason in (
            (plain, "did not work in an isolated copy"),
            (working, "still working"),
            ("ses_x", "not a"),
        ):
            state = await applying(world, hf, session, child)
            assert reason in failure(state)
        gate.set()
