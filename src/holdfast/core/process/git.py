"""Runs git. All git commands of the runtime go through this module.

Invariants
- git is started by its absolute path. Neither git nor a program it starts is looked up inside the worktree or in a
  relative entry of PATH.
- Every call names its git directory, so git never searches for a repository.
- The environment is an allow-list. Without `reach`, git gets no git variables of the host and no user or system
  configuration, and cannot use the network, not even to fetch a missing object.
- No hook, file system monitor, pager, editor, credential helper or signing program runs, whatever the repository's
  configuration says. Commands that change a repository of the user go through `run_in_repository`, since git 2.54 and
  later also run hooks that the configuration defines.
- Filters and drivers cannot be disabled individually, so commands that read or write worktree files use a git directory
  of our own (`git_directory.py`), which defines none.
- A call is bounded in time and output, and all its processes have ended when it returns."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from holdfast.core.filesystem.canonical import contains
from holdfast.core.process.process import Capture, ProcessError, Processes
from holdfast.core.process.which import is_program
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from holdfast.core.process.process import Sink

SECONDS = 60.0
MOST_BYTES = 256 * 1024 * 1024
STDERR_BYTES = 16 * 1024
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
# Not needed without network access; disabled in case git asks all the same.
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
    # Messages are parsed, so they must be in English.
    "LC_ALL": "C",
}
# HOME too: git before 2.32 ignores the other two.
OFFLINE_VARIABLES = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": os.devnull,
}
HOST_VARIABLES = ("LOGNAME", "TEMP", "TMP", "TMPDIR", "TZ", "USER")
USER_CONFIGURATION = (
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM"),
    *("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
)
NETWORK_VARIABLES = (
    *("ALL_PROXY", "FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
    *("all_proxy", "ftp_proxy", "http_proxy", "https_proxy", "no_proxy"),
    *("CURL_CA_BUNDLE", "SSH_AUTH_SOCK", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
NETWORK_PREFIXES = ("GIT_PROXY", "GIT_SSH", "GIT_SSL")
# The empty event removes the events that were set before.
NO_HOOK = (("event", ""), ("enabled", "false"))
_HOOK = pattern(r"hook\.(.+)\.[^.]+", re.DOTALL)


class GitFailed(HoldfastError):
    """git failed; the message is git's."""


