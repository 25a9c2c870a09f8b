"""Running git on somebody's files without touching their index, their hooks or their configuration."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COMMAND_SECONDS = 60.0
# What the user configured for their own work must not change what we store or apply.
SETTINGS = (
    ("core.autocrlf", "false"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.quotePath", "false"),
    ("gc.auto", "0"),
)


class GitFailed(Exception):
    """What git said."""


async def git(
    arguments: Sequence[str], *, directory: Path, environment: Mapping[str, str] | None = None, given: bytes = b""
) -> bytes:
    settings = [word for name, value in SETTINGS for word in ("-c", f"{name}={value}")]
    # Inside a git hook these would point at another repository.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    process = None
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            process = await asyncio.create_subprocess_exec(
                "git",
                *settings,
                *arguments,
                cwd=directory,
                env={**inherited, "GIT_TERMINAL_PROMPT": "0", **(environment or {})},
                stdin=asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            out, err = await process.communicate(given or None)
    except (OSError, TimeoutError) as error:
        raise GitFailed(str(error) or f"git took longer than {COMMAND_SECONDS:g} s") from error
    finally:
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise GitFailed(err.decode("utf-8", "replace").strip()[:500] or f"git {arguments[0]} failed")
    return out


def names(out: bytes) -> list[str]:
    """Of a list that is separated by zero bytes."""
    return [os.fsdecode(name) for name in out.split(b"\0") if name]


def literal(paths: Sequence[str]) -> list[str]:
    """As pathspecs that mean exactly these paths, from the top of the worktree."""
    return [f":(top,literal){path}" for path in paths]
