"""Isolated copies in corners: cancelled, side by side, left behind, unused for long; merges of trees."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.outside.hostile import VECTORS, Trap, Vector, honest, spring

from holdfast.core.clock import SystemClock
from holdfast.core.file_lock import file_lock
from holdfast.core.process.git import Git
from holdfast.core.project.project import Project
from holdfast.core.snapshot import isolated_copies as module
from holdfast.core.snapshot.application import STALE, Applications
from holdfast.core.snapshot.copy_changes import bounded, diff_text, listed
from holdfast.core.snapshot.copy_record import CopyRecord
from holdfast.core.snapshot.copy_sessions import CopyUse
from holdfast.core.snapshot.copy_sweep import KEPT_MILLISECONDS, CopySweep
from holdfast.core.snapshot.errors import CopyFailed
from holdfast.core.snapshot.isolated_copies import IsolatedCopies
from holdfast.core.snapshot.snapshot import Snapshots

pytestmark = pytest.mark.anyio


def git(worktree: Path, *arguments: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(("git", *who, *arguments), cwd=worktree, check=True, capture_output=True, text=True).stdout


class Place:
    """A repository with one commit, and the folder of its copies."""

    def __init__(self, home: Path) -> None:
        self.worktree = home / "a\nproject"
        self.worktree.mkdir()
        (self.worktree / "file").write_text("one\ntwo\nthree\nfour\nfive\n")
        git(self.worktree, "init", "-q")
        git(self.worktree, "add", ".")
        git(self.worktree, "commit", "-qm", "first")
        self.project = Project("p", self.worktree, self.worktree / ".git")
        self.snapshots = Snapshots(self.project, home / "snapshot")
        self.copies = IsolatedCopies(home / "copies", os.environ)
        self.applications = Applications(self.copies, self.snapshots, self.worktree)

    async def make(self, session_id: str = "ses_a") -> CopyRecord:
        return await self.copies.make(session_id, self.project, self.snapshots)

    def path(self, session_id: str = "ses_a") -> Path:
        return self.copies.folder.directory(session_id)

    @property
    def worktrees(self) -> int:
        return git(self.worktree, "worktree", "list", "--porcelain").count("worktree /")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class Sessions:
    """What the sweep is told about every Session."""

    def __init__(self, use: CopyUse) -> None:
        self.answer = use

    async def use(self, session_id: str) -> CopyUse:
        return self.answer


async def sweep(place: Place, use: CopyUse, *, old: bool = True) -> None:
    for record in place.copies.folder.records():
        if old:
            os.utime(place.copies.folder.path / f"{record.session_id}.json", (0, 0))
    await CopySweep(place.copies, Sessions(use), SystemClock()).sweep()  # type: ignore[arg-type]


async def test_a_cancelled_copy_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-412."""
    run, reached = Git.run, asyncio.Event()

    async def stuck(self: Git, *arguments: str, **more: object) -> bytes:
        if "read-tree" in arguments and "-u" in arguments:
            reached.set()
            await asyncio.Event().wait()
        return await run(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "run", stuck)
    making = asyncio.ensure_future(place.make())
    await reached.wait()
    assert place.copies.folder.read("ses_a") is not None
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert place.copies.folder.read("ses_a") is None
    assert (place.path().exists(), place.worktrees) == (False, 1)


async def test_one_copy_of_a_repository_is_made_at_a_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-412: another process is another service with the same folder."""
    under_way, most = 0, 0
    write = IsolatedCopies._write_files

    async def counted(self: IsolatedCopies, record: CopyRecord, head: str) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await write(self, record, head)
        under_way -= 1

    monkeypatch.setattr(IsolatedCopies, "_write_files", counted)
    other = IsolatedCopies(place.copies.folder.path, os.environ)
    await asyncio.gather(
        *(
            copies.make(f"ses_{n}", place.project, place.snapshots)
            for n, copies in enumerate((place.copies, other, place.copies))
        )
    )
    assert (most, place.worktrees) == (1, 4)


async def test_a_copy_that_takes_too_long_is_given_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-412."""
    monkeypatch.setattr(module, "MAKE_SECONDS", 0.0)
    with pytest.raises(CopyFailed, match="longer than"):
        await place.make()
    assert place.worktrees == 1


