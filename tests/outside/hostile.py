"""Repositories that try to have commands executed: one way each, and how plain git would fall for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from tests.cli.conftest import Machine

Prepare = Callable[["Trap"], None]
HOOKS = (
    *("applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit"),
    *("post-index-change", "post-merge", "post-rewrite", "pre-applypatch", "pre-auto-gc", "pre-commit"),
    *("pre-merge-commit", "pre-push", "pre-rebase", "prepare-commit-msg", "reference-transaction", "update"),
)
MISSING = "1" * 40
ELSEWHERE = "https://example.invalid/honest.git"
"""A remote that is never reached; with it, the id is known without git."""
EDITING = (
    {"calls": [{"tool": "read", "input": {"path": "a.txt"}}]},
    {"calls": [{"tool": "edit", "input": {"path": "a.txt", "oldString": "changed", "newString": "edited"}}]},
    {"calls": [{"tool": "write", "input": {"path": "made.txt", "content": "made\n"}}]},
    {"text": "done"},
)
"""What the scripted model does in `work`."""


class Trap:
    """A repository on its way to be hostile. `command` leaves a mark when it is executed."""

    def __init__(self, root: Path, name: str, marks: Path) -> None:
        self.root = root
        self.git_directory = root / ".git"
        self.marks = marks
        self.command = str(marks.parent / "leave-mark")
        self.name = name
        if not Path(self.command).exists():
            program(Path(self.command), f'echo "$*" >> {marks}')

    @property
    def marked(self) -> str:
        return f"{self.command} {self.name}"

    def configure(self, *entries: str) -> None:
        with (self.git_directory / "config").open("a", encoding="utf-8") as file:
            file.write("".join(f"{entry}\n" for entry in entries))

    def attributes(self, text: str) -> None:
        (self.root / ".gitattributes").write_text(text, encoding="utf-8")

    def hooks(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for hook in HOOKS:
            program(folder / hook, f"{self.marked} {hook} < /dev/null")

    def missing_parent(self) -> None:
        """The commit that is checked out has a parent that only a promisor remote could deliver."""
        tree = git(self.root, "rev-parse", "HEAD^{tree}").strip()
        person = "a <a@b.invalid> 1700000000 +0000"
        commit = f"tree {tree}\nparent {MISSING}\nauthor {person}\ncommitter {person}\n\nx\n"
        id = git(self.root, "hash-object", "-t", "commit", "-w", "--stdin", given=commit).strip()
        (self.git_directory / "refs" / "heads" / "main").write_text(f"{id}\n", encoding="ascii")

    def promisor(self, *remote: str) -> None:
        self.missing_parent()
        self.configure(
            "[core]\n\trepositoryformatversion = 1",
            "[extensions]\n\tpartialClone = evil",
            '[remote "evil"]\n\tpromisor = true\n\tpartialclonefilter = blob:none',
            *(f"\t{line}" for line in remote),
        )


class Vector(NamedTuple):
    name: str
    prepare: Prepare
    fires: tuple[str, ...] | None
    """The command of plain git that executes it; None where that needs a terminal, a network or another version."""


def promised(*remote: str, **settings: str) -> Prepare:
    def prepare(trap: Trap) -> None:
        trap.promisor(*(line.format(command=trap.marked, url=f"file://{trap.root}") for line in remote))
        trap.configure(*(f"[core]\n\t{name} = {trap.command}" for name in settings))

    return prepare


def configured(*lines: str) -> Prepare:
    return lambda trap: trap.configure(*(line.format(command=trap.marked, root=trap.root) for line in lines))


def filtered(*lines: str) -> Prepare:
    def prepare(trap: Trap) -> None:
        trap.configure('[filter "x"]', *(f"\t{line.format(command=trap.marked)}" for line in lines))
        trap.attributes("* filter=x diff=x merge=x\n")

    return prepare


def driven(kind: str, lines: str) -> Prepare:
    """A driver for differences or merges."""

    def prepare(trap: Trap) -> None:
        trap.configure(f'[{kind} "x"]\n\t{lines.format(command=trap.marked)}')
        trap.attributes(f"* {kind}=x\n")

    return prepare


def _credentials(trap: Trap) -> None:
    trap.promisor("url = https://127.0.0.1:1/x")
    trap.configure(f"[credential]\n\thelper = !{trap.marked}", f"[core]\n\taskPass = {trap.command}")


def _hooks(trap: Trap) -> None:
    trap.hooks(trap.git_directory / "hooks")


def _hooks_elsewhere(trap: Trap) -> None:
    trap.hooks(trap.root / "tools")
    trap.configure(f"[core]\n\thooksPath = {trap.root / 'tools'}")


def _included(trap: Trap) -> None:
    lines = f'[core]\n\tfsmonitor = {trap.marked}\n[filter "x"]\n\tclean = {trap.marked}\n\tsmudge = {trap.marked}\n'
    (trap.root / "more.config").write_text(lines, encoding="utf-8")
    trap.configure(f"[include]\n\tpath = {trap.root / 'more.config'}")
    trap.attributes("* filter=x\n")


def _included_if(trap: Trap) -> None:
    _included(trap)
    text = (trap.git_directory / "config").read_text(encoding="utf-8")
    (trap.git_directory / "config").write_text(text.replace("[include]", '[includeIf "gitdir:/"]'), encoding="utf-8")


def _worktree_config(trap: Trap) -> None:
    trap.configure("[core]\n\trepositoryformatversion = 1", "[extensions]\n\tworktreeConfig = true")
    lines = f"[core]\n\tfsmonitor = {trap.marked}\n"
    (trap.git_directory / "config.worktree").write_text(lines, encoding="utf-8")


def _git_in_the_worktree(trap: Trap) -> None:
    for name in ("git", "ssh", "sh", "git-upload-pack", "git-remote-https", "node_modules/.bin/git"):
        (trap.root / name).parent.mkdir(parents=True, exist_ok=True)
        program(trap.root / name, f"{trap.marked} {name} < /dev/null")


def _bare_beside_a_broken_marker(trap: Trap) -> None:
    """A worktree that is a git directory itself, for a git that goes looking."""
    inner = trap.root / ".git"
    trap.configure(f"[core]\n\tfsmonitor = {trap.marked}\n\tworktree = .")
    for name in ("HEAD", "config", "objects", "refs"):
        os.rename(inner / name, trap.root / name)
    shutil.rmtree(inner)
    inner.mkdir()


def _marker_file(trap: Trap) -> None:
    """`.git` is a file that names a hostile git directory among the project's files."""
    trap.configure(f"[core]\n\tfsmonitor = {trap.marked}\n\tbare = false")
    os.rename(trap.git_directory, trap.root / "data")
    trap.git_directory.write_text("gitdir: data\n", encoding="utf-8")
    trap.git_directory = trap.root / "data"
    trap.hooks(trap.git_directory / "hooks")


