"""Which project a directory belongs to, in real repositories."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from holdfast.core.project.project import Project, find_project
from holdfast.core.runtime.runtime import Runtime
from holdfast.schema.location import Location

pytestmark = pytest.mark.anyio

IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")


async def git(folder: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    process = await asyncio.create_subprocess_exec(
        "git", *IDENTITY, *arguments, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().strip()


@pytest.fixture
async def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    await git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("a")
    await git(folder, "add", ".")
    await git(folder, "commit", "-q", "-m", "first")
    return folder


async def first_commit(repository: Path) -> str:
    return await git(repository, "rev-list", "--max-parents=0", "HEAD")


def of_remote(place: str) -> str:
    return hashlib.sha1(f"git-remote:{place}".encode()).hexdigest()


async def test_without_a_repository_the_root_is_the_location(tmp_path: Path) -> None:
    """CAT-002, CAT-170: id `global`, no version control, and nothing above the directory belongs to it."""
    found = await find_project(tmp_path)
    assert found == Project("global", tmp_path, None)
    assert found.listed_directory == Path("/")


async def test_a_repository_is_known_by_its_first_commit(repository: Path) -> None:
    """CAT-002, CAT-003: from any folder below, and whatever is committed later."""
    deep = repository / "a" / "b"
    deep.mkdir(parents=True)
    id = await first_commit(repository)
    assert await find_project(deep) == Project(id, repository, repository / ".git")
    await git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    assert (await find_project(repository)).id == id


async def test_of_two_roots_one_is_chosen(repository: Path) -> None:
    """CAT-003: a merged unrelated history adds a root; the id is still one commit."""
    await git(repository, "checkout", "-q", "--orphan", "other")
    await git(repository, "commit", "-q", "--allow-empty", "-m", "another root")
    await git(repository, "merge", "-q", "--allow-unrelated-histories", "-m", "merged", "main")
    roots = (await first_commit(repository)).split()
    assert len(roots) == 2
    assert (await find_project(repository)).id in roots


async def test_a_repository_without_commits_has_the_global_project_id(tmp_path: Path) -> None:
    """CAT-003: the last resort is `global`, in the repository's own directory."""
    await git(tmp_path, "init", "-q")
    assert await find_project(tmp_path) == Project("global", tmp_path, tmp_path / ".git")


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("https://GitHub.com/Owner/Name.git", "github.com/Owner/Name"),
        ("https://user:token@github.com/Owner/Name/", "github.com/Owner/Name"),
        ("git@github.com:Owner/Name.git", "github.com/Owner/Name"),
        ("github.com:Owner/Name", "github.com/Owner/Name"),
        ("ssh://git@github.com/Owner/Name.git", "github.com/Owner/Name"),
        ("ssh://git@github.com:2222/Owner/Name.git", "github.com/Owner/Name"),
        ("git://host/deep/er/path", "host/deep/er/path"),
        ("git@host:/absolute/path.git", "host/absolute/path"),
    ],
)
async def test_every_form_of_a_remote_names_the_same_place(repository: Path, address: str, place: str) -> None:
    """CAT-003: URL or scp form; the host in lower case, no slashes around, no `.git`, no credentials."""
    await git(repository, "remote", "add", "origin", address)
    assert (await find_project(repository)).id == of_remote(place)


@pytest.mark.parametrize(
    "address", ["file:///srv/name.git", "/srv/name.git", "../name", "https://", "https://[broken/x", "host:"]
)
async def test_an_address_without_a_place_is_not_used(repository: Path, address: str) -> None:
    """CAT-003: local ones and broken ones; then the first commit counts."""
    await git(repository, "remote", "add", "origin", address)
    assert (await find_project(repository)).id == await first_commit(repository)


async def test_only_the_origin_remote_identifies_a_project(repository: Path) -> None:
    """CAT-003."""
    await git(repository, "remote", "add", "upstream", "https://github.com/other/name")
    assert (await find_project(repository)).id == await first_commit(repository)
    await git(repository, "remote", "add", "origin", "https://github.com/mine/name")
    assert (await find_project(repository)).id == of_remote("github.com/mine/name")


