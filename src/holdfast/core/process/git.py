"""Running git: bounded in time and output, ended with everything it started, and untouched by hooks, by what the user
configured for their own work, or by another repository that this process was started in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.process.environment import child_environment
from holdfast.core.process.process import Capture, ProcessError, Processes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SECONDS = 60.0
MOST_BYTES = 256 * 1024 * 1024
SAID_BYTES = 16 * 1024
SHOWN_CHARACTERS = 500
SETTINGS = (
    ("core.autocrlf", "false"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.quotePath", "false"),
    ("gc.auto", "0"),
    ("protocol.ext.allow", "never"),
)
# How the user reaches hosts; any other variable of git's could point it at another repository.
REACHING = ("GIT_CONFIG", "GIT_PROXY", "GIT_SSH", "GIT_SSL")


class GitFailed(Exception):
    """What git said."""


class Git:
    def __init__(
        self, environment: Mapping[str, str], processes: Processes | None = None, *, seconds: float = SECONDS
    ) -> None:
        """`environment` is the runtime's own."""
        reaching = [name for name in environment if name.startswith(REACHING)]
        # What it says is read here, so it speaks one language.
        self._environment = {**child_environment(environment, passed=reaching), "LC_ALL": "C"}
        self._processes = processes or Processes(watched=False)
        self._seconds = seconds

    async def run(
        self, *arguments: str, directory: Path, variables: Mapping[str, str] | None = None, given: bytes = b""
    ) -> bytes:
        """What it printed, all of it; raises GitFailed. `variables` are git's own, for this call."""
        output, said = Capture(MOST_BYTES), Capture(SAID_BYTES)
        try:
            ended = await self._processes.run(
                ("git", *_OPTIONS, *arguments),
                cwd=directory,
                environment={**self._environment, **(variables or {})},
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


_OPTIONS = tuple(word for name, value in SETTINGS for word in ("-c", f"{name}={value}"))


def names(out: bytes) -> list[str]:
    """Of a list that is separated by zero bytes."""
    return [os.fsdecode(name) for name in out.split(b"\0") if name]


def literal(paths: Sequence[str]) -> list[str]:
    """As pathspecs that mean exactly these paths, from the top of the worktree."""
    return [f":(top,literal){path}" for path in paths]