def _attributes_file(trap: Trap) -> None:
    (trap.root / "attributes").write_text("* filter=x\n", encoding="utf-8")
    trap.configure(f"[core]\n\tattributesFile = {trap.root / 'attributes'}", f'[filter "x"]\n\tclean = {trap.marked}')


def _info_attributes(trap: Trap) -> None:
    (trap.git_directory / "info").mkdir(exist_ok=True)
    (trap.git_directory / "info" / "attributes").write_text("* filter=x\n", encoding="utf-8")
    trap.configure(f'[filter "x"]\n\tclean = {trap.marked}\n\tsmudge = {trap.marked}')


def _submodule(trap: Trap) -> None:
    """A submodule, recorded in the index, whose own git directory is hostile."""
    inner = trap.root / "module"
    shutil.copytree(trap.root, inner, ignore=shutil.ignore_patterns("module"))
    inside = Trap(inner, trap.name, trap.marks)
    filtered("clean = {command}", "smudge = {command}", "required = true")(inside)
    inside.configure(f"[core]\n\tfsmonitor = {trap.marked}")
    head = git(inner, "rev-parse", "HEAD").strip()
    git(trap.root, "update-index", "--add", "--cacheinfo", f"160000,{head},module")
    (trap.root / ".gitmodules").write_text(
        '[submodule "module"]\n\tpath = module\n\turl = ./module\n\tupdate = checkout\n', encoding="utf-8"
    )
    trap.configure(f'[submodule]\n\trecurse = true\n[submodule "module"]\n\tactive = true\n\tupdate = !{trap.marked}')
    os.utime(inner / "a.txt", (1, 1))