@pytest.mark.parametrize(
    "config",
    [
        '[core]\n\tbare\n[remote "origin"]\n\turl = https://host/a\n',
        '[Remote "origin"] URL = "https://host/a" ; ours\n[branch "main"]\n\turl = https://host/b\n',
        '[remote "origin"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\turl=https://host/a # ours\n',
    ],
)
async def test_the_remote_is_found_however_it_is_written(repository: Path, config: str) -> None:
    """CAT-003: keys without a value, comments, quotes and case are git's own."""
    (repository / ".git" / "config").write_text(config)
    assert (await find_project(repository)).id == of_remote("host/a")


async def test_a_cached_id_comes_before_the_first_commit(repository: Path) -> None:
    """CAT-003: remote, cache, commit, in this order; an empty cache is none."""
    cache = repository / ".git" / "opencode"
    cache.write_text("\n")
    assert (await find_project(repository)).id == await first_commit(repository)
    cache.write_text("prj_cached\n")
    assert (await find_project(repository)).id == "prj_cached"
    await git(repository, "remote", "add", "origin", "https://host/a")
    assert (await find_project(repository)).id == of_remote("host/a")


async def test_a_worktree_is_the_same_project_in_another_place(repository: Path, tmp_path: Path) -> None:
    """CAT-002: its directory is its own root, its store the directory that all worktrees share."""
    tree = tmp_path / "tree"
    await git(repository, "worktree", "add", "-q", str(tree))
    (tree / "below").mkdir()
    (repository / ".git" / "opencode").write_text("prj_cached")
    assert await find_project(tree / "below") == Project("prj_cached", tree, repository / ".git")


async def test_a_submodule_is_a_project_of_its_own(repository: Path, tmp_path: Path) -> None:
    """CAT-002: `.git` is a file there, and the store lies inside the outer repository."""
    outer = tmp_path / "outer"
    outer.mkdir()
    await git(outer, "init", "-q")
    await git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "inner")
    found = await find_project(outer / "inner")
    assert found.directory == outer / "inner"
    assert found.store == outer / ".git" / "modules" / "inner"
    assert found.id == await first_commit(repository)


@pytest.mark.parametrize("marker", ["gitdir: /nowhere/at/all", "", "nonsense", "gitdir:"])
async def test_a_broken_marker_is_no_reason_to_fail(tmp_path: Path, marker: str) -> None:
    """CAT-003: whatever is in a `.git` file, there is an answer."""
    (tmp_path / ".git").write_text(marker)
    assert (await find_project(tmp_path)).id == "global"


@pytest.mark.parametrize(
    "config", ["[broken", "key outside = x", "\x00\xff", '[core]\n\tbare\n[remote "origin"]\n\turl']
)
async def test_a_broken_config_is_no_reason_to_fail(repository: Path, config: str) -> None:
    """CAT-003: it has no remote; git may then know nothing either."""
    (repository / ".git" / "config").write_text(config, encoding="latin-1")
    assert (await find_project(repository)).id


async def test_a_repository_named_by_the_environment_is_not_meant(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAT-003: inside a git hook GIT_DIR names another repository; the directory's own still counts."""
    other = tmp_path / "other"
    other.mkdir()
    await git(other, "init", "-q")
    await git(other, "commit", "-q", "--allow-empty", "-m", "of the other")
    expected = await first_commit(repository)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert (await find_project(repository)).id == expected


async def test_a_first_commit_is_noticed_by_a_runtime_that_knew_the_folder_before(
    runtime: Runtime, tmp_path: Path
) -> None:
    """CAT-003: `global` is only what a repository is called while it has nothing better."""
    folder = tmp_path / "young"
    folder.mkdir()
    await git(folder, "init", "-q")
    location = Location(directory=str(folder))
    before = await runtime.sessions.create(location=location, project=await runtime.project(location))
    assert before.project_id == "global"
    await git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    assert (await runtime.project(location)).id == await first_commit(folder)


async def test_the_id_of_a_known_worktree_is_remembered(runtime: Runtime, repository: Path) -> None:
    """CAT-003: asking again gives the same, with and without the row of the first Session."""
    location = Location(directory=str(repository))
    session = await runtime.sessions.create(location=location, project=await runtime.project(location))
    assert session.project_id == await first_commit(repository)
    assert (await runtime.project(Location(directory=str(repository)))).id == session.project_id
