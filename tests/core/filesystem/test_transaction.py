"""Changes that happen together or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.core.tool.tool_support import tree

from holdfast.core.filesystem.errors import StaleContent, TargetExists
from holdfast.core.filesystem.location_path import LocationPaths, Target
from holdfast.core.filesystem.mutation import FileMutations
from holdfast.core.filesystem.transaction import Change, ChangesFailed

pytestmark = pytest.mark.anyio


@pytest.fixture
def changes(root: Path) -> list[Change]:
    """A replacement, a removal, a creation and the removal of a link."""
    (root / "a").write_bytes(b"a")
    (root / "a").chmod(0o755)
    (root / "b").write_bytes(b"b")
    (root / "link").symlink_to("nowhere")

    def at(path: str) -> Target:
        return LocationPaths(root).resolve(path, "write", follow=False)

    return [
        Change(at("a"), b"a", b"A"),
        Change(at("b"), b"b", None),
        Change(at("new/c"), None, b"C"),
        Change(at("link"), b"", None),
    ]


async def test_all_files_of_a_transaction_are_committed_with_their_modes(root: Path, changes: list[Change]) -> None:
    """TOL-201: committed, nothing temporary left, modes kept."""
    await FileMutations().change_together(changes)
    assert (root / "a").read_bytes() == b"A"
    assert (root / "a").stat().st_mode & 0o777 == 0o755
    assert (root / "new/c").read_bytes() == b"C"
    assert sorted(os.listdir(root)) == ["a", "new"]
    assert os.listdir(root / "new") == ["c"]


@pytest.mark.parametrize("call", range(4))
@pytest.mark.parametrize("fault", ["rename", "unlink", "link", "fsync"])
async def test_a_failure_takes_everything_back(
    root: Path, changes: list[Change], monkeypatch: pytest.MonkeyPatch, fault: str, call: int
) -> None:
    """TOL-201: whichever step of the commit fails."""
    before = tree(root)
    real, calls = getattr(os, fault), []

    def fail(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == call + 1:
            raise OSError(errno.EIO, "Input/output error")
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, fault, fail)
        try:
            await FileMutations().change_together(changes)
            failed = None
        except ChangesFailed as error:
            failed = error
        except OSError:
            # Clearing up failed after everything was done.
            assert (root / "a").read_bytes() == b"A"
            return
    if failed is not None:
        assert failed.remaining == ()
        after = {name: found for name, found in tree(root).items() if name != "new"}
        assert after == before
    else:
        assert len(calls) <= call
        assert (root / "a").read_bytes() == b"A"


async def test_a_file_changed_meanwhile_stops_the_transaction(root: Path, changes: list[Change]) -> None:
    """TOL-201, TOL-127: before anything is done."""
    (root / "b").write_bytes(b"other")
    with pytest.raises(ChangesFailed) as failed:
        await FileMutations().change_together(changes)
    assert isinstance(failed.value.cause, StaleContent)
    assert (root / "a").read_bytes() == b"a"
    (root / "b").write_bytes(b"b")
    (root / "new").mkdir()
    (root / "new/c").write_bytes(b"kept")
    with pytest.raises(ChangesFailed) as failed:
        await FileMutations().change_together(changes)
    assert isinstance(failed.value.cause, TargetExists)
    assert (root / "new/c").read_bytes() == b"kept"


async def test_a_failed_rollback_names_the_partial_state(
    root: Path, changes: list[Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-201: the exact partial state."""
    real, renamed = os.rename, []

    def fail_from_the_second(source: Any, name: str, **options: Any) -> None:
        renamed.append(name)
        if len(renamed) > 1:
            raise OSError(errno.EIO, "Input/output error")
        real(source, name, **options)

    monkeypatch.setattr(os, "rename", fail_from_the_second)
    changes[1] = changes[1].replace(after=b"B")
    with pytest.raises(ChangesFailed) as failed:
        await FileMutations().change_together(changes)
    assert renamed == ["a", "b", "a"]
    assert failed.value.target.resource == "b"
    assert [target.resource for target in failed.value.remaining] == ["a"]
    assert {name: (root / name).read_bytes() for name in ("a", "b")} == {"a": b"A", "b": b"b"}


async def test_hard_links_are_not_separated(root: Path, changes: list[Change]) -> None:
    """TOL-130, TOL-201: refused."""
    os.link(root / "a", root / "twin")
    with pytest.raises(ChangesFailed, match="hard links"):
        await FileMutations().change_together(changes)
    assert (root / "a").read_bytes() == b"a"