VECTORS = (
    Vector("uploadpack", promised("url = {url}", "uploadpack = {command}"), ("rev-list", "HEAD")),
    Vector("ext", promised("url = ext::{command}"), ("-c", "protocol.ext.allow=always", "rev-list", "HEAD")),
    Vector("helper", promised("url = file:///nowhere", "vcs = evil"), None),
    Vector("ssh", promised("url = ssh://127.0.0.1/x", sshCommand=""), ("rev-list", "HEAD")),
    Vector("proxy", promised("url = git://127.0.0.1/x", gitProxy=""), ("rev-list", "HEAD")),
    Vector(
        "credentials",
        _credentials,
        None,
    ),
    Vector("fsmonitor", configured("[core]\n\tfsmonitor = {command}"), ("status",)),
    Vector("hooks", _hooks, ("checkout", "-q", "-b", "other")),
    Vector("hooks elsewhere", _hooks_elsewhere, ("checkout", "-q", "-b", "other")),
    Vector(
        "configured hooks",
        configured(
            *(f'[hook "a=b.{name}"]\n\tevent = {name}\n\tcommand = {{command}}' for name in HOOKS),
        ),
        None,
    ),
    Vector("clean", filtered("clean = {command}", "required = true"), ("add", ".")),
    Vector(
        "smudge", filtered("smudge = {command}", "required = true"), ("checkout", "-q", "-f", "HEAD", "--", "a.txt")
    ),
    Vector("process", filtered("process = {command}", "required = true"), ("add", ".")),
    Vector("attributes file", _attributes_file, ("add", ".")),
    Vector("info attributes", _info_attributes, ("add", ".")),
    Vector("external diff", configured("[diff]\n\texternal = {command}"), ("diff", "HEAD")),
    Vector(
        "diff driver",
        driven("diff", "command = {command}\n\ttextconv = {command}"),
        ("diff", "HEAD"),
    ),
    Vector(
        "merge driver",
        driven("merge", "driver = {command}"),
        None,
    ),
    Vector("pager", configured("[core]\n\tpager = {command}", "[pager]\n\trev-list = {command}"), None),
    Vector("editor", configured("[core]\n\teditor = {command}", "[sequence]\n\teditor = {command}"), None),
    Vector("signature", configured("[gpg]\n\tprogram = {command}", "[log]\n\tshowSignature = true"), None),
    Vector("alternate refs", configured("[core]\n\talternateRefsCommand = {command}"), None),
    Vector("pack objects", configured("[uploadpack]\n\tpackObjectsHook = {command}"), None),
    Vector(
        "alias",
        configured(
            *(f"[alias]\n\t{name} = !{{command}}" for name in ("rev-list", "diff-files", "worktree", "hostile")),
        ),
        ("hostile",),
    ),
    Vector("include", _included, ("add", ".")),
    Vector("include if", _included_if, ("add", ".")),
    Vector("worktree config", _worktree_config, ("status",)),
    Vector("git in the worktree", _git_in_the_worktree, None),
    Vector("bare", _bare_beside_a_broken_marker, ("status",)),
    Vector("marker", _marker_file, ("status",)),
    Vector("other worktree", configured("[core]\n\tworktree = /\n\tfsmonitor = {command}"), ("status", "a.txt")),
    Vector("submodule", _submodule, ("status",)),
    Vector(
        "reftable",
        configured(
            "[core]\n\trepositoryformatversion = 1\n\tfsmonitor = {command}", "[extensions]\n\trefStorage = reftable"
        ),
        None,
    ),
)


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def git(folder: Path, *arguments: str, given: str | None = None, check: bool = True) -> str:
    """Plain git, as a person would run it."""
    named = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "init.defaultBranch=main")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run(
        ("git", *named, *arguments),
        cwd=folder,
        env=environment,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        check=check,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stdout


def honest(folder: Path) -> Path:
    """A repository with one commit of two files."""
    (folder / "sub").mkdir(parents=True)
    for name in ("a.txt", "sub/b.txt"):
        (folder / name).write_text(f"{name}\n", encoding="utf-8")
    git(folder, "init", "--quiet", "--template=")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


def spring(trap: Trap, vector: Vector) -> None:
    """Make the repository hostile, with a file that git finds changed."""
    vector.prepare(trap)
    (trap.root / "a.txt").write_text("changed\n", encoding="utf-8")
    os.utime(trap.root / "sub" / "b.txt", (1_600_000_000, 1_600_000_000))
    trap.marks.unlink(missing_ok=True)  # of preparing it with plain git


@contextmanager
def running(machine: Machine) -> Iterator[Api]:
    """A server without a password, for as long as it is needed."""
    process = machine.start("serve", "--port", "0", "--no-auth")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "listening on" in line
    api = Api(line.split()[-1])
    try:
        yield api
    finally:
        api.close()
        process.terminate()
        process.communicate(timeout=30)


class Api:
    """Requests to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx2.Client(base_url=url, timeout=30.0)

    def get(self, path: str, location: Path | str | None = None, **query: str) -> Any:
        if location is not None:
            query["location[directory]"] = str(location)
        return self._client.get(path, params=query)

    def post(self, path: str, payload: object = None, directory: Path | None = None) -> Any:
        query = {"location[directory]": str(directory)} if directory is not None else {}
        return self._client.post(path, json=payload, params=query)

    def delete(self, path: str, payload: object, directory: Path) -> Any:
        return self._client.request("DELETE", path, json=payload, params={"location[directory]": str(directory)})

    def session(self, directory: Path | str, *, model: str = "scripted", **fields: Any) -> Any:
        location = {"directory": str(directory)}
        model_ref = {"id": model, "providerID": "demo"}
        answer = self.post("/api/session", {"location": location, "model": model_ref, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def prompt(self, session_id: str, text: str) -> None:
        answer = self.post(f"/api/session/{session_id}/prompt", {"prompt": {"text": text}})
        assert answer.status_code == 200, answer.text
        assert self.post(f"/api/session/{session_id}/wait").status_code == 204

    def close(self) -> None:
        self._client.close()


def work(api: Api, project: Path, copies: Path) -> bool:
    """Everything that Holdfast does with git in a repository: steps with snapshots, a revert, a copy, a move with
    changes. Whether the changes could be carried."""
    session = api.session(project)
    for text in ("first", "second"):
        api.prompt(session["id"], text)
    assert (project / "made.txt").read_text() == "made\n"
    assert (project / "a.txt").read_text() == "edited\n"
    messages = api.get(f"/api/session/{session['id']}/message", order="asc").json()["data"]
    prompted = next(message for message in messages if message["type"] == "user")
    staged = api.post(f"/api/session/{session['id']}/revert/stage", {"messageID": prompted["id"]})
    assert staged.status_code == 200, staged.text
    assert sorted(file["path"] for file in staged.json()["data"]["files"]) == ["a.txt", "made.txt"]
    assert (project / "a.txt").read_text() == "changed\n"
    assert not (project / "made.txt").exists()
    assert api.post(f"/api/session/{session['id']}/revert/clear").status_code == 204
    assert (project / "a.txt").read_text() == "edited\n"

    copy = f"/experimental/project/{session['projectID']}/copy"
    made = api.post(copy, {"strategy": "git_worktree", "directory": str(copies), "name": "one"}, project)
    assert made.status_code == 200, made.text
    target = Path(made.json()["directory"])
    assert (target / "a.txt").read_text() == "a.txt\n"
    moved = api.post(f"/api/session/{session['id']}/move", {"directory": str(target), "moveChanges": True})
    carried = bool(moved.status_code == 204)
    assert ((target / "a.txt").read_text() == "edited\n") == carried, moved.text
    if carried:
        assert (project / "a.txt").read_text() == "a.txt\n"
        removed = api.delete(copy, {"directory": str(target), "force": False}, project)
        assert removed.json()["data"]["forceRequired"] is True
    removed = api.delete(copy, {"directory": str(target), "force": True}, project)
    assert removed.status_code == 204, removed.text
    assert not target.exists()
    assert api.post(f"{copy}/refresh", directory=project).status_code == 204
    return carried


def attempt(api: Api, project: Path, copies: Path) -> None:
    """The same requests in a repository that may be too broken for them: none may be a defect of the server."""
    session = api.session(project)
    answers = [api.get("/api/agent", project), api.get("/api/agent", project / "sub")]
    for text in ("first", "second"):
        api.prompt(session["id"], text)
    messages = api.get(f"/api/session/{session['id']}/message", order="asc").json()["data"]
    prompted = next(message for message in messages if message["type"] == "user")
    copy = f"/experimental/project/{session['projectID']}/copy"
    target = copies / "one"
    answers += [
        api.post(f"/api/session/{session['id']}/revert/stage", {"messageID": prompted["id"]}),
        api.post(f"/api/session/{session['id']}/revert/clear"),
        api.post(copy, {"strategy": "git_worktree", "directory": str(copies), "name": "one"}, project),
        api.post(f"/api/session/{session['id']}/move", {"directory": str(target), "moveChanges": True}),
        api.delete(copy, {"directory": str(target), "force": False}, project),
        api.delete(copy, {"directory": str(target), "force": True}, project),
        api.post(f"{copy}/refresh", directory=project),
    ]
    assert {answer.status_code for answer in answers} <= {200, 204, 400, 409, 500}
    assert [answer.text for answer in answers if answer.status_code == 500 and "/revert/" not in answer.url.path] == []
