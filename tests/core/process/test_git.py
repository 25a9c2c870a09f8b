"""Running git: what reaches it, what it may cost, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from tests.core.process.conftest import alive, gone
from tests.outside.hostile import VECTORS, Trap, Vector, honest, spring

from holdfast.core.process import git as module
from holdfast.core.process.git import VARIABLES, Git, GitFailed
from holdfast.core.process.git_directory import create_git_directory, scratch_git_directory

pytestmark = pytest.mark.anyio

VARIABLES_OF_GIT = {name: value for name, value in VARIABLES.items() if name.startswith("GIT_")}


def fake(tmp_path: Path, script: str) -> dict[str, str]:
    """An environment in which git is this script, outside the folder."""
    program = tmp_path.with_name(f"{tmp_path.name}-bin") / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


SECRETS = {
    "OPENAI_API_KEY": "canary",
    "LD_LIBRARY_PATH": "canary",
    "GIT_DIR": "/canary",
    "GIT_INDEX_FILE": "/canary",
    "GIT_EXTERNAL_DIFF": "canary",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "canary",
    "GIT_CONFIG_PARAMETERS": "'core.fsmonitor=canary'",
    "GIT_EXEC_PATH": "/canary",
    "GIT_TRACE": "/canary",
    "SSH_ASKPASS": "canary",
}
HOW_TO_REACH = {"GIT_SSH": "ssh -v", "HTTPS_PROXY": "http://proxy", "SSH_AUTH_SOCK": "/agent", "HOME": "/home/me"}


async def test_git_gets_no_secret_and_no_variable_that_redirects_it(tmp_path: Path) -> None:
    """TOL-222, TOL-319, TOL-390: neither secrets, nor what would point it at another repository or program; the
    caller's own, and input."""
    git = Git({**fake(tmp_path, "env; cat"), **SECRETS, **HOW_TO_REACH})
    printed = await git.run("x", git_dir=tmp_path / "g", work_tree=tmp_path, stdin=b"input " * 100_000)
    lines = printed.decode().splitlines()
    assert "canary" not in printed.decode()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    assert {name: found[name] for name in found if name.startswith("GIT_") or name == "HOME"} == {
        **VARIABLES_OF_GIT,
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_CEILING_DIRECTORIES": str(tmp_path.parent),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_DIR": str(tmp_path / "g"),
        "GIT_WORK_TREE": str(tmp_path),
        "HOME": "/dev/null",
    }
    assert not {*HOW_TO_REACH} & {*found} - {"HOME"}
    assert lines[-1] == "input " * 100_000


async def test_reaching_a_host_is_the_callers_choice(tmp_path: Path) -> None:
    """TOL-391: then, and only then, how the user reaches hosts counts, and only the named protocols may be used."""
    git = Git({**fake(tmp_path, "env"), **SECRETS, **HOW_TO_REACH})
    printed = (await git.run("x", git_dir=tmp_path, reach=("https", "ssh"))).decode()
    found = dict(line.split("=", 1) for line in printed.splitlines())
    assert "canary" not in printed
    assert {name: found.get(name) for name in HOW_TO_REACH} == HOW_TO_REACH
    assert found["GIT_ALLOW_PROTOCOL"] == "https:ssh"
    assert "GIT_CONFIG_GLOBAL" not in found


