"""The one way to run git.

Invariants
- git is started by its absolute path. Neither it nor a program that it starts is looked up inside the worktree or in a
  relative entry of PATH.
- Every call names its git directory, so git never searches for a repository, and finds none by surprise.
- The environment is made from a list. Without `reach`, git sees no variable of its own from the host, no configuration
  of the user or the system, and no address can be reached, not even to fetch a missing object.
- No hook, file system monitor, pager, editor, credential helper or signing program runs, whatever a repository's own
  configuration says. Filters and drivers cannot be switched off one by one, so what reads or writes files of a worktree
  is given a git directory of ours (`git_directory.py`), which has none.
- A call is bounded in time and output, and everything it started has ended when it returns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.process.process import Capture, ProcessError, Processes
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

SECONDS = 60.0
MOST_BYTES = 256 * 1024 * 1024
SAID_BYTES = 16 * 1024
SHOWN_CHARACTERS = 500
NOT_FOUND = "git was not found in PATH (entries that are relative or inside the project are not used)"
SETTINGS = {
    "advice.addEmbeddedRepo": "false",
    "core.alternateRefsCommand": "false",
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.editor": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "gpg.program": "false",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    "sequence.editor": "false",
    "submodule.recurse": "false",
}
# Without the network nothing of this is asked for; should it be, the answer is no.
OFFLINE_SETTINGS = {
    "core.askPass": "false",
    "core.gitProxy": "false",
    "core.sshCommand": "false",
    "credential.helper": "",
}
VARIABLES = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_EDITOR": "false",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    # What git says is read here, so it speaks one language.
    "LC_ALL": "C",
}
# HOME as well: versions before 2.32 do not know the other two.
OFFLINE_VARIABLES = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": os.devnull,
}
PASSED = ("LOGNAME", "TEMP", "TMP", "TMPDIR", "TZ", "USER")
USER_CONFIGURATION = (
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM"),
    *("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
)
REACHING = (
    *("ALL_PROXY", "FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
    *("all_proxy", "ftp_proxy", "http_proxy", "https_proxy", "no_proxy"),
    *("CURL_CA_BUNDLE", "SSH_AUTH_SOCK", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
REACHING_PREFIXES = ("GIT_PROXY", "GIT_SSH", "GIT_SSL")


class GitFailed(HoldfastError):
    """What git said."""


class Git:
    def __init__(
        self, environment: Mapping[str, str], processes: Processes | None = None, *, seconds: float = SECONDS
    ) -> None:
        """`environment` is the runtime's own."""
        self._host = environment
        self._processes = processes or Processes(watched=False)
        self._seconds = seconds

    def program(self, work_tree: Path | None = None) -> str | None:
        """The absolute path of git, for work on these files."""
        candidates = (os.path.join(folder, "git") for folder in self._search_path(work_tree))
        return next((path for path in candidates if _is_program(path) and not _inside(path, work_tree)), None)

    async def run(
        self,
        *arguments: str,
        git_dir: Path,
        work_tree: Path | None = None,
        index: Path | None = None,
        settings: Mapping[str, str] | None = None,
        given: bytes = b"",
        reach: Sequence[str] = (),
        user_configuration: bool = False,
    ) -> bytes:
        """What it printed, all of it; raises GitFailed. `reach` names the protocols that may be used, with the
        user's own configuration of how to; `user_configuration` alone reads that configuration and reaches nothing."""
        output, said = Capture(MOST_BYTES), Capture(SAID_BYTES)
        if (program := self.program(work_tree)) is None:
            raise GitFailed(NOT_FOUND)
        directory = work_tree or git_dir
        environment = self._environment(work_tree, reach, user_configuration or bool(reach))
        environment |= {"GIT_DIR": str(git_dir), "GIT_CEILING_DIRECTORIES": str(directory.parent)}
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        fixed = SETTINGS if reach else {**SETTINGS, **OFFLINE_SETTINGS}
        options = [word for item in {**fixed, **(settings or {})}.items() for word in ("-c", "=".join(item))]
        try:
            ended = await self._processes.run(
                (program, *options, *arguments),
                cwd=directory,
                environment=environment,
                output=output,
                error=said,
                given=given,
                timeout=self._seconds,
            )
        except (ProcessError, OSError) as error:
            raise GitFailed(getattr(error, "cause", "") or str(error)) from error
        if ended.cause == "timeout":
            raise GitFailed(f"git took longer than {self._seconds:g} s")
        if ended.code != 0:
            raise GitFailed(said.text().strip()[:SHOWN_CHARACTERS] or f"git ended with {ended.code}")
        if output.truncated:
            raise GitFailed(f"git printed more than {MOST_BYTES} bytes")
        return output.bytes()

    async def user_setting(self, name: str, git_dir: Path) -> list[str]:
        """All paths under this name in the user's and the system's configuration; `git_dir` is a directory of ours."""
        ask = ("config", "-z", "--type=path", "--get-all", name)
        try:
            found = await self.run(*ask, git_dir=git_dir, user_configuration=True)
        except GitFailed:  # also the answer when there is none
            return []
        return [os.fsdecode(value) for value in found.split(b"\0")[:-1]]

    async def user_excludes(self, git_dir: Path) -> str:
        """The file with the user's own ignore patterns, which hold for every repository."""
        home = self._host.get("HOME", "")
        default = os.path.join(self._host.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "ignore")
        path = (await self.user_setting("core.excludesFile", git_dir) or [default])[-1]
        return path if os.path.isabs(path) else os.devnull

    def _environment(self, work_tree: Path | None, reach: Sequence[str], configured: bool) -> dict[str, str]:
        passed = (*PASSED, *(USER_CONFIGURATION if configured else ()), *(REACHING if reach else ()))
        prefixes = REACHING_PREFIXES if reach else ()
        found = {name: value for name, value in self._host.items() if name in passed or name.startswith(prefixes)}
        found |= VARIABLES if configured else {**VARIABLES, **OFFLINE_VARIABLES}
        found["GIT_ALLOW_PROTOCOL"] = ":".join(reach)
        found["PATH"] = os.pathsep.join(self._search_path(work_tree))
        return found

    def _search_path(self, work_tree: Path | None) -> Iterator[str]:
        for folder in self._host.get("PATH", os.defpath).split(os.pathsep):
            if os.path.isabs(folder) and not _inside(folder, work_tree):
                yield folder


def _inside(path: str, work_tree: Path | None) -> bool:
    """By the path as it is written and as it really is. Everything lies inside a worktree that is the whole system."""
    if work_tree is None:
        return False
    roots = {os.path.normpath(work_tree), os.path.realpath(work_tree)} - {"/"}
    return any(
        way == root or way.startswith(f"{root}/")
        for root in roots
        for way in (os.path.normpath(path), os.path.realpath(path))
    )


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def names(out: bytes) -> list[str]:
    """Of a list that is separated by zero bytes."""
    return [os.fsdecode(name) for name in out.split(b"\0") if name]


def literal(paths: Sequence[str]) -> list[str]:
    """As pathspecs that mean exactly these paths, from the top of the worktree."""
    return [f":(top,literal){path}" for path in paths]
