"""Isolated subagents under attack: applied side by side, with odd repositories, odd files and lost copies."""

from __future__ import annotations

import shutil

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
)
from tests.outside.scripted_provider import Call, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask

from holdfast import PromptInput
from holdfast.schema.session_message import ToolCompleted

pytestmark = pytest.mark.anyio


async def test_two_children_that_changed_one_file_are_applied_side_by_side(world: World) -> None:
    """TOL-490: no change that was reported as applied is lost."""
    world.write("many.txt", "".join(f"{number}\n" for number in range(20)))
    world.repository()
    cast = world.model.always = Cast(
        root=[delegating(isolated("first"), isolated("last"))],
        first=[shell("sed -i s/^0$/first/ many.txt")],
        last=[shell("sed -i s/^19$/last/ many.txt")],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        children = [state.structured["sessionID"] for state in await states(hf, session)]
        applying = Turn(calls=tuple(Call("apply_subagent", {"sessionID": child}) for child in children))
        cast.parts["root"] += [Turn(text="fine"), applying]
        await ask(hf, session, "apply both")
        ended = (await states(hf, session))[2:]
    lines = (world.project / "many.txt").read_text().splitlines()
    applied = [isinstance(state, ToolCompleted) for state in ended]
    assert [lines[0] == "first", lines[-1] == "last"] == applied
    assert True in applied


async def test_what_a_child_changes_while_approval_is_pending_is_not_lost(world: World) -> None:
    """TOL-491: what was shown is applied; the copy stays with the rest, which can be applied too."""
    world.repository()
    world.configure(permission={"edit": "ask"})
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))],
        work=[shell("echo first > first.txt"), Turn(text="done"), shell("echo second > second.txt")],
    )
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        for name, note in (("first.txt", "changed more since then"), ("second.txt", "")):
            cast.parts["root"] = [*cast.parts["root"], Turn(text="ok"), calling("apply_subagent", sessionID=child_id)]
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="apply it"))
            request = await requested(hf, session)
            assert request.resources == (name,)
            if note:
                await ask(hf, child_id, "one more")
            await hf.permissions.reply(session.id, request_id=request.id, reply="once")
            await hf.sessions.wait(session.id)
            assert note in text((await states(hf, session))[-1])
            assert (world.project / name).exists()
            assert copy_of(world, child_id).is_dir() == bool(note)


async def test_a_child_that_is_prompted_after_its_copy_was_removed_is_told(world: World) -> None:
    """SES-440, STO-152: it has no files then. A task of its parent brings the copy back."""
    world.repository()
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[Turn(text="nothing to do"), calling("read", path="hello.txt")]
    )
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        assert copy_of(world, child_id).is_file()
        await ask(hf, child_id, "and now?")
        told = told_to(cast, "work")
        assert f"The isolated copy of the project at {copy_of(world, child_id)} is not there any more" in told
        assert "or there were none" in told
        cast.parts["root"] += [Turn(text="ok"), delegating({"prompt": "again", "sessionID": child_id})]
        await ask(hf, session, "go on")
        assert "Your isolated copy is there again." in told_to(cast, "work")
        assert "made anew from the files of the project as they are now" in told_to(cast, "work")


async def test_a_copy_that_was_put_away_comes_back_as_it_was(world: World) -> None:
    """SES-414, SES-440: with its changes that were not applied, and without what the project got since then."""
    world.repository()
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))],
        work=[shell("echo made > made.txt"), Turn(text="done"), Turn(text="seen"), shell("cat made.txt hello.txt")],
    )
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        copy, record = copy_of(world, child_id), copy_of(world, f"{child_id}.json")
        shutil.rmtree(copy)  # as after 30 days
        record.write_text(record.read_text().replace('"ready"', '"removed"'))
        world.write("hello.txt", "newer\n")
        await ask(hf, child_id, "are you there?")
        assert "it was not used for long, and its changes are recorded" in told_to(cast, "work")
        cast.parts["root"] += [Turn(text="ok"), delegating({"prompt": "again", "sessionID": child_id})]
        await ask(hf, session, "go on")
        assert "made anew as you left it" in told_to(cast, "work")
        assert "made\nhello world\n" in cast.requests["work"][-1].results[-1]


