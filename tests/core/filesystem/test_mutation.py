"""Changes of files: exclusive, conditional, atomic, in order, and only where they were meant."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.core.tool.tool_support import tree

from holdfast.core.filesystem.errors import (
    FileTooLarge,
    PathError,
    ReadOnlyFile,
    StaleContent,
    TargetExists,
    TargetMissing,
    WrongKind,
)
from holdfast.core.filesystem.location_path import LocationPaths, Target
from holdfast.core.filesystem.locks import PROCESS_LOCKS, FileLocks
from holdfast.core.filesystem.mutation import MAX_FILE_BYTES, FileMutations, Mutation
from holdfast.core.filesystem.open_tree import temporary_name

pytestmark = pytest.mark.anyio


@pytest.fixture
def mutations() -> FileMutations:
    return FileMutations()


def at(root: Path, path: str, **options: Any) -> Target:
    return LocationPaths(root).resolve(path, "write", **options)


async def put(mutations: FileMutations, target: Target, data: bytes) -> Mutation:
    return await mutations.write(target, lambda before: data)


async def test_create_makes_parents_and_never_replaces_a_file(root: Path, mutations: FileMutations) -> None:
    """TOL-125: with its parents; what stands there is never touched, also when it appeared after resolution."""
    target = at(root, "a/b/new")
    assert await mutations.create(target, b"one") == Mutation(existed=False, before=None, after=b"one")
    with pytest.raises(TargetExists):
        await mutations.create(target, b"two")
    for kind in ("folder", "link"):
        target = at(root, kind)
        (root / kind).mkdir() if kind == "folder" else (root / kind).symlink_to("nowhere")
        with pytest.raises(TargetExists):
            await mutations.create(target, b"two")
    assert (root / "a/b/new").read_bytes() == b"one"
    assert not (root / "nowhere").exists()


async def test_create_where_links_are_unknown(
    root: Path, mutations: FileMutations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-125: on file systems without hard links the name is still taken exclusively."""

    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    await mutations.create(at(root, "new"), b"one")
    target = at(root, "late")
    (root / "late").write_bytes(b"kept")
    monkeypatch.setattr("holdfast.core.filesystem.mutation.stat_entry", lambda *arguments: None)
    with pytest.raises(TargetExists):
        await mutations.create(target, b"two")
    assert tree(root) == {"new": (oct(0o100666 & ~umask()), b"one"), "late": (oct(0o100666 & ~umask()), b"kept")}


async def test_write_and_remove_say_whether_the_file_existed(root: Path, mutations: FileMutations) -> None:
    """TOL-126: both say whether anything was there; directories are not removed."""
    target = at(root, "sub/f")
    assert (await put(mutations, target, b"one")).existed is False
    assert await put(mutations, target, b"two") == Mutation(existed=True, before=b"one", after=b"two")
    assert (await mutations.remove(target)).existed is True
    assert (await mutations.remove(target)).existed is False
    assert (await mutations.remove(at(root, "never/was"))).existed is False
    with pytest.raises(WrongKind):
        await mutations.remove(at(root, "sub"))
    assert (root / "sub").is_dir()


async def test_a_conditional_write_needs_the_expected_bytes(root: Path, mutations: FileMutations) -> None:
    """TOL-127: every byte counts; nothing is written otherwise."""
    (root / "f").write_bytes(b"abc")
    target = at(root, "f")
    for expected in (b"abd", b"ab", b"abcd", b""):
        with pytest.raises(StaleContent):
            await mutations.write_if_unchanged(target, expected, b"new")
    assert (root / "f").read_bytes() == b"abc"
    assert await mutations.write_if_unchanged(target, b"abc", b"new") == Mutation(True, b"abc", b"new")
    with pytest.raises(StaleContent):
        await mutations.write_if_unchanged(at(root, "gone"), b"", b"new")


