"""Reverting with real repositories: files go back exactly, messages leave the conversation, events never do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import HeldTool, event_types, messages, new_session, steps, tables, user_texts
from tests.core.runtime.test_moves import git, repository
from tests.core.session.support_lab import LAB, Lab, Provider, calls, recorded, says, until

from holdfast.core.session.errors import Interrupted, MessageNotFound
from holdfast.core.session.input_errors import PromptConflict
from holdfast.core.snapshot.errors import SnapshotError
from holdfast.core.snapshot.snapshot import Snapshots
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Revert
from holdfast.schema.session_message import AssistantMessage, UserMessage

pytestmark = pytest.mark.anyio

SNAPSHOTS = {"snapshots": True}


class Desk:
    """A Session in a repository whose model writes one file per prompt."""

    def __init__(self, runtime: Lab, session_id: str, provider: Provider) -> None:
        self.runtime = runtime
        self.id = session_id
        self.provider = provider

    @property
    def folder(self) -> Path:
        return self.runtime.directory

    def text(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else None

    async def write(self, **files: str) -> None:
        """One prompt whose turn writes these files."""
        wanted = [("write", {"path": f"{name}.txt", "content": text}) for name, text in files.items()]
        played = [says()] * len(self.provider.requests)
        self.provider.replies[:] = [*played, calls(*wanted), says("written")]
        await self.say("write " + " ".join(files))

    async def say(self, text: str) -> None:
        await self.runtime.sessions.prompt(self.id, Prompt(text=text))
        await self.runtime.sessions.wait(self.id)

    async def users(self) -> list[UserMessage]:
        return [item for item in await messages(self.runtime, self.id) if isinstance(item, UserMessage)]

    async def stage(self, number: int, **options: bool) -> Revert:
        return await self.runtime.sessions.stage_revert(self.id, (await self.users())[number].id, **options)


@contextlib.asynccontextmanager
async def desk(tmp_path: Path, *, tools: dict[str, Any] | None = None) -> Any:
    provider = Provider()
    folder = repository(tmp_path / "one")
    allow = [{"action": "*", "resource": "*", "effect": "allow"}]
    config = {**SNAPSHOTS, "permissions": allow}
    async with Lab(tmp_path, provider, tools=tools, config=config, directory=folder) as runtime:
        session = await new_session(runtime, model=LAB)
        yield Desk(runtime, session.id, provider)


async def test_a_step_knows_its_trees_and_files(tmp_path: Path) -> None:
    """SES-112: trees before and after, and the paths between them; the user's index and repository are untouched."""
    async with desk(tmp_path) as it:
        before = git(it.folder, "status", "--porcelain")
        await it.write(new="one\n", a="changed\n")
        first, second = [item for item in await messages(it.runtime, it.id) if isinstance(item, AssistantMessage)]
        assert first.snapshot is not None
        assert first.snapshot.start
        assert first.snapshot.end
        assert first.snapshot.start != first.snapshot.end
        assert sorted(first.snapshot.files or ()) == ["a.txt", "new.txt"]
        assert second.snapshot is not None
        assert second.snapshot.start == first.snapshot.end
        assert git(it.folder, "diff", "--cached", "--name-only") == before == ""
        assert await it.runtime.verify() == []