class Git:
    def __init__(
        self, environment: Mapping[str, str], processes: Processes | None = None, *, seconds: float = SECONDS
    ) -> None:
        """`environment` is the runtime's own."""
        self._host = environment
        self._processes = processes or Processes(watched=False)
        self._seconds = seconds

    def program(self, work_tree: Path | None = None) -> str | None:
        """The absolute path of git; never a program inside the worktree."""
        candidates = (os.path.join(folder, "git") for folder in self._search_path(work_tree))
        return next((path for path in candidates if is_program(path) and not _inside(path, work_tree)), None)

    async def run(
        self,
        *arguments: str,
        git_dir: Path,
        work_tree: Path | None = None,
        index: Path | None = None,
        settings: Mapping[str, str] | None = None,
        overrides: Sequence[tuple[str, str]] = (),
        stdin: bytes = b"",
        reach: Sequence[str] = (),
        user_configuration: bool = False,
        output: Sink | None = None,
    ) -> bytes:
        """The complete output, or nothing if a sink gets it; raises GitFailed. `reach` names the network protocols that
        may be used, with the user's own git configuration; `user_configuration` alone reads that configuration without
        network access. `overrides` are settings with names that the repository chose."""
        captured, errors = Capture(MOST_BYTES), Capture(STDERR_BYTES)
        if (program := self.program(work_tree)) is None:
            raise GitFailed(NOT_FOUND)
        directory = work_tree or git_dir
        environment = self._environment(work_tree, reach, user_configuration or bool(reach))
        environment |= {"GIT_DIR": str(git_dir), "GIT_CEILING_DIRECTORIES": str(directory.parent)}
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        environment |= _as_variables(overrides)
        fixed = SETTINGS if reach else {**SETTINGS, **OFFLINE_SETTINGS}
        options = [word for item in {**fixed, **(settings or {})}.items() for word in ("-c", "=".join(item))]
        try:
            ended = await self._processes.run(
                (program, *options, *arguments),
                cwd=directory,
                environment=environment,
                output=output or captured,
                error=errors,
                stdin=stdin,
                timeout=self._seconds,
            )
        except (ProcessError, OSError) as error:
            raise GitFailed(getattr(error, "cause", "") or str(error)) from error
        if ended.cause == "timeout":
            raise GitFailed(f"git took longer than {self._seconds:g} s")
        if ended.code != 0:
            raise GitFailed(errors.text().strip()[:SHOWN_CHARACTERS] or f"git ended with {ended.code}")
        if captured.truncated:
            raise GitFailed(f"git printed more than {MOST_BYTES} bytes")
        return captured.bytes()

    async def run_in_repository(self, *arguments: str, git_dir: Path, work_tree: Path | None = None) -> bytes:
        """Run a command that changes a repository of the user, without the hooks that its configuration defines."""
        listed = await self.run("config", "-z", "--name-only", "--list", git_dir=git_dir, work_tree=work_tree)
        hooks = {found[1] for name in split_nul(listed) if (found := _HOOK.fullmatch(name))}
        overrides = [(f"hook.{hook}.{key}", value) for hook in sorted(hooks) for key, value in NO_HOOK]
        return await self.run(*arguments, git_dir=git_dir, work_tree=work_tree, overrides=overrides)

    async def user_setting(self, name: str, git_dir: Path) -> list[str]:
        """All paths under this name in the user's and system's configuration; `git_dir` must be our own."""
        ask = ("config", "-z", "--type=path", "--get-all", name)
        try:
            found = await self.run(*ask, git_dir=git_dir, user_configuration=True)
        except GitFailed:  # git also fails if the setting does not exist
            return []
        return [os.fsdecode(value) for value in found.split(b"\0")[:-1]]

    async def user_excludes(self, git_dir: Path) -> str:
        """The user's global ignore file."""
        home = self._host.get("HOME", "")
        default = os.path.join(self._host.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "ignore")
        path = (await self.user_setting("core.excludesFile", git_dir) or [default])[-1]
        return path if os.path.isabs(path) else os.devnull

    def _environment(self, work_tree: Path | None, reach: Sequence[str], configured: bool) -> dict[str, str]:
        passed = (*HOST_VARIABLES, *(USER_CONFIGURATION if configured else ()), *(NETWORK_VARIABLES if reach else ()))
        prefixes = NETWORK_PREFIXES if reach else ()
        found = {name: value for name, value in self._host.items() if name in passed or name.startswith(prefixes)}
        found |= VARIABLES if configured else {**VARIABLES, **OFFLINE_VARIABLES}
        found["GIT_ALLOW_PROTOCOL"] = ":".join(reach)
        found["PATH"] = os.pathsep.join(self._search_path(work_tree))
        return found

    def _search_path(self, work_tree: Path | None) -> Iterator[str]:
        for folder in self._host.get("PATH", os.defpath).split(os.pathsep):
            if os.path.isabs(folder) and not _inside(folder, work_tree):
                yield folder


def _as_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Settings as environment variables: on the command line a name cannot contain `=`."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))} if settings else {}
    for number, (name, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _inside(path: str, work_tree: Path | None) -> bool:
    """Checks both the given and the canonical path. A worktree at `/` contains nothing, as git could not be found."""
    if work_tree is None:
        return False
    roots = {os.path.normpath(work_tree), os.path.realpath(work_tree)} - {"/"}
    paths = (os.path.normpath(path), os.path.realpath(path))
    return any(contains(root, each) for root in roots for each in paths)


def split_nul(out: bytes) -> list[str]:
    """Split a NUL-separated list of paths."""
    return [os.fsdecode(name) for name in out.split(b"\0") if name]


def literal_pathspecs(paths: Sequence[str]) -> list[str]:
    """Pathspecs that match exactly these paths, relative to the top of the worktree."""
    return [f":(top,literal){path}" for path in paths]