async def test_of_two_from_the_same_base_one_wins(root: Path) -> None:
    """TOL-123, TOL-124, TOL-127: also through two Locations that overlap, and through two hard links."""
    (root / "sub").mkdir()
    for round in range(10):
        (root / "sub/f").write_bytes(b"base")
        (root / "sub/g").unlink(missing_ok=True)
        os.link(root / "sub/f", root / "sub/g")
        paths = [(root, "sub/f"), (root / "sub", "f"), (root, "sub/g")]
        changes = [
            FileMutations().write_if_unchanged(at(folder, path), b"base", f"{round} {path}".encode())
            for folder, path in paths
        ]
        outcomes = await asyncio.gather(*changes, return_exceptions=True)
        assert sum(isinstance(outcome, Mutation) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, StaleContent) for outcome in outcomes) == 2
        assert (root / "sub/f").read_bytes() == (root / "sub/g").read_bytes()
    assert len(PROCESS_LOCKS) == 0


async def test_writes_to_the_same_file_wait_for_each_other(root: Path) -> None:
    """TOL-123, TOL-124: the same file waits, another one does not, and an unused lock is forgotten."""
    locks = FileLocks()
    mutations = FileMutations(locks=locks)
    (root / "f").write_bytes(b"x")
    os.link(root / "f", root / "hard")
    entered, leave = threading.Event(), threading.Event()

    def slowly(before: bytes | None) -> bytes:
        entered.set()
        assert leave.wait(10)
        return b"slow"

    slow = asyncio.create_task(mutations.write(at(root, "f"), slowly))
    await asyncio.to_thread(entered.wait, 10)
    waiting = [asyncio.create_task(put(mutations, at(root, path), b"late")) for path in ("f", "hard")]
    await asyncio.wait_for(put(mutations, at(root, "other"), b"x"), 10)
    assert not any(task.done() for task in (slow, *waiting))
    leave.set()
    await asyncio.gather(slow, *waiting)
    assert (root / "f").read_bytes() == b"late"
    assert len(locks) == 0


async def test_a_cancelled_change_is_finished_first(root: Path) -> None:
    """TOL-123, TOL-199: the cancellation arrives after the file is whole, and what happened is announced."""
    entered, leave = threading.Event(), threading.Event()
    edited: list[Path] = []
    mutations = FileMutations(on_edit=edited.append)

    def slowly(before: bytes | None) -> bytes:
        entered.set()
        assert leave.wait(10)
        return b"whole"

    task = asyncio.create_task(mutations.write(at(root, "f"), slowly))
    await asyncio.to_thread(entered.wait, 10)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (root / "f").read_bytes() == b"whole"
    assert edited == [root / "f"]


@pytest.mark.parametrize("fault", ["write", "fsync", "rename", "fchmod"])
async def test_a_failure_on_the_way_leaves_the_old_file(
    root: Path, mutations: FileMutations, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """TOL-129: a full disk, for instance; no temporary file stays."""
    (root / "f").write_bytes(b"old")

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, fault, fail)
        with pytest.raises(OSError, match="No space left"):
            await put(mutations, at(root, "f"), b"new")
    assert {name: content for name, (_, content) in tree(root).items()} == {"f": b"old"}


WRITER = """
import asyncio, sys
from pathlib import Path
from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.filesystem.mutation import FileMutations

async def main():
    target = LocationPaths(Path(sys.argv[1])).resolve("f", "write")
    turn = 0
    while True:
        data = bytes([65 + turn % 26]) * 300_000
        await FileMutations().write(target, lambda before: data)
        print(turn, flush=True)
        turn += 1

asyncio.run(main())
"""


def test_a_killed_writer_leaves_old_or_new(root: Path) -> None:
    """TOL-129: never a mixture and never nothing."""
    for wait in (1, 3, 8):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(wait):
            assert child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        data = (root / "f").read_bytes()
        assert len(data) == 300_000
        assert len(set(data)) == 1