async def test_a_snapshot_that_fails_fails_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-112: the fields are absent, the turn is whole."""

    async def fails(self: Snapshots) -> str:
        raise SnapshotError("capture", "no room")

    async with desk(tmp_path) as it:
        monkeypatch.setattr(Snapshots, "capture", fails)
        await it.write(new="one\n")
        first = next(item for item in await messages(it.runtime, it.id) if isinstance(item, AssistantMessage))
        assert (first.finish, first.snapshot) == ("tool-calls", None)
        assert it.text("new.txt") == "one\n"


async def test_files_of_an_interrupted_turn_can_be_reverted(tmp_path: Path) -> None:
    """SES-112, SES-129, SES-133, SES-168: the step was complete and ended, so its end tree and files are recorded."""
    held = HeldTool()
    async with desk(tmp_path, tools={"held": held.tool}) as it:
        it.provider.replies[:] = [calls(("write", {"path": "new.txt", "content": "one\n"}), ("held", {}))]
        await it.runtime.sessions.prompt(it.id, Prompt(text="go"))
        await held.started.wait()
        await recorded(it.runtime, it.id, "tool.success")
        await it.runtime.sessions.interrupt(it.id)
        await it.stage(0)
        assert it.text("new.txt") is None


async def test_changes_of_the_user_between_steps_are_not_the_models(tmp_path: Path) -> None:
    """SES-112: `files` are paths changed between the tree before the call and the one after settlement."""
    async with desk(tmp_path) as it:
        gate = it.provider.hold(0)
        write = calls(("write", {"path": "new.txt", "content": "one\n"}))
        it.provider.replies[:] = [says("nothing to do"), write, says("written")]
        await it.runtime.sessions.prompt(it.id, Prompt(text="first"))
        await it.provider.seen(1)

        async def captured() -> bool:
            return bool(list((tmp_path / "data" / "snapshot").glob("*/objects/??")))

        await until(captured)
        await it.runtime.sessions.prompt(it.id, Prompt(text="second"))
        (it.folder / "elsewhere.txt").write_text("the user's own\n", encoding="utf-8")
        gate.set()
        await it.runtime.sessions.wait(it.id)
        found = [item for item in await messages(it.runtime, it.id) if isinstance(item, AssistantMessage)]
        assert [list(item.snapshot.files or ()) for item in found if item.snapshot][1] == ["new.txt"]


async def test_staging_a_revert_restores_files_and_describes_them(tmp_path: Path) -> None:
    """SES-166, SES-167, SES-168, SES-169: files written after the boundary go back to the earliest tree before them;
    the boundary and all messages stay; what was restored is described, with its patch, on the Session too."""
    async with desk(tmp_path) as it:
        await it.write(a="one\n")
        await it.write(a="two\n", new="x\n")
        await it.write(a="three\n")
        (it.folder / "elsewhere.txt").write_text("the user's own\n", encoding="utf-8")
        revert = await it.stage(0)
        assert (it.text("a.txt"), it.text("new.txt")) == ("a.txt\n", None)
        assert it.text("elsewhere.txt") == "the user's own\n"
        files = {file.path: file for file in revert.files or ()}
        assert {path: file.status for path, file in files.items()} == {"a.txt": "modified", "new.txt": "deleted"}
        assert (files["a.txt"].additions, files["a.txt"].deletions) == (1, 1)
        assert "+a.txt" in files["a.txt"].patch
        assert revert.diff is not None
        assert all(file.patch in revert.diff for file in files.values())
        assert (await it.runtime.sessions.get(it.id)).revert == revert
        assert len(await it.users()) == 3
        assert (await event_types(it.runtime, it.id)).count("revert.staged") == 1
        with pytest.raises(MessageNotFound):
            await it.runtime.sessions.stage_revert(it.id, "msg_none")


async def test_moving_the_boundary_is_exact(tmp_path: Path) -> None:
    """SES-168, SES-169: staging again starts from the original, which is captured once; `files = false` restores
    none."""
    async with desk(tmp_path) as it:
        await it.write(a="one\n")
        await it.write(a="two\n", new="x\n")
        first = await it.stage(0)
        again = await it.stage(1)
        assert (it.text("a.txt"), it.text("new.txt")) == ("one\n", None)
        assert again.snapshot == first.snapshot
        none = await it.stage(0, files=False)
        assert (it.text("a.txt"), it.text("new.txt"), none.files or ()) == ("two\n", "x\n", ())


async def test_clearing_a_revert_restores_the_touched_files(tmp_path: Path) -> None:
    """SES-170: the touched files as they were, the state gone; with nothing staged nothing happens."""
    async with desk(tmp_path) as it:
        await it.runtime.sessions.clear_revert(it.id)
        await it.write(a="one\n", new="x\n")
        await it.stage(0)
        await it.runtime.sessions.clear_revert(it.id)
        assert (it.text("a.txt"), it.text("new.txt")) == ("one\n", "x\n")
        assert (await it.runtime.sessions.get(it.id)).revert is None
        assert (await event_types(it.runtime, it.id)).count("revert.cleared") == 1
        await it.say("next")
        assert len(user_texts(it.provider.requests[-1])) == 2


async def test_committing_removes_messages_and_inputs_and_keeps_events(tmp_path: Path) -> None:
    """SES-171, SES-172, SES-213: in one transaction; the model no longer hears of it, the epoch is repaired, and the
    next dispatch names the cause."""
    async with desk(tmp_path) as it:
        rules = it.folder / "AGENTS.md"
        await it.runtime.sessions.commit_revert(it.id)
        await it.say("keep")
        rules.write_text("NEW RULE\n", encoding="utf-8")
        await it.write(a="one\n")
        await it.runtime.sessions.prompt(it.id, Prompt(text="waiting"), resume=False)
        before = len(await event_types(it.runtime, it.id))
        assert "NEW RULE" in str(it.provider.requests[-1])
        await it.stage(0)
        await it.runtime.sessions.commit_revert(it.id)
        assert [item.text for item in await it.users()] == ["keep"]
        assert await it.runtime.sessions.pending(it.id) == []
        assert len(await event_types(it.runtime, it.id)) == before + 2
        with tables(it.runtime) as sql:
            assert sql("select count(*) from session_context_epoch") == [(0,)]
        await it.say("again")
        assert user_texts(it.provider.requests[-1]) == ["keep", "again"]
        assert "NEW RULE" in it.provider.requests[-1]["messages"][0]["content"]
        last = await it.runtime.store.last_dispatch(it.id)
        assert last is not None
        assert "revert" in (last.event.broke or ())
        assert await it.runtime.verify() == []


async def test_a_new_prompt_commits_what_is_staged_and_a_drain_is_stopped_first(tmp_path: Path) -> None:
    """SES-173: writing on is the decision; staging interrupts what runs."""
    async with desk(tmp_path) as it:
        await it.say("keep")
        await it.say("gone")
        await it.stage(0)
        await it.say("instead")
        assert [item.text for item in await it.users()] == ["keep", "instead"]
        it.provider.hold(len(it.provider.requests))
        await it.runtime.sessions.prompt(it.id, Prompt(text="running"), resume=False)
        joined = asyncio.create_task(it.runtime.sessions.run(it.id))
        await it.provider.seen(len(it.provider.requests) + 1)
        await it.stage(0)
        with pytest.raises(Interrupted):
            await joined


async def test_of_prompts_that_decide_at_once_none_is_lost(tmp_path: Path) -> None:
    """SES-034, SES-173: one of them commits what is staged; an accepted prompt is not undone by the other."""
    async with desk(tmp_path) as it:
        await it.say("keep")
        await it.say("gone")
        await it.stage(0)
        prompts = [it.runtime.sessions.prompt(it.id, Prompt(text=text), resume=False) for text in ("one", "two")]
        receipts = await asyncio.gather(*prompts, it.runtime.sessions.commit_revert(it.id))
        waiting = await it.runtime.sessions.pending(it.id)
        assert sorted(waiting, key=lambda item: item.prompt.text) == receipts[:2]
        assert [item.text for item in await it.users()] == ["keep"]
        assert (await event_types(it.runtime, it.id)).count("revert.committed") == 1


async def test_a_revert_cleared_meanwhile_is_not_committed(tmp_path: Path) -> None:
    """SES-170, SES-173: a decision is about what is staged when it is recorded, not when it was looked at."""
    async with desk(tmp_path) as it:
        await it.say("keep")
        await it.write(a="one\n")
        await it.stage(0)
        reverts = it.runtime.sessions._reverts
        looked = await it.runtime.sessions.get(it.id)
        await reverts.clear(it.id)
        assert await reverts.deciding(looked) is None
        await asyncio.gather(reverts.commit(it.id), it.runtime.sessions.prompt(it.id, Prompt(text="on"), resume=False))
        assert len(await it.users()) == 2
        assert "revert.committed" not in await event_types(it.runtime, it.id)


async def test_staging_twice_at_once_keeps_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-169: the original is captured once, before any file went back, so that clearing brings everything back."""
    async with desk(tmp_path) as it:
        await it.write(a="one\n", b="two\n", c="three\n")
        await it.write(a="four\n")
        went_back = asyncio.Event()
        restore = Snapshots.restore

        async def slowly(self: Snapshots, tree: str, paths: Sequence[str]) -> None:
            await restore(self, tree, paths)
            if not went_back.is_set():
                went_back.set()
                await steps(500)  # time enough for the other one, if it does not wait for its turn

        monkeypatch.setattr(Snapshots, "restore", slowly)
        first = asyncio.create_task(it.stage(0))
        await went_back.wait()
        await asyncio.gather(first, it.stage(1))
        await it.runtime.sessions.clear_revert(it.id)
        assert [it.text(f"{name}.txt") for name in "abc"] == ["four\n", "two\n", "three\n"]


