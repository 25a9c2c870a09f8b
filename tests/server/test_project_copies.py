"""Copies of a project over HTTP: real repositories, real working trees."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Wire

pytestmark = pytest.mark.anyio

INVALID = (400, "InvalidRequestError")


def git(folder: Path, *arguments: str) -> str:
    named = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.invalid")
    return subprocess.run(("git", *named, *arguments), cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "one")
    return project


class Copies:
    def __init__(self, wire: Wire, project_id: str) -> None:
        self._wire = wire
        self._path = f"/experimental/project/{project_id}/copy"

    async def create(self, directory: Path | str, name: str | None = None, strategy: str = "git_worktree") -> Any:
        named = {} if name is None else {"name": name}
        return await self._wire("POST", self._path, {"strategy": strategy, "directory": str(directory), **named})

    async def remove(self, directory: Path | str, *, force: bool = False) -> Any:
        return await self._wire("DELETE", self._path, {"directory": str(directory), "force": force})

    async def refresh(self) -> Any:
        return await self._wire("POST", f"{self._path}/refresh", ...)


@pytest.fixture
async def copies(wire: Wire, repository: Path) -> Copies:
    return Copies(wire, (await wire.get("/api/location")).json["project"]["id"])


def refused(answer: Any) -> tuple[str, bool | None]:
    assert (answer.status, answer.json["name"]) == (400, "ProjectCopyError")
    return answer.json["data"]["message"], answer.json["data"]["forceRequired"]


async def test_a_copy_is_a_working_tree_of_the_same_project(
    wire: Wire, copies: Copies, repository: Path, tmp_path: Path
) -> None:
    """API-151, API-003: a bare `{directory}`; what is committed is in it, on a branch of its own."""
    made = await copies.create(tmp_path / "copies", "feature one")

    assert (made.status, made.json) == (200, {"directory": str(tmp_path / "copies" / "feature-one")})
    copy = Path(made.json["directory"])
    assert (copy / "hello.txt").read_text() == "hello world\n"
    assert git(copy, "branch", "--show-current").strip() == "opencode/feature-one"
    here = (await wire.get(f"/api/location?location[directory]={copy}")).json
    assert here["project"]["id"] == (await wire.get("/api/location")).json["project"]["id"]


async def test_a_copy_without_a_name_gets_one(copies: Copies, tmp_path: Path) -> None:
    """API-151: any number of them."""
    made = [(await copies.create(tmp_path / "copies")).json["directory"] for _ in range(3)]

    assert len(set(made)) == 3
    assert all(Path(directory).parent == tmp_path / "copies" for directory in made)


async def test_a_project_that_cannot_be_copied_is_refused_with_a_reason(
    copies: Copies, repository: Path, tmp_path: Path, wire: Wire
) -> None:
    """API-021, API-151: unknown strategies, projects, names and places; nothing is made, nothing is taken over."""
    taken = tmp_path / "copies" / "taken"
    taken.mkdir(parents=True)
    elsewhere = Copies(wire, "another")

    assert refused(await copies.create(tmp_path, strategy="clone"))[0] == "Project copy strategy unavailable: clone"
    assert refused(await elsewhere.create(tmp_path))[0] == f"Project copy source not found: {repository}"
    assert (
        refused(await copies.create(tmp_path / "copies", "taken"))[0] == f"Project copy directory unavailable: {taken}"
    )
    assert refused(await copies.create("copies", "x"))[0] == "Invalid project copy directory: copies"
    for name in ("", "..", "../x", "-f", "a/b", "x.lock", "a\u0000b", "x" * 200):
        assert refused(await copies.create(tmp_path / "copies", name))[0].startswith("Invalid project copy name: ")
    (tmp_path / "file").write_text("no directory")
    for _ in range(2):
        assert "opencode/" not in refused(await copies.create(tmp_path / "file", "below"))[0]
    assert git(repository, "branch", "--list", "opencode/*") == ""
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["taken"]
    assert git(repository, "worktree", "list").count("\n") == 1


async def test_a_project_without_a_repository_or_a_commit_has_no_copies(
    wire: Wire, project: Path, tmp_path: Path
) -> None:
    """API-151."""
    outside = Copies(wire, "global")
    assert refused(await outside.create(tmp_path / "copies", "x"))[0].startswith("Project copy source not found: ")
    assert refused(await outside.remove(tmp_path / "copies" / "x"))[0].startswith("Project copy source not found: ")
    assert (await outside.refresh()).status == 204


async def test_a_copy_is_removed_with_what_is_in_it_only_by_force(
    copies: Copies, repository: Path, tmp_path: Path
) -> None:
    """API-021, API-151: `forceRequired` says so; the branch, and what was committed to it, stays."""
    copy = Path((await copies.create(tmp_path, "work")).json["directory"])
    (copy / "new.txt").write_text("not committed")

    assert refused(await copies.remove(copy))[1] is True
    assert (copy / "new.txt").exists()
    assert (await copies.remove(copy, force=True)).status == 204
    assert not copy.exists()
    assert "opencode/work" in git(repository, "branch", "--list", "opencode/*")
    assert refused(await copies.remove(copy, force=True)) == (f"Project copy directory unavailable: {copy}", None)


async def test_nothing_but_a_copy_is_removed(copies: Copies, repository: Path, tmp_path: Path) -> None:
    """API-151: not the project, not from inside a copy either, and no other directory."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept.txt").write_text("kept")

    assert refused(await copies.remove(repository, force=True))[0] == f"Invalid project copy directory: {repository}"
    assert refused(await copies.remove(other, force=True))[0] == f"Project copy directory unavailable: {other}"
    for nowhere in ("a\u0000b", "", ".", "project"):
        assert refused(await copies.remove(nowhere, force=True))[0].startswith("Invalid project copy directory: ")
    assert (other / "kept.txt").exists()
    assert (repository / "hello.txt").exists()


