"""What a confined command leaves behind: nothing that it plants runs when its user works outside the sandbox later."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cli.conftest import Machine
from tests.outside.test_sandbox import BACKENDS, WITH_MOUNTS, reasons, run, use

__all__ = ["reasons", "use"]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the back ends tested here are Linux's")

PROGRAM = "src/program"
"""Writes a file where a confined command cannot write."""
USER = "[user]\n\tname = t\n\temail = t@example.org\n"


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Not in /tmp, which every sandbox hides. A repository around the project keeps git and snapshots away from the one
    around the virtual environment."""
    home = Path(tempfile.mkdtemp(prefix="sandbox-test-", dir=sys.prefix)).resolve()
    if home.is_relative_to("/tmp"):
        home.rmdir()
        pytest.skip("the virtual environment is in /tmp, which every sandbox hides")
    subprocess.run(("git", "init", "-q", home), check=True)
    (home / ".git" / "info" / "exclude").write_text("*\n", encoding="utf-8")
    (home / ".gitconfig").write_text(USER, encoding="utf-8")
    machine = Machine(home)
    (machine.project / "src").mkdir()
    program = machine.project / PROGRAM
    program.write_text(f"#!/bin/sh\necho ran > '{home}/escaped'\n", encoding="utf-8")
    program.chmod(0o755)
    yield machine
    machine.clean_up()
    shutil.rmtree(home)