async def test_a_prompt_during_the_staging_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-034, SES-173: the prompt is not answered amid files that are going back, nor undone with what is staged."""
    async with desk(tmp_path) as it:
        await it.say("keep")
        await it.write(a="one\n")
        going_back, go = asyncio.Event(), asyncio.Event()
        restore = Snapshots.restore

        async def held(self: Snapshots, tree: str, paths: Sequence[str]) -> None:
            going_back.set()
            await go.wait()
            await restore(self, tree, paths)

        monkeypatch.setattr(Snapshots, "restore", held)
        staging = asyncio.create_task(it.stage(0))
        await going_back.wait()
        asked = len(it.provider.requests)
        writing = asyncio.create_task(it.say("instead"))
        await steps(100)
        answered = len(it.provider.requests) - asked
        go.set()
        await asyncio.gather(staging, writing)
        assert answered == 0
        assert [item.text for item in await it.users()] == ["keep", "instead"]
        assert (await it.runtime.sessions.get(it.id)).revert is None
        assert it.text("a.txt") == "a.txt\n"


async def test_a_refused_prompt_commits_nothing(tmp_path: Path) -> None:
    """SES-038, SES-173: a conflicting id writes nothing, so what is staged stays staged."""
    async with desk(tmp_path) as it:
        await it.runtime.sessions.prompt(it.id, Prompt(text="keep"), id="msg_keep")
        await it.runtime.sessions.wait(it.id)
        await it.say("second")
        staged = await it.stage(0)
        before = await event_types(it.runtime, it.id)
        with pytest.raises(PromptConflict):
            await it.runtime.sessions.prompt(it.id, Prompt(text="other"), id="msg_keep")
        assert await event_types(it.runtime, it.id) == before
        assert (await it.runtime.sessions.get(it.id)).revert == staged


async def test_a_retry_of_an_old_prompt_decides_nothing(tmp_path: Path) -> None:
    """SES-037, SES-173: an exact retry appends no event, also while a revert is staged."""
    async with desk(tmp_path) as it:
        await it.say("keep")
        receipt = await it.runtime.sessions.prompt(it.id, Prompt(text="second"), id="msg_second")
        await it.runtime.sessions.wait(it.id)
        await it.stage(0)
        again = await it.runtime.sessions.prompt(it.id, Prompt(text="second"), id="msg_second", resume=False)
        assert again.admitted_seq == receipt.admitted_seq
        assert "revert.committed" not in await event_types(it.runtime, it.id)


async def test_a_snapshot_that_fails_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-174: the operation and the reason; nothing is staged."""

    async def fails(self: Snapshots) -> str:
        raise SnapshotError("capture", "no room")

    async with desk(tmp_path) as it:
        await it.write(a="one\n")
        monkeypatch.setattr(Snapshots, "capture", fails)
        with pytest.raises(SnapshotError, match="no room") as failed:
            await it.stage(0)
        assert failed.value.operation == "capture"
        assert (await it.runtime.sessions.get(it.id)).revert is None


