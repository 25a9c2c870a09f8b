"""Moving a Session between directories and checkouts of one project, with real repositories."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from tests.core.conftest import event_types, new_session, tables, user_texts
from tests.core.session.support_lab import LAB, Lab, Provider, contents

from holdfast.core.process.git import Git
from holdfast.core.session.errors import ChangesNotMoved, DestinationMismatch, Interrupted, SessionNotFound
from holdfast.core.snapshot import transfer
from holdfast.schema.location import Location
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_event import Moved

pytestmark = pytest.mark.anyio


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "-b", "main")
    for name in ("a.txt", "sub/b.txt", "elsewhere.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{name}\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def worktree(folder: Path) -> Path:
    git(folder, "worktree", "add", "--quiet", str(folder.parent / "second"))
    return folder.parent / "second"


async def test_the_same_directory_and_unknown_sessions(tmp_path: Path) -> None:
    """SES-145: no event for the same place, not-found for nobody, a typed refusal for another project."""
    here, there = repository(tmp_path / "one"), repository(tmp_path / "other")
    (there / "more.txt").write_text("x", encoding="utf-8")
    git(there, "add", ".")
    git(there, "commit", "--quiet", "--amend", "-m", "another")
    async with Lab(tmp_path, Provider(), directory=here) as runtime:
        session = await new_session(runtime, model=LAB)
        before = await event_types(runtime, session.id)
        await runtime.sessions.move(session.id, str(here))
        assert await event_types(runtime, session.id) == before
        with pytest.raises(SessionNotFound):
            await runtime.sessions.move("ses_none", str(here))
        with pytest.raises(DestinationMismatch) as refused:
            await runtime.sessions.move(session.id, str(there))
        theirs = (await runtime.project(Location(directory=str(there)))).id
        assert (refused.value.expected, refused.value.actual) == (session.project_id, theirs)
        assert await event_types(runtime, session.id) == before


async def test_a_move_sets_the_place_and_ends_the_epoch(tmp_path: Path) -> None:
    """SES-148, SES-149, SES-143: directory and path, no workspace, no epoch; the next turn tells of the new place."""
    here = repository(tmp_path / "one")
    provider = Provider()
    async with Lab(tmp_path, provider, directory=here) as runtime:
        session = await new_session(runtime, model=LAB, location=Location(directory=str(here), workspace_id="wrk_1"))
        await runtime.sessions.prompt(session.id, Prompt(text="hello"))
        await runtime.sessions.wait(session.id)
        with tables(runtime) as sql:
            assert sql("select count(*) from session_context_epoch") == [(1,)]
            await runtime.sessions.move(session.id, str(here / "sub"))
            assert sql("select count(*) from session_context_epoch") == [(0,)]
            assert sql("select directory, workspace_id, path from session") == [(str(here / "sub"), None, "sub")]
            await runtime.sessions.move(session.id, str(here))
            assert sql("select path from session") == [("",)]
            await runtime.sessions.move(session.id, str(here / "sub"))
        await runtime.sessions.prompt(session.id, Prompt(text="where"))
        await runtime.sessions.wait(session.id)
        assert f"Working directory: {here / 'sub'}\n" in contents(provider.requests[1], "system")[0]
        assert await runtime.verify() == []


async def test_a_move_stops_what_runs_and_goes_on_there(tmp_path: Path) -> None:
    """SES-144, SES-143: the running turn is interrupted first, what waits is promoted at the destination."""
    here = repository(tmp_path / "one")
    provider = Provider()
    provider.hold(0)
    async with Lab(tmp_path, provider, directory=here) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="first"), resume=False)
        joined = asyncio.create_task(runtime.sessions.run(session.id))
        await provider.seen(1)
        await runtime.sessions.prompt(session.id, Prompt(text="second"), delivery="queue")
        await runtime.sessions.move(session.id, str(here / "sub"))
        with pytest.raises(Interrupted):
            await joined
        await runtime.sessions.wait(session.id)
        types = await event_types(runtime, session.id)
        assert types.index("step.failed") < types.index("moved")
        assert types.count("prompted") == 2
        assert user_texts(provider.requests[1]) == ["first", "second"]
        assert str(here / "sub") in contents(provider.requests[1], "system")[0]


async def test_the_old_runner_promotes_nothing_after_a_move(tmp_path: Path) -> None:
    """SES-143: a drain that still runs at the source stops before promotion; no request, the input stays pending."""
    here = repository(tmp_path / "one")
    provider = Provider()
    gate = provider.hold(0)
    async with Lab(tmp_path, provider, directory=here) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="first"), resume=False)
        joined = asyncio.create_task(runtime.sessions.run(session.id))
        await provider.seen(1)
        await runtime.sessions.prompt(session.id, Prompt(text="second"), resume=False)
        destination = Location(directory=str(here / "sub"))
        # As another process would do it, without stopping this one.
        moved = Moved(timestamp=1, session_id=session.id, location=destination, subdirectory="sub")
        await runtime.log.publish(moved, location=destination)
        gate.set()
        with pytest.raises(Interrupted):
            await joined
        assert len(provider.requests) == 1
        assert [item.prompt.text for item in await runtime.sessions.pending(session.id)] == ["second"]


async def test_changes_travel_to_another_checkout(tmp_path: Path) -> None:
    """SES-146: edits, new, deleted and binary files below the Session's directory are applied there and gone here; what
    lies beside it and what was staged stays."""
    here = repository(tmp_path / "one")
    there = worktree(here)
    (here / "sub" / "b.txt").write_text("edited\n", encoding="utf-8")
    (here / "sub" / "new.bin").write_bytes(bytes(range(256)))
    (here / "elsewhere.txt").write_text("mine\n", encoding="utf-8")
    (here / "a.txt").write_text("staged\n", encoding="utf-8")
    git(here, "add", "a.txt")
    async with Lab(tmp_path, Provider(), directory=here) as runtime:
        session = await new_session(runtime, model=LAB, location=Location(directory=str(here / "sub")))
        await runtime.sessions.move(session.id, str(there / "sub"), move_changes=True)
        assert (there / "sub" / "b.txt").read_text(encoding="utf-8") == "edited\n"
        assert (there / "sub" / "new.bin").read_bytes() == bytes(range(256))
        assert (here / "sub" / "b.txt").read_text(encoding="utf-8") == "sub/b.txt\n"
        assert not (here / "sub" / "new.bin").exists()
        assert (here / "elsewhere.txt").read_text(encoding="utf-8") == "mine\n"
        assert (there / "elsewhere.txt").read_text(encoding="utf-8") == "elsewhere.txt\n"
        assert git(here, "diff", "--cached", "--name-only").split() == ["a.txt"]
        assert (await runtime.sessions.get(session.id)).location.directory == str(there / "sub")


async def test_nothing_travels_within_one_checkout_or_unasked(tmp_path: Path) -> None:
    """SES-146: the files stay where they are."""
    here = repository(tmp_path / "one")
    there = worktree(here)
    (here / "a.txt").write_text("edited\n", encoding="utf-8")
    async with Lab(tmp_path, Provider(), directory=here) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.move(session.id, str(here / "sub"), move_changes=True)
        assert (here / "a.txt").read_text(encoding="utf-8") == "edited\n"
        await runtime.sessions.move(session.id, str(there))
        assert (here / "a.txt").read_text(encoding="utf-8") == "edited\n"
        assert (there / "a.txt").read_text(encoding="utf-8") == "a.txt\n"


async def test_changes_that_do_not_apply_leave_everything_as_it_was(tmp_path: Path) -> None:
    """SES-147: the Session and both trees stay."""
    here = repository(tmp_path / "one")
    there = worktree(here)
    (here / "a.txt").write_text("mine\n", encoding="utf-8")
    (there / "a.txt").write_text("theirs\n", encoding="utf-8")
    async with Lab(tmp_path, Provider(), directory=here) as runtime:
        session = await new_session(runtime, model=LAB)
        with pytest.raises(ChangesNotMoved) as failed:
            await runtime.sessions.move(session.id, str(there), move_changes=True)
        assert failed.value.step == "apply"
        assert (await runtime.sessions.get(session.id)).location.directory == str(here)
        assert (here / "a.txt").read_text(encoding="utf-8") == "mine\n"
        assert (there / "a.txt").read_text(encoding="utf-8") == "theirs\n"
        assert "moved" not in await event_types(runtime, session.id)


async def test_changes_that_cannot_be_discarded_exist_twice_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-147: the move stands, the error names the place."""
    here = repository(tmp_path / "one")
    there = worktree(here)
    (here / "a.txt").write_text("mine\n", encoding="utf-8")
    apply = transfer.apply

    async def apply_then_lock(runner: Git, changes: transfer.Changes, root: Path) -> None:
        await apply(runner, changes, root)
        git(here, "update-ref", "-d", "HEAD")  # now nothing can be reset to it

    monkeypatch.setattr(transfer, "apply", apply_then_lock)
    async with Lab(tmp_path, Provider(), directory=here) as runtime:
        session = await new_session(runtime, model=LAB)
        with pytest.raises(ChangesNotMoved) as failed:
            await runtime.sessions.move(session.id, str(there), move_changes=True)
        assert (failed.value.step, failed.value.directory) == ("reset", str(here))
        assert (await runtime.sessions.get(session.id)).location.directory == str(there)
        assert (here / "a.txt").read_text(encoding="utf-8") == (there / "a.txt").read_text(encoding="utf-8") == "mine\n"