async def test_modes_owner_and_attributes_stay(root: Path, mutations: FileMutations) -> None:
    """TOL-129, TOL-130: the executable bit, a closed mode, an extended attribute."""
    for mode in (0o755, 0o600, 0o644, 0o2750):
        path = root / f"f{mode}"
        path.write_bytes(b"old")
        path.chmod(mode)
        if os.geteuid() == 0:
            os.chown(path, 12345, 23456)
            path.chmod(mode)
        try:
            os.setxattr(path, "user.note", b"kept")
            noted = True
        except OSError:
            noted = False
        before = path.stat()
        await put(mutations, at(root, path.name), b"new")
        after = path.stat()
        assert path.read_bytes() == b"new"
        assert after.st_ino != before.st_ino
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        assert not noted or os.getxattr(path, "user.note") == b"kept"


async def test_a_new_file_has_the_usual_mode(root: Path, mutations: FileMutations) -> None:
    """TOL-129: what the umask leaves, not that of a temporary file."""
    await put(mutations, at(root, "written"), b"x")
    await mutations.create(at(root, "created"), b"x")
    assert {oct(path.stat().st_mode) for path in root.iterdir()} == {oct(0o100666 & ~umask())}


async def test_writing_through_a_link_keeps_the_link(root: Path, mutations: FileMutations) -> None:
    """TOL-130: a symbolic link stays one and its referent changes; hard links stay together."""
    (root / "real").write_bytes(b"old")
    (root / "link").symlink_to("real")
    os.link(root / "real", root / "hard")
    await put(mutations, at(root, "link"), b"longer than before")
    assert (root / "link").is_symlink()
    assert (root / "hard").read_bytes() == (root / "real").read_bytes() == b"longer than before"
    await mutations.write_if_unchanged(at(root, "hard"), b"longer than before", b"x")
    assert (root / "real").read_bytes() == b"x"
    assert (root / "real").stat().st_nlink == 2
    assert sorted(os.listdir(root)) == ["hard", "link", "real"]