async def test_an_unknown_tree_cannot_be_restored(tmp_path: Path) -> None:
    """SES-174: git's own refusal becomes the typed one, for each operation."""
    async with desk(tmp_path) as it, it.runtime.locations.use(it.runtime.location) as services:
        await services.snapshots.capture()
        for operation, work in (
            ("restore", services.snapshots.restore("0" * 40, ["a.txt"])),
            ("files", services.snapshots.files("0" * 40, "1" * 40)),
            ("diff", services.snapshots.diff("0" * 40, "1" * 40, ["a.txt"])),
        ):
            with pytest.raises(SnapshotError) as failed:
                await work
            assert failed.value.operation == operation


async def test_names_that_git_reads_as_patterns_are_names(tmp_path: Path) -> None:
    """SES-168: only the files of the plan are touched, however they are called."""
    async with desk(tmp_path) as it:
        (it.folder / "ab.txt").write_text("the user's own\n", encoding="utf-8")
        odd = "[ab]*.txt"
        it.provider.replies[:] = [calls(("write", {"path": odd, "content": "x\n"})), says("written")]
        await it.say("go")
        assert it.text(odd) == "x\n"
        (it.folder / "ab.txt").write_text("changed since\n", encoding="utf-8")
        await it.stage(0)
        assert (it.text(odd), it.text("ab.txt")) == (None, "changed since\n")