async def test_copies_that_are_gone_are_forgotten(copies: Copies, repository: Path, tmp_path: Path) -> None:
    """API-151: refreshing is 204, and the name is free again."""
    copy = Path((await copies.create(tmp_path, "work")).json["directory"])
    shutil.rmtree(copy)
    assert git(repository, "worktree", "list").count("\n") == 2

    assert (await copies.refresh()).status == 204
    assert git(repository, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize("payload", [{}, {"strategy": "git_worktree"}, {"directory": "/x", "force": "yes"}, [1]])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_fields_of_a_project_copy_are_checked_first(wire: Wire, method: str, payload: object) -> None:
    """API-023, API-151: also of a DELETE, which has a body here."""
    assert (await wire(method, "/experimental/project/global/copy", payload)).failure == INVALID


def hostile(repository: Path, marks: Path) -> None:
    """Filters and hooks that leave a mark when they run."""
    for way in ("clean", "smudge"):
        git(repository, "config", f"filter.x.{way}", f"touch {marks}; cat")
    git(repository, "config", "filter.x.required", "true")
    git(repository, "config", "core.fsmonitor", f"touch {marks}; false")
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = repository / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {marks}\n")
        hook.chmod(0o755)


async def test_a_copy_runs_neither_filters_nor_hooks(copies: Copies, repository: Path, tmp_path: Path) -> None:
    """TOL-392: files are as they were committed, with the line endings that the project asks for; a clean copy is
    recognised and removed without running anything either, also with a repository below that has filters."""
    (repository / ".gitattributes").write_text("*.bin filter=x\n*.bat text eol=crlf\n")
    (repository / "large.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    (repository / "run.bat").write_text("one\ntwo\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "two")
    marks = tmp_path / "marks"
    hostile(repository, marks)
    copy = Path((await copies.create(tmp_path / "copies", "x")).json["directory"])
    assert (copy / "large.bin").read_text().startswith("version https://git-lfs")
    assert (copy / "run.bat").read_bytes() == b"one\r\ntwo\r\n"
    assert not marks.exists()
    (copy / "hello.txt").write_text("hello world\n")  # touched, not changed
    assert (await copies.remove(copy)).status == 204
    copy = Path((await copies.create(tmp_path / "copies", "y")).json["directory"])
    (copy / "lib").mkdir()
    git(copy / "lib", "init", "--quiet")
    hostile(copy / "lib", marks)
    marks.unlink(missing_ok=True)
    assert refused(await copies.remove(copy))[1] is True
    assert (await copies.remove(copy, force=True)).status == 204
    assert not marks.exists()
    assert git(repository, "status", "--porcelain", "--untracked-files=no") == ""


@pytest.mark.parametrize("change", ["staged", "deleted", "new", "modified"])
async def test_a_copy_with_uncommitted_changes_needs_force(copies: Copies, tmp_path: Path, change: str) -> None:
    """API-151: each of the ways in which a file can differ."""
    copy = Path((await copies.create(tmp_path / "copies", "x")).json["directory"])
    if change == "new":
        (copy / "new.txt").write_text("x")
    elif change == "deleted":
        (copy / "hello.txt").unlink()
    else:
        (copy / "hello.txt").write_text("other\n")
    if change == "staged":
        git(copy, "add", ".")
    assert refused(await copies.remove(copy)) == (f"{copy} contains modified or untracked files", True)


async def test_a_copy_that_cannot_be_written_leaves_nothing(copies: Copies, repository: Path, tmp_path: Path) -> None:
    """API-151: neither the directory, nor its branch, nor an entry in the list."""
    blob = git(repository, "rev-parse", "HEAD:hello.txt").strip()
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert blob in refused(await copies.create(tmp_path / "copies", "x"))[0]
    assert not (tmp_path / "copies" / "x").exists()
    assert git(repository, "branch", "--list", "opencode/*") == ""
    assert git(repository, "worktree", "list").count("\n") == 1