async def test_the_commit_may_move_and_the_repository_may_be_shallow(place: Place, tmp_path: Path) -> None:
    """SES-410: the diff is one of files, whatever commits are made on either side."""
    record = await place.make()
    (place.path() / "file").write_text("changed\n")
    git(place.path(), "commit", "-qam", "inside")
    git(place.worktree, "commit", "-q", "--allow-empty", "-m", "outside")
    tree, _ = await place.copies.capture(record)
    assert "+changed" in (await diff_text(place.copies.git(record), record.base, tree)).patch
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{place.worktree}", str(shallow))
    project = Project("s", shallow, shallow / ".git")
    await place.copies.make("ses_s", project, Snapshots(project, tmp_path / "snapshot"))
    assert (place.path("ses_s") / "file").exists()


@pytest.mark.parametrize("id", ["../evil", "ses_../evil", "ses_a/b", "ses_", ""])
async def test_only_ids_of_sessions_name_copies(place: Place, id: str) -> None:
    """SES-411."""
    await place.make()
    assert place.copies.folder.read(id) is None
    await place.copies.discard(id)
    assert place.path().exists()


async def test_a_copy_with_odd_permissions_is_removed(place: Place) -> None:
    """SES-413."""
    record = await place.make()
    (place.path() / "locked").mkdir()
    (place.path() / "locked" / "file").write_text("x")
    (place.path() / "locked").chmod(0)
    os.symlink("/", place.path() / "root")
    await place.copies.remove(record)
    assert (place.path().is_file(), place.worktrees) == (True, 1)


async def test_a_deleted_session_leaves_no_copy(place: Place) -> None:
    """SES-415: whatever it had changed; the process that deleted it was killed."""
    await place.make()
    (place.path() / "new").write_text("x")
    await sweep(place, CopyUse("deleted"), old=False)
    assert (place.path().exists(), place.worktrees) == (False, 1)


@pytest.mark.parametrize(("changed", "state"), [(False, "unknown"), (True, "unknown"), (False, "idle"), (True, "idle")])
async def test_only_an_unchanged_copy_is_swept(place: Place, changed: bool, state: str) -> None:
    """SES-415: and not before an hour has passed, and not while its Session works."""
    await place.make()
    if changed:
        (place.path() / "new").write_text("x")
    use = CopyUse(state, SystemClock().now())  # type: ignore[arg-type]
    await sweep(place, use, old=False)
    await sweep(place, CopyUse("working"))
    assert place.path().is_dir()
    await sweep(place, use)
    assert place.path().is_dir() == changed