async def test_nothing_is_applied_into_a_nested_repository(world: World) -> None:
    """TOL-492: no snapshot has its files, so a revert could not take them back."""
    world.repository()
    for command in (("init", "-q"), ("commit", "-qm", "x", "--allow-empty")):
        world.write("module/file", "x\n")
        world.git(*command, cwd=world.project / "module")
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[shell("mkdir module; echo x > module/new")])
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        told = failure(await applying(world, hf, session, child_id))
    assert "module/new: module is a repository of its own here" in told
    assert not (world.project / "module" / "new").exists()


async def test_a_repository_that_a_child_makes_is_named_and_its_copy_stays(world: World) -> None:
    """SES-415, TOL-475: no tree has its files, so the copy would be removed with them."""
    world.repository()
    made = shell("mkdir made && cd made && git init -q && echo work > file")
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[made])
    async with world.host() as hf:
        session, child_id, state = await delegated(hf)
        assert "because they are too large or repositories of their own: made/" in text(state)
        assert "made/" in text(await applying(world, hf, session, child_id))
    assert (copy_of(world, child_id) / "made" / "file").read_text() == "work\n"


async def test_a_repository_whose_git_directory_has_another_name(world: World) -> None:
    """SES-442, SES-410: it is not copied, and a child works as in any other repository."""
    world.repository()
    (world.project / ".git").rename(world.project / ".bare")
    world.write(".git", "gitdir: ./.bare\n")
    world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[shell("ls -A; git log --oneline; echo x > made")]
    )
    async with world.host() as hf:
        session, child_id, state = await delegated(hf)
        assert "made" in text(state)
        assert sorted(path.name for path in copy_of(world, child_id).iterdir()) == [".git", "hello.txt", "made"]
        assert isinstance(await applying(world, hf, session, child_id), ToolCompleted)
    assert (world.project / "made").exists()


async def test_the_changes_are_for_the_worktree_that_was_copied(world: World) -> None:
    """TOL-494: a parent that was moved to another worktree of the repository is told."""
    world.repository()
    other = world.home / "other"
    world.git("worktree", "add", "-q", str(other))
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[shell("echo x > made")])
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        await hf.sessions.move(session.id, directory=str(other))
        told = failure(await applying(world, hf, session, child_id))
        assert f"its copy was made of {world.project}, and you work in {other} now" in told
        await hf.sessions.move(session.id, directory=str(world.project))
        assert isinstance(await applying(world, hf, session, child_id), ToolCompleted)
    assert (world.project / "made").exists()
    assert not (other / "made").exists()


async def test_a_sparse_checkout_is_copied_as_it_is(world: World) -> None:
    """SES-443: what is not checked out does not look deleted to the child."""
    for name in ("here/file", "not/file"):
        world.write(name, "x\n")
    world.repository()
    world.git("sparse-checkout", "set", "here")
    cast = world.model.always = Cast(
        root=[delegating(isolated("work"))], work=[shell("git status --short; rm here/file")]
    )
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        assert cast.requests["work"][-1].results[-1].startswith("(no output)")
        assert not (copy_of(world, child_id) / "not").exists()
        assert isinstance(await applying(world, hf, session, child_id), ToolCompleted)
    assert world.git("status", "--short") == " D here/file\n"


async def test_a_file_whose_name_is_no_text_is_named_and_nothing_is_applied(world: World) -> None:
    """TOL-492."""
    world.repository()
    work = shell("echo x > plain.txt; echo x > \"$(printf 'n\\351w')\"")
    world.model.always = Cast(root=[delegating(isolated("work"))], work=[work])
    async with world.host() as hf:
        session, child_id, _ = await delegated(hf)
        told = failure(await applying(world, hf, session, child_id))
    assert "n\ufffdw: its name is not UTF-8 text" in told
    assert str(copy_of(world, child_id)) in told
    assert not (world.project / "plain.txt").exists()
