"""Changes on their way from one checkout to another, in repositories that do not make it easy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.core.runtime.test_moves import git as run
from tests.core.runtime.test_moves import repository, worktree

from holdfast.core.process.git import Git
from holdfast.core.snapshot import transfer, written_files
from holdfast.core.snapshot.errors import TransferError

pytestmark = pytest.mark.anyio


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return repository(tmp_path / "one")


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return Git({"PATH": os.environ["PATH"], "HOME": str(tmp_path)})


def filtered(here: Path, marks: Path) -> None:
    """Content passes through a filter in this repository."""
    for way in ("clean", "smudge"):
        run(here, "config", f"filter.x.{way}", f"touch {marks}; cat")
    (here / ".gitattributes").write_text("a.txt filter=x\n", encoding="utf-8")
    run(here, "add", ".")
    run(here, "commit", "--quiet", "-m", "with a filter")
    marks.unlink(missing_ok=True)


async def test_a_changed_file_with_a_filter_is_not_carried(here: Path, git: Git, tmp_path: Path) -> None:
    """SES-147, TOL-392: its committed form cannot be made without running the filter. It is named; nothing runs."""
    filtered(here, tmp_path / "marks")
    (here / "a.txt").write_text("changed\n", encoding="utf-8")
    with pytest.raises(TransferError, match=r"a\.txt passes through the git filter x") as failed:
        await transfer.capture(git, here, here)
    assert failed.value.step == "capture"
    assert not (tmp_path / "marks").exists()


async def test_an_unchanged_file_with_a_filter_is_in_nobodys_way(here: Path, git: Git, tmp_path: Path) -> None:
    """SES-146, TOL-392: what the user's index says of it spares looking."""
    filtered(here, tmp_path / "marks")
    there = worktree(here)
    (tmp_path / "marks").unlink(missing_ok=True)
    (here / "elsewhere.txt").write_text("changed\n", encoding="utf-8")
    changes = await transfer.capture(git, here, here)
    assert (changes.changed, changes.added) == (("elsewhere.txt",), ())
    await transfer.apply(git, changes, there)
    await transfer.discard(git, changes)
    assert (there / "elsewhere.txt").read_text(encoding="utf-8") == "changed\n"
    assert not (tmp_path / "marks").exists()
    assert run(here, "status", "--porcelain", "elsewhere.txt") == ""


async def test_ignored_files_stay_behind_in_a_transfer(here: Path, git: Git) -> None:
    """SES-146: by the project's patterns and by those that only this repository has."""
    (here / ".git" / "info").mkdir(exist_ok=True)
    (here / ".git" / "info" / "exclude").write_text("local.env\n", encoding="utf-8")
    (here / ".gitignore").write_text("*.log\n", encoding="utf-8")
    for name in ("local.env", "x.log", "new.txt"):
        (here / name).write_text("x", encoding="utf-8")
    changes = await transfer.capture(git, here, here)
    assert changes.added == (".gitignore", "new.txt")


async def test_repositories_below_the_worktree_are_neither_carried_nor_removed(here: Path, git: Git) -> None:
    """SES-146, TOL-392: neither carried nor removed."""
    repository(here / "sub" / "lib")
    (here / "sub" / "new.txt").write_text("x", encoding="utf-8")
    changes = await transfer.capture(git, here, here)
    assert changes.added == ("sub/new.txt",)
    await transfer.discard(git, changes)
    assert (here / "sub" / "lib" / "a.txt").exists()


async def test_an_unfinished_merge_is_no_reason_to_fail(here: Path, git: Git) -> None:
    """SES-146: files are compared with the last commit; the user's index stays as it is."""
    run(here, "checkout", "--quiet", "-b", "side")
    for branch, text in (("side", "theirs\n"), ("main", "mine\n")):
        run(here, "checkout", "--quiet", branch)
        (here / "a.txt").write_text(text, encoding="utf-8")
        run(here, "commit", "--quiet", "-am", branch)
    with pytest.raises(Exception, match="merge"):
        run(here, "merge", "--quiet", "side")
    before = (here / ".git" / "index").read_bytes()
    changes = await transfer.capture(git, here, here)
    assert changes.changed == ("a.txt",)
    assert b"<<<<<<<" in changes.patch
    assert (here / ".git" / "index").read_bytes() == before


async def test_without_a_commit_there_is_nothing_to_compare_with(git: Git, tmp_path: Path) -> None:
    """SES-147."""
    (tmp_path / "empty").mkdir()
    run(tmp_path / "empty", "init", "--quiet")
    with pytest.raises(TransferError, match="no commit yet"):
        await transfer.capture(git, tmp_path / "empty", tmp_path / "empty")


async def test_a_folder_that_is_exchanged_during_a_transfer(
    here: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-501: nothing outside is written by applying changes, or removed by discarding them."""
    there = worktree(here)
    outside = tmp_path / "outside"
    for folder in (here / "d", there / "d", outside):
        folder.mkdir()
    (here / "d/new.txt").write_text("new\n", encoding="utf-8")
    (outside / "new.txt").write_text("outside\n", encoding="utf-8")
    changes = await transfer.capture(git, here, here)
    copy = written_files.copy_files

    def exchanging(source: Path, directory: Path, paths: Any) -> None:
        if directory in (here, there):
            os.rename(directory / "d", directory / "away")
            (directory / "d").symlink_to(outside)
        copy(source, directory, paths)

    monkeypatch.setattr(transfer, "copy_files", exchanging)
    await transfer.apply(git, changes, there)
    await transfer.discard(git, changes)
    assert [path.read_text(encoding="utf-8") for path in outside.iterdir()] == ["outside\n"]
    assert (there / "d/new.txt").read_text(encoding="utf-8") == "new\n"


async def test_line_endings_of_attributes_come_back(here: Path, git: Git) -> None:
    """SES-146: discarded files are as a checkout makes them; applied ones too."""
    (here / ".gitattributes").write_text("*.bat text eol=crlf\n", encoding="utf-8")
    (here / "bats").mkdir()
    (here / "bats/a.bat").write_bytes(b"one\r\n")
    run(here, "add", ".")
    run(here, "commit", "--quiet", "-m", "with attributes")
    there = worktree(here)
    (here / "bats/a.bat").write_bytes(b"two\r\n")
    changes = await transfer.capture(git, here, here)
    await transfer.apply(git, changes, there)
    await transfer.discard(git, changes)
    assert ((here / "bats/a.bat").read_bytes(), (there / "bats/a.bat").read_bytes()) == (b"one\r\n", b"two\r\n")