def git(machine: Machine, folder: str, *arguments: str, check: bool = True) -> str:
    """As the user, outside every sandbox."""
    home = str(machine.home)
    environment = {
        "HOME": home,
        "PATH": os.environ["PATH"],
        "GIT_CEILING_DIRECTORIES": home,  # never the repository around the virtual environment
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    ran = subprocess.run(
        ("git", "-c", "protocol.file.allow=always", *arguments),
        cwd=machine.project / folder,
        env=environment,
        capture_output=True,
        text=True,
        check=check,
        timeout=20,
    )
    return ran.stdout


def commit(machine: Machine, folder: str = ".") -> None:
    git(machine, folder, "init", "-q")
    git(machine, folder, "add", "-A")
    git(machine, folder, "commit", "-q", "--allow-empty", "-m", "first")


class Plant(NamedTuple):
    before: Callable[[Machine], None]
    """The project as the user made it."""
    commands: tuple[str, ...]
    """What the model runs, confined, one after the other."""
    after: tuple[tuple[str, ...], ...]
    """The user's commands of git: a folder and arguments."""


def top(machine: Machine) -> None:
    commit(machine)


def nothing(machine: Machine) -> None:
    pass


def submodule(machine: Machine) -> None:
    commit(machine)
    upstream = machine.home / "upstream"
    upstream.mkdir()
    commit(machine, str(upstream))
    git(machine, ".", "submodule", "add", "-q", str(upstream), "src/sub")
    git(machine, ".", "commit", "-q", "-m", "submodule")


def included(machine: Machine) -> None:
    commit(machine)
    shared = machine.project / "src" / "gitconfig-shared"
    shared.write_text("[alias]\n\tst = status\n", encoding="utf-8")
    git(machine, ".", "config", "include.path", "../src/gitconfig-shared")


def included_later(machine: Machine) -> None:
    commit(machine)
    git(machine, ".", "config", "include.path", "../src/not-there-yet")


def user_hooks(machine: Machine) -> None:
    (machine.home / ".gitconfig").write_text(f"{USER}[core]\n\thooksPath = .githooks\n", encoding="utf-8")
    (machine.project / ".githooks").mkdir()
    (machine.project / ".githooks" / "README").write_text("hooks\n", encoding="utf-8")
    commit(machine)


def user_hooks_later(machine: Machine) -> None:
    (machine.home / ".gitconfig").write_text(f"{USER}[core]\n\thooksPath = src/hooks\n", encoding="utf-8")
    commit(machine)


def linked_hook(machine: Machine) -> None:
    commit(machine)
    script = machine.project / "src" / "check.sh"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    script.chmod(0o755)
    (machine.project / ".git" / "hooks" / "pre-commit").symlink_to("../../src/check.sh")


def nested(machine: Machine) -> None:
    commit(machine)
    (machine.project / "src" / "nested").mkdir()
    commit(machine, "src/nested")


SETTING = f'"[core]\\n\\tfsmonitor = $PWD/{PROGRAM}\\n"'
IDENTITY = "git -c user.name=t -c user.email=t@example.org"
STATUS = ((".", "status"), (".", "diff"), (".", "add", "-A"), (".", "commit", "-q", "-m", "next"))
INSIDE = (("src/nested", "status"), ("src/nested", "commit", "-q", "--allow-empty", "-m", "x"))
NEW = f"git init -q src/sub && {IDENTITY} -C src/sub commit -q --allow-empty -m x"

PLANTS = {
    "a new repository in the index": Plant(
        top, (f"{NEW}; git add src/sub; printf {SETTING} >> src/sub/.git/config",), STATUS
    ),
    "a new repository in the index, by a later command": Plant(
        top, (f"{NEW}; git add src/sub", f"printf {SETTING} >> src/sub/.git/config"), STATUS
    ),
    "the pointer of a submodule": Plant(
        submodule,
        (
            f"cp -r .git/modules/src/sub src/evil; printf {SETTING} >> src/evil/config; "
            "git config -f src/evil/config core.worktree ../sub; echo 'gitdir: ../evil' > src/sub/.git",
        ),
        STATUS,
    ),
    "the configuration that a pointer leads to": Plant(
        submodule, (f"printf {SETTING} >> .git/modules/src/sub/config",), STATUS
    ),
    "an included file": Plant(included, (f"printf {SETTING} >> src/gitconfig-shared",), STATUS),
    "an included file that did not exist": Plant(included_later, (f"printf {SETTING} >> src/not-there-yet",), STATUS),
    "hooks that the user's configuration names": Plant(
        user_hooks, (f"cp {PROGRAM} .githooks/pre-commit",), ((".", "commit", "-q", "--allow-empty", "-m", "x"),)
    ),
    "hooks that the user's configuration names, later": Plant(
        user_hooks_later,
        (f"mkdir src/hooks; cp {PROGRAM} src/hooks/pre-commit",),
        ((".", "commit", "-q", "--allow-empty", "-m", "x"),),
    ),
    "hooks of a new repository that the user's configuration names": Plant(
        user_hooks_later,
        (f"{NEW}; mkdir -p src/sub/src/hooks; cp {PROGRAM} src/sub/src/hooks/pre-commit",),
        (("src/sub", "commit", "-q", "--allow-empty", "-m", "x"),),
    ),
    "the target of a linked hook": Plant(
        linked_hook, (f"cp {PROGRAM} src/check.sh",), ((".", "commit", "-q", "--allow-empty", "-m", "x"),)
    ),
    "the configuration of a nested repository": Plant(nested, (f"printf {SETTING} >> src/nested/.git/config",), INSIDE),
    "a hook of a nested repository": Plant(nested, (f"cp {PROGRAM} src/nested/.git/hooks/pre-commit",), INSIDE),
    "a nested repository that was moved": Plant(
        nested,
        (
            "cp -r src/nested src/other; mv src/nested src/gone; mv src/other src/nested; "
            f"printf {SETTING} >> src/nested/.git/config",
        ),
        INSIDE,
    ),
    "a new repository": Plant(
        top, (f"mkdir -p src/nested; git init -q src/nested; printf {SETTING} >> src/nested/.git/config",), INSIDE
    ),
    "a new repository whose directory is a link": Plant(
        top,
        (
            f"mkdir -p src/nested; git init -q src/real; printf {SETTING} >> src/real/.git/config; "
            "ln -s ../real/.git src/nested/.git",
        ),
        INSIDE,
    ),
    "a new repository whose settings include others": Plant(
        top,
        (
            f"mkdir -p src/nested; git init -q src/nested; printf {SETTING} > src/shared; "
            "git -C src/nested config include.path ../../shared",
        ),
        INSIDE,
    ),
    "a directory that git takes for a repository": Plant(
        top,
        (
            "mkdir -p src/nested; git init -q --bare src/nested; git config -f src/nested/config core.bare false; "
            f"git config -f src/nested/config core.worktree ..; printf {SETTING} >> src/nested/config",
        ),
        INSIDE,
    ),
    "a repository where there was none": Plant(nothing, (f"git init -q; printf {SETTING} >> .git/config",), STATUS),
    "below a directory that cannot be listed": Plant(
        top, (f"{NEW}; git add src/sub; printf {SETTING} >> src/sub/.git/config; chmod 100 src",), STATUS
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PLANTS)
def test_git_runs_nothing_that_a_confined_command_planted(
    machine: Machine, use: Callable[[str], None], backend: str, name: str
) -> None:
    """TOL-550, TOL-551, TOL-552: neither at the top nor in nested repositories, submodules and included files."""
    use(backend)
    plant = PLANTS[name]
    plant.before(machine)
    said = run(machine, *plant.commands, sandbox="workspace")
    for folder, *arguments in plant.after:
        if (machine.project / folder).is_dir():
            git(machine, folder, *arguments, check=False)
    assert not (machine.home / "escaped").exists(), said


@pytest.mark.parametrize("backend", WITH_MOUNTS)
def test_repositories_that_run_nothing_of_the_command_stay_as_they_are(
    machine: Machine, use: Callable[[str], None], backend: str
) -> None:
    """TOL-551: clones, commits in nested repositories and submodules' worktrees work; hooks of the user stay."""
    use(backend)
    nested(machine)
    hook = machine.project / "src" / "nested" / ".git" / "hooks" / "post-commit"
    hook.write_text("#!/bin/sh\necho ran >> ../../hooked\n", encoding="utf-8")
    hook.chmod(0o755)
    git(machine, "src/nested", "config", "alias.st", "status")
    first, second = run(
        machine,
        f"set -e; cd src/nested; echo x > new; git add new; {IDENTITY} commit -qm two; cd ..; "
        f"git clone -q nested copy; cd copy; echo y > new; {IDENTITY} commit -qam three",
        "git -C src/copy log --oneline; git -C src/copy remote add other https://example.org/x.git",
        sandbox="workspace",
    )
    assert "Command exited with code 0." in first, first
    assert "Disabled" not in first + second
    assert "three" in second
    assert git(machine, "src/nested", "log", "--format=%s").split() == ["two", "first"]
    assert hook.exists()
    assert not list(machine.project.rglob("*.disabled-*"))


def test_what_was_disabled_is_said_and_can_be_undone(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-552: the model reads which repository, which settings and the new name."""
    use("namespaces")
    top(machine)
    (said,) = run(machine, f"{NEW}; git -C src/sub config core.hooksPath ../..", sandbox="workspace")
    head = next((machine.project / "src" / "sub" / ".git").glob("HEAD.disabled-*"))
    path = machine.project / "src" / "sub" / ".git"
    assert (
        f"Disabled, because git would run programs that this command chose (core.hookspath): {path} is now {head}."
        in said
    )
    head.rename(path / "HEAD")
    (after,) = run(machine, "git -C src/sub log --oneline", sandbox="workspace")
    assert "Disabled" not in after


@pytest.mark.parametrize("backend", BACKENDS)
def test_start_up_files_of_a_home_directory_cannot_be_made(
    machine: Machine, use: Callable[[str], None], backend: str
) -> None:
    """TOL-554: in a project that is the home directory; those that exist stay as they are."""
    use(backend)
    home = machine.project
    for name in (".config/git", ".local"):
        (home / name).mkdir(parents=True)
    (home / ".profile").write_text("untouched\n", encoding="utf-8")
    machine.environment["HOME"] = str(home)
    names = (
        *(".bashrc", ".bash_profile", ".profile", ".zshenv", ".xprofile", ".pam_environment", ".gitconfig"),
        *(
            ".ssh/authorized_keys",
            ".config/autostart/x.desktop",
            ".config/systemd/user/x.service",
            ".config/git/config",
        ),
        *(".config/environment.d/x.conf", ".local/bin/ls", ".local/share/applications/x.desktop", ".vim/vimrc"),
        *(".npmrc", ".cargo/config.toml", ".kube/config", ".docker/config.json", ".gnupg/gpg-agent.conf"),
    )
    line = "; ".join(f"mkdir -p $HOME/{Path(name).parent}; echo planted >> $HOME/{name}" for name in names)
    (said,) = run(machine, f"{line}; echo fine > $HOME/src/new", sandbox="workspace")
    assert (home / "src" / "new").read_text() == "fine\n", said
    planted = {name for name in names if (home / name).exists() and "planted" in (home / name).read_text()}
    assert not planted, said
    assert (home / ".profile").read_text() == "untouched\n"
    assert not [path for path in (".ssh", ".config/autostart", ".local/bin", ".vim") if (home / path).exists()]


def test_secrets_below_moved_directories_are_hidden(machine: Machine, use: Callable[[str], None]) -> None:
    """TOL-553: as XDG_CONFIG_HOME and XDG_DATA_HOME move them."""
    use("namespaces")
    moved = {"XDG_CONFIG_HOME": "moved-config", "XDG_DATA_HOME": "moved-data"}
    machine.environment |= {name: str(machine.home / folder) for name, folder in moved.items()}
    secret = ("moved-config/gh/hosts.yml", "moved-data/keyrings/login", ".config/rclone/rclone.conf", ".s3cfg")
    for name in secret:
        (machine.home / name).parent.mkdir(parents=True, exist_ok=True)
        (machine.home / name).write_text("canary\n", encoding="utf-8")
    (said,) = run(machine, "; ".join(f"cat {machine.home}/{name}" for name in secret), sandbox="workspace")
    assert "canary" not in said