async def test_a_copy_that_is_used_again_while_it_is_swept_stays(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-441: another process takes it between the look at its files and the removal."""
    await place.make()
    capture = place.copies.capture

    async def slow(record: CopyRecord) -> tuple[str, list[str]]:
        found = await capture(record)
        await IsolatedCopies(place.copies.folder.path, os.environ).make("ses_a", place.project, place.snapshots)
        return found

    monkeypatch.setattr(place.copies, "capture", slow)
    await sweep(place, CopyUse("idle"))
    assert place.path().is_dir()
    monkeypatch.setattr(place.copies, "capture", capture)
    await sweep(place, CopyUse("idle"))
    assert place.path().is_file()


async def test_an_unused_copy_is_put_away_and_its_changes_can_still_be_applied(place: Place) -> None:
    """SES-414, SES-415: a child that goes on gets them back."""
    await place.make()
    (place.path() / "new").write_text("x")
    (place.path() / "file").unlink()
    await sweep(place, CopyUse("idle", SystemClock().now() - KEPT_MILLISECONDS - 1000))
    assert "recorded" in place.path().read_text()
    again = await place.make()
    assert ((place.path() / "new").exists(), (place.path() / "file").exists()) == (True, False)
    await place.copies.remove(again)
    record = place.copies.folder.read("ses_a")
    assert record is not None
    plan = await place.applications.plan(record)
    await place.applications.apply(plan)
    await place.applications.finish(plan)
    assert ((place.worktree / "new").read_text(), (place.worktree / "file").exists()) == ("x", False)
    assert (await place.applications.plan(place.copies.folder.read("ses_a") or record)).steps == ()


async def test_a_removal_that_broke_off_is_finished(place: Place) -> None:
    """SES-415."""
    record = await place.make()
    place.copies.folder.write(record.replace(state="removed", result=record.base))
    await sweep(place, CopyUse("idle"))
    assert (place.path().is_file(), place.worktrees) == (True, 1)


async def test_a_repository_that_is_gone_does_not_keep_the_copy(place: Place) -> None:
    """SES-413."""
    record = await place.make()
    shutil.rmtree(place.worktree)
    await place.copies.discard(record.session_id)
    assert not place.path().exists()


async def test_files_and_directories_change_places(place: Place) -> None:
    """TOL-474: a file becomes a directory, a directory a file, a file a link."""
    (place.worktree / "folder").mkdir()
    (place.worktree / "folder" / "inside").write_text("x")
    record = await place.make()
    copy = place.path()
    (copy / "file").unlink()
    (copy / "file").mkdir()
    (copy / "file" / "below").write_text("y")
    shutil.rmtree(copy / "folder")
    (copy / "folder").write_text("now a file")
    os.symlink("folder", copy / "link")
    plan = await place.applications.plan(record)
    await place.applications.apply(plan)
    assert (place.worktree / "file" / "below").read_text() == "y"
    assert (place.worktree / "folder").read_text() == "now a file"
    assert os.readlink(place.worktree / "link") == "folder"


async def test_what_appeared_here_meanwhile_is_not_overwritten(place: Place) -> None:
    """TOL-474: a file in the place of a new directory, a link that leads elsewhere, a directory with further files."""
    (place.worktree / "folder").mkdir()
    (place.worktree / "folder" / "inside").write_text("x")
    record = await place.make()
    copy = place.path()
    for name in ("new", "linked"):
        (copy / name).mkdir()
        (copy / name / "below").write_text("y")
    shutil.rmtree(copy / "folder")
    (copy / "folder").write_text("now a file")
    (place.worktree / "new").write_text("a file")
    os.symlink("/tmp", place.worktree / "linked")
    (place.worktree / "folder" / "more").write_text("precious")
    plan = await place.applications.plan(record)
    assert sorted(path for path, _ in plan.conflicts) == ["folder", "linked/below", "new/below"]


async def test_an_approval_holds_for_the_files_that_were_shown(place: Place) -> None:
    """TOL-474: another change of the same file in between, and nothing is applied; other files do not matter."""
    record = await place.make()
    (place.path() / "file").write_text("ONE\ntwo\nthree\nfour\nfive\n")
    (place.path() / "new").write_text("x")
    plan = await place.applications.plan(record)
    (place.worktree / "elsewhere").write_text("x")
    (place.worktree / "file").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    with pytest.raises(CopyFailed, match="approval was pending"):
        await place.applications.apply(plan)
    assert not (place.worktree / "new").exists()
    await place.applications.apply(await place.applications.plan(record))
    assert (place.worktree / "file").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_applications_to_one_worktree_do_not_undo_each_other(place: Place, elsewhere: bool) -> None:
    """TOL-490: two children that changed the same file are applied at the same time, by one process or by two."""
    other = place.applications
    if elsewhere:
        other = Applications(place.copies, Snapshots(place.project, place.snapshots.store.parent), place.worktree)
    first, second = await place.make("ses_a"), await place.make("ses_b")
    (place.path("ses_a") / "file").write_text("ONE\ntwo\nthree\nfour\nfive\n")
    (place.path("ses_b") / "file").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    plans = await place.applications.plan(first), await other.plan(second)
    ended = await asyncio.gather(place.applications.apply(plans[0]), other.apply(plans[1]), return_exceptions=True)
    assert sorted(map(str, ended)) == sorted([str(None), STALE])
    refused = second if ended[1] is not None else first
    await place.applications.apply(await place.applications.plan(refused))
    assert (place.worktree / "file").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"


async def test_what_was_applied_is_not_reported_as_failed_because_its_copy_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-473: another copy is being made meanwhile, for longer than a removal waits; the copy is swept later."""
    monkeypatch.setattr(module, "REMOVE_SECONDS", 0.01)
    record = await place.make()
    (place.path() / "file").write_text("changed\n")
    plan = await place.applications.plan(record)
    await place.applications.apply(plan)
    async with file_lock(place.copies.folder.lock(record.repository)):
        assert await place.applications.finish(plan) is False
    assert (place.worktree / "file").read_text() == "changed\n"
    assert place.path().is_dir()
    await sweep(place, CopyUse("idle"))
    assert place.path().is_file()


async def test_an_application_that_fails_in_the_middle_is_taken_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-474."""
    record = await place.make()
    (place.path() / "file").write_text("changed\n")
    (place.path() / "new").write_text("x")
    plan = await place.applications.plan(record)
    restore, failing = place.snapshots.restore, iter((True, False))

    async def breaks(tree: str, paths: list[str]) -> None:
        await restore(tree, paths[:1] if (broken := next(failing)) else paths)
        if broken:
            raise OSError("No space left on device")

    monkeypatch.setattr(place.snapshots, "restore", breaks)
    with pytest.raises(CopyFailed, match="No space left"):
        await place.applications.apply(plan)
    assert (place.worktree / "file").read_text().startswith("one\n")
    assert not (place.worktree / "new").exists()


def test_long_texts_are_cut() -> None:
    """TOL-471."""
    patch = "".join(f"+{number}\n" for number in range(1000))
    assert bounded(patch).count("\n") == 401
    assert bounded("short\n") == "short\n"
    assert listed([str(number) for number in range(30)]).endswith("and 10 more")


HARMFUL = ("hooks", "hooks elsewhere", "configured hooks", "fsmonitor", "smudge", "process", "include", "submodule")


@pytest.mark.parametrize(
    "vector",
    [pytest.param(one, id=one.name, marks=() if one.name in HARMFUL else pytest.mark.prove) for one in VECTORS],
)
async def test_a_hostile_repository_is_copied_and_executes_nothing(tmp_path: Path, vector: Vector) -> None:
    """TOL-390, SES-410: a copy is made, compared, applied and removed."""
    root, marks = honest(tmp_path / "project"), tmp_path / "marks"
    spring(Trap(root, vector.name, marks), vector)
    project = Project("p", root, root / ".git")
    snapshots, copies = Snapshots(project, tmp_path / "snapshot"), IsolatedCopies(tmp_path / "copies", os.environ)
    applications = Applications(copies, snapshots, root)
    try:
        record = await copies.make("ses_a", project, snapshots)
    except CopyFailed:
        assert vector.name not in HARMFUL
    else:
        copy = copies.directory(record)
        assert (copy / "a.txt").read_text() == "changed\n"
        (copy / "a.txt").write_text("changed in the copy\n")
        plan = await applications.plan(record)
        await applications.diff(plan)
        await applications.apply(plan)
        await applications.finish(plan)
        assert (root / "a.txt").read_text() == "changed in the copy\n"
        assert copy.is_file()
    assert not marks.exists(), marks.read_text()


class Killed(BaseException):
    """The process ends here."""


class Kill:
    """Ends the process at the nth call of git; nothing is cleaned up then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        run = Git.run

        async def killed(git: Git, *arguments: str, **more: object) -> bytes:
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Killed
            return await run(git, *arguments, **more)  # type: ignore[arg-type]

        async def nothing(*given: object) -> None:
            pass

        monkeypatch.setattr(Git, "run", killed)
        monkeypatch.setattr(IsolatedCopies, "_undo", nothing)


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Kill:
    return Kill(monkeypatch)


async def test_making_is_repaired_wherever_the_process_is_killed(place: Place, kill: Kill) -> None:
    """SES-412: by the next execution of the call, and by the next start."""
    (place.worktree / "file").write_text("uncommitted\n")
    steps = 0
    while True:
        kill.left = steps
        try:
            await place.make(f"ses_{steps}")
        except Killed:
            kill.left = None
            await place.make(f"ses_{steps}")
            assert (place.path(f"ses_{steps}") / "file").read_text() == "uncommitted\n"
            assert git(place.path(f"ses_{steps}"), "status", "--short") == " M file\n"
            kill.left = steps
            with pytest.raises(Killed):
                await place.make("ses_swept")
            kill.left = None
            await sweep(place, CopyUse("working"))
            assert place.copies.folder.read("ses_swept") is None
            assert not place.path("ses_swept").exists()
            steps += 1
        else:
            break
    assert steps > 5
    assert place.worktrees == steps + 2


@pytest.mark.parametrize("entry", ["complete", "locked", "empty"])
async def test_what_git_leaves_when_it_is_killed_is_no_hindrance(place: Place, entry: str) -> None:
    """SES-412: a locked or incomplete entry in the list of worktrees."""
    place.copies.folder.create()
    for session_id in ("ses_a", "ses_swept"):
        left = CopyRecord(session_id, str(place.worktree), str(place.project.store), str(place.snapshots.store))
        place.copies.folder.write(left)
        lock = ("--lock", "--reason", "initializing")
        git(place.worktree, "worktree", "add", "-q", "--detach", "--no-checkout", *lock, str(place.path(session_id)))
        folder = place.worktree / ".git" / "worktrees" / session_id
        for name in {"complete": (), "locked": ("gitdir", "HEAD"), "empty": ("gitdir", "HEAD", "locked")}[entry]:
            (folder / name).unlink()
    await place.make()
    await sweep(place, CopyUse("working"))
    assert (place.path() / "file").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["ses_a"]
    assert place.worktrees == 2


async def test_an_application_is_repeated_wherever_the_process_is_killed(place: Place, kill: Kill) -> None:
    """TOL-475: the same files result, and the copy is gone in the end."""
    for steps in range(0, 100, 3):
        kill.left = None
        (place.worktree / "file").write_text("one\ntwo\nthree\nfour\nfive\n")
        (place.worktree / "new").unlink(missing_ok=True)
        record = await place.make(session_id := f"ses_{steps}")
        (place.path(session_id) / "file").write_text("one\ntwo\nthree\nfour\nFIVE\n")
        (place.path(session_id) / "new").write_text("x")
        (place.worktree / "file").write_text("ONE\ntwo\nthree\nfour\nfive\n")
        kill.left = steps
        with suppress(Killed):
            plan = await place.applications.plan(record)
            await place.applications.apply(plan)
            await place.applications.finish(plan)
        done, kill.left = kill.left >= 0, None
        plan = await place.applications.plan(place.copies.folder.read(session_id) or record)
        assert plan.conflicts == ()
        await place.applications.apply(plan)
        await place.applications.finish(plan)
        await sweep(place, CopyUse("idle"))
        assert (place.worktree / "file").read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"
        assert ((place.worktree / "new").read_text(), place.path(session_id).is_file()) == ("x", True)
        if done:
            break
    assert (steps > 10, place.worktrees) == (True, 1)