@pytest.mark.parametrize("entry", ["", ".", "bin", "{project}/bin", "{project}", "{project}/../project/bin", "{link}"])
async def test_git_is_never_found_in_the_project(tmp_path: Path, entry: str) -> None:
    """TOL-390: neither through a relative entry of PATH, nor one that lies or leads inside the worktree; and no program
    that git starts is looked up there."""
    project = tmp_path / "project"
    for folder in (project, project / "bin"):
        folder.mkdir()
        (folder / "git").write_text("#!/bin/sh\ntouch canary\n", encoding="utf-8")
        (folder / "git").chmod(0o755)
    (tmp_path / "link").symlink_to(project / "bin")
    (tmp_path / "farm").mkdir()
    (tmp_path / "farm" / "git").symlink_to(project / "git")
    places = entry.format(project=project, link=tmp_path / "link")
    git = Git({"PATH": f"{places}:{tmp_path / 'farm'}:/usr/bin:/bin"})
    assert git.program(project) == "/usr/bin/git"
    printed = await git.run("-c", "alias.x=!echo $PATH", "x", git_dir=project, work_tree=project)
    assert printed.decode().strip().endswith(f":{tmp_path / 'farm'}:/usr/bin:/bin")
    assert str(project) not in printed.decode()
    assert not list(tmp_path.rglob("canary"))
    with pytest.raises(GitFailed, match="not found in PATH"):
        await Git({"PATH": places}).run(git_dir=project, work_tree=project)


async def test_a_worktree_that_is_the_whole_system_has_git(tmp_path: Path) -> None:
    """TOL-390: everything lies inside it."""
    assert Git({"PATH": "/usr/bin"}).program(Path("/")) == "/usr/bin/git"


async def test_the_error_of_git_is_its_bounded_stderr(tmp_path: Path) -> None:
    """TOL-221: bounded, and apart from what it printed."""
    with pytest.raises(GitFailed, match=r"^fatal: x{10}") as failed:
        await Git(fake(tmp_path, "echo out; printf 'fatal: %01000d' 0 | tr 0 x >&2; exit 128")).run(git_dir=tmp_path)
    assert len(str(failed.value)) == module.SHOWN_CHARACTERS
    with pytest.raises(GitFailed, match="not found"):
        await Git({"PATH": str(tmp_path / "empty")}).run(git_dir=tmp_path)