async def test_a_failed_write_in_place_is_taken_back(
    root: Path, mutations: FileMutations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-130: the old bytes are kept beside a file with several links until the new ones are safe."""
    (root / "f").write_bytes(b"old content")
    os.link(root / "f", root / "g")
    real, calls = os.ftruncate, []

    def fail_once(handle: int, length: int) -> None:
        calls.append(length)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error")
        real(handle, length)

    monkeypatch.setattr(os, "ftruncate", fail_once)
    with pytest.raises(OSError, match="Input/output"):
        await put(mutations, at(root, "f"), b"new")
    assert (root / "f").read_bytes() == b"old content"
    assert sorted(os.listdir(root)) == ["f", "g"]


async def test_a_read_only_file_is_refused_for_root_too(root: Path, mutations: FileMutations) -> None:
    """TOL-130: refused, for the superuser too."""
    (root / "f").write_bytes(b"kept")
    (root / "f").chmod(0o444)
    with pytest.raises(ReadOnlyFile):
        await put(mutations, at(root, "f"), b"new")
    with pytest.raises(ReadOnlyFile):
        await mutations.write_if_unchanged(at(root, "f"), b"kept", b"new")
    assert (root / "f").read_bytes() == b"kept"


async def test_a_special_file_is_not_written(root: Path, mutations: FileMutations) -> None:
    """TOL-161, TOL-156: nothing is opened, so nothing blocks."""
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    for path, kind in {"folder": "directory", "pipe": "pipe", ".": "directory"}.items():
        with pytest.raises(WrongKind) as refused:
            await put(mutations, at(root, path), b"x")
        assert refused.value.kind == kind
    with pytest.raises(WrongKind):
        await mutations.remove(at(root, "pipe"))


async def test_a_huge_file_is_replaced_without_being_read(root: Path, mutations: FileMutations) -> None:
    """TOL-176: two gigabytes of nothing."""
    with (root / "f").open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(StaleContent):
        await mutations.write_if_unchanged(at(root, "f"), b"x", b"y")
    os.link(root / "f", root / "g")
    with pytest.raises(FileTooLarge):
        await put(mutations, at(root, "f"), b"new")
    (root / "g").unlink()
    assert await put(mutations, at(root, "f"), b"new") == Mutation(existed=True, before=None, after=b"new")
    assert MAX_FILE_BYTES < 2 << 30


async def test_a_move_needs_a_free_name_and_the_expected_content(root: Path, mutations: FileMutations) -> None:
    """TOL-193: content, mode and name change together; the new name must be free, the old content expected."""
    (root / "a").write_bytes(b"old")
    (root / "a").chmod(0o755)
    (root / "taken").write_bytes(b"kept")
    with pytest.raises(TargetExists):
        await mutations.move(at(root, "a"), at(root, "taken"), b"old", b"new")
    with pytest.raises(StaleContent):
        await mutations.move(at(root, "a"), at(root, "b"), b"other", b"new")
    with pytest.raises(TargetMissing):
        await mutations.move(at(root, "gone"), at(root, "b"), b"", b"new")
    assert sorted(os.listdir(root)) == ["a", "taken"]
    await mutations.move(at(root, "a"), at(root, "sub/b"), b"old", b"new")
    assert tree(root) == {
        "sub": oct((root / "sub").stat().st_mode),
        "sub/b": (oct(0o100755), b"new"),
        "taken": (oct(0o100666 & ~umask()), b"kept"),
    }


async def test_removing_a_link_keeps_its_referent(root: Path, mutations: FileMutations) -> None:
    """TOL-133: wherever it points."""
    (root.parent / "secret").write_bytes(b"kept")
    (root / "link").symlink_to(root.parent / "secret")
    assert (await mutations.remove(at(root, "link", follow=False))).existed
    assert not (root / "link").is_symlink()
    assert (root.parent / "secret").read_bytes() == b"kept"


@pytest.mark.parametrize("change", ["create", "write", "conditional", "remove", "move"])
@pytest.mark.parametrize("swap", ["parent", "target"])
async def test_a_link_swapped_in_after_resolution_is_not_followed(
    root: Path, mutations: FileMutations, change: str, swap: str
) -> None:
    """TOL-131, TOL-315: a directory or the target itself became a link to the outside after resolution."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"old")
    (root / "sub").mkdir()
    if change != "create":
        (root / "sub/f").write_bytes(b"old")
    (root / "a").write_bytes(b"old")
    target, other = at(root, "sub/f"), at(root, "a")
    if swap == "parent":
        (root / "sub").rename(root / "was")
        (root / "sub").symlink_to(outside)
    else:
        (root / "sub/f").unlink(missing_ok=True)
        (root / "sub/f").symlink_to(outside / "f")
    before = tree(outside)
    calls = {
        "create": lambda: mutations.create(target, b"new"),
        "write": lambda: put(mutations, target, b"new"),
        "conditional": lambda: mutations.write_if_unchanged(target, b"old", b"new"),
        "remove": lambda: mutations.remove(target),
        "move": lambda: mutations.move(other, target, b"old", b"new"),
    }
    if (change, swap) == ("remove", "target"):
        await calls[change]()
    else:
        with pytest.raises((PathError, TargetExists)):
            await calls[change]()
    assert tree(outside) == before
    assert (root / "a").read_bytes() == b"old"


async def test_temporary_names_are_short_enough(root: Path, mutations: FileMutations) -> None:
    """TOL-129: a name of the greatest length can be replaced as well."""
    await put(mutations, at(root, "x" * 255), b"one")
    await put(mutations, at(root, "x" * 255), b"two")
    assert os.listdir(root) == ["x" * 255]
    assert len(temporary_name()) < 32


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