async def test_output_of_git_above_the_limit_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-221: half of a list would be believed."""
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    git = Git(fake(tmp_path, 'while [ $# -gt 1 ]; do shift; done; head -c "$1" /dev/zero'))
    assert len(await git.run("1000", git_dir=tmp_path)) == 1000
    with pytest.raises(GitFailed, match="more than 1000 bytes"):
        await git.run("1001", git_dir=tmp_path)


async def test_git_is_killed_at_its_deadline(tmp_path: Path) -> None:
    """TOL-342: and what it started cannot hold the call either."""
    environment = fake(tmp_path, "shift $(($# - 1)); sleep 1000 & echo $! > child; $1")
    with pytest.raises(GitFailed, match=r"longer than 0\.5 s"):
        await Git(environment, seconds=0.5).run("wait", git_dir=tmp_path)
    async with asyncio.timeout(60):
        assert await Git(environment).run("true", git_dir=tmp_path) == b""
    assert await gone(int((tmp_path / "child").read_text(encoding="utf-8")))


async def test_a_cancelled_call_leaves_nothing(tmp_path: Path) -> None:
    """TOL-218: git and its helpers, before the cancellation goes on."""
    os.mkfifo(tmp_path / "told")
    environment = fake(tmp_path, "sleep 1000 & setsid sleep 1000 & echo $$ $! > told; wait")
    running = asyncio.create_task(Git(environment).run(git_dir=tmp_path))
    found = (await asyncio.to_thread((tmp_path / "told").read_text, encoding="utf-8")).split()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(found) == 2
    assert not any(alive(int(pid)) for pid in found)


async def test_the_users_own_ignore_file_is_found(tmp_path: Path) -> None:
    """TOL-390: where git would look for it, and nowhere in a project when there is no home."""
    with scratch_git_directory() as folder:
        home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
        assert await Git(home).user_excludes(folder) == str(tmp_path / ".config/git/ignore")
        assert await Git({**home, "XDG_CONFIG_HOME": "/x"}).user_excludes(folder) == "/x/git/ignore"
        (tmp_path / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n", encoding="utf-8")
        assert await Git(home).user_excludes(folder) == str(tmp_path / "mine")
        (tmp_path / ".gitconfig").write_text("[core]\n\texcludesFile = relative\n", encoding="utf-8")
        assert await Git(home).user_excludes(folder) == os.devnull
        assert await Git({"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}).user_excludes(folder) == os.devnull


@pytest.mark.parametrize(
    "name", ["plain", "two words", 'quo"ted', "back\\slash", "col:on", "caf\u00e9", "new\nline", "#x"]
)
async def test_objects_of_another_repository_are_found_whatever_its_name(tmp_path: Path, name: str) -> None:
    """TOL-390: a scratch git directory reads them and writes beside them."""
    store, environment = tmp_path / name, {"PATH": os.environ["PATH"]}
    create_git_directory(store)
    git = Git(environment)
    blob = (await git.run("hash-object", "-w", "--stdin", git_dir=store, stdin=b"content")).decode().strip()
    with scratch_git_directory(store / "objects") as folder:
        assert await git.run("cat-file", "blob", blob, git_dir=folder) == b"content"
        await git.run("hash-object", "-w", "--stdin", git_dir=folder, stdin=b"other")
    assert len([path for path in (store / "objects").rglob("*") if path.is_file()]) == 1
    assert not folder.exists()


async def test_hooks_that_the_configuration_defines_are_disabled_by_their_names(tmp_path: Path) -> None:
    """TOL-493: this git reports which settings another one, that runs such hooks, would find."""
    real = shutil.which("git")
    root = honest(tmp_path / "original")
    git = Git(
        fake(tmp_path, f'case "$*" in *show*) exec {real} config -z --get-regexp "^hook";; esac; exec {real} "$@"')
    )
    names = ("plain", "a=b", "dotted.name", "new\\nline")
    for name in names:
        Trap(root, "x", tmp_path / "marks").configure(f'[hook "{name}"]\n\tevent = post-checkout\n\tcommand = x')
    found = await git.run_in_repository("show", git_dir=root / ".git", work_tree=root)
    settings = dict(entry.partition("\n")[::2] for entry in found.decode().split("\0"))
    assert [settings.get(f"hook.{name.replace(chr(92), '')}.enabled") for name in names] == ["false"] * len(names)
    assert [settings.get(f"hook.{name.replace(chr(92), '')}.event") for name in names] == [""] * len(names)


IN_THE_REPOSITORY = (
    ("rev-list", "--max-parents=0", "HEAD"),
    ("rev-parse", "--verify", "--quiet", "HEAD"),
    ("branch", "--list"),
    ("worktree", "list", "--porcelain"),
    ("worktree", "add", "--quiet", "--no-checkout", "-b", "new", "{root}-copy", "HEAD"),
    ("worktree", "remove", "--force", "{root}-copy"),
    ("worktree", "prune"),
    ("branch", "-D", "new"),
)


async def test_the_commands_that_run_in_a_repository_execute_nothing_of_it(tmp_path: Path) -> None:
    """TOL-390: with its configuration in force."""
    await nothing_runs(tmp_path, VECTORS, IN_THE_REPOSITORY)


async def test_nothing_is_fetched_by_a_git_that_cannot_switch_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-390: since no protocol is allowed, also where git is too old to know that variable."""
    monkeypatch.setitem(module.VARIABLES, "GIT_NO_LAZY_FETCH", "0")
    promisors = [vector for vector in VECTORS if vector.name in ("uploadpack", "ext", "helper", "ssh", "proxy")]
    await nothing_runs(tmp_path, promisors, IN_THE_REPOSITORY[:1])


async def nothing_runs(tmp_path: Path, vectors: Sequence[Vector], commands: Sequence[Sequence[str]]) -> None:
    original, marks = honest(tmp_path / "original"), tmp_path / "marks"
    git = Git({"PATH": f".:{os.environ['PATH']}"})
    for vector in vectors:
        root = shutil.copytree(original, tmp_path / vector.name)
        spring(Trap(root, vector.name, marks), vector)
        for command in commands:
            with suppress(GitFailed):
                words = (word.format(root=root) for word in command)
                await git.run_in_repository(*words, git_dir=root / ".git", work_tree=root)
            assert not marks.exists(), (vector.name, command)
