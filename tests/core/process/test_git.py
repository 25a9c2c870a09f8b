"""Running git: what reaches it, what it may cost, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.core.process.conftest import alive, gone

from holdfast.core.process import git as module
from holdfast.core.process.git import Git, GitFailed

pytestmark = pytest.mark.anyio


def fake(tmp_path: Path, script: str) -> dict[str, str]:
    """An environment in which git is this script."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


async def test_what_reaches_it(tmp_path: Path) -> None:
    """TOL-222, TOL-319: neither secrets, nor what would point it at another repository; the caller's own, and input."""
    secrets = {"OPENAI_API_KEY": "canary", "GIT_DIR": "/elsewhere", "GIT_INDEX_FILE": "/elsewhere", "GIT_SSH": "ssh -v"}
    git = Git({**fake(tmp_path, "env; cat"), **secrets})
    printed = await git.run("x", directory=tmp_path, variables={"GIT_WORK_TREE": "/here"}, given=b"input " * 100_000)
    lines = printed.decode().splitlines()
    assert "canary" not in printed.decode()
    assert {"GIT_WORK_TREE=/here", "GIT_SSH=ssh -v", "GIT_TERMINAL_PROMPT=0"} <= set(lines)
    assert not any(line.startswith(("GIT_DIR=", "GIT_INDEX_FILE=")) for line in lines)
    assert lines[-1] == "input " * 100_000


async def test_what_it_said_is_the_error(tmp_path: Path) -> None:
    """TOL-221: bounded, and apart from what it printed."""
    with pytest.raises(GitFailed, match=r"^fatal: x{10}") as failed:
        await Git(fake(tmp_path, "echo out; printf 'fatal: %01000d' 0 | tr 0 x >&2; exit 128")).run(directory=tmp_path)
    assert len(str(failed.value)) == module.SHOWN_CHARACTERS
    with pytest.raises(GitFailed, match="No such file"):
        await Git({"PATH": str(tmp_path / "empty")}).run(directory=tmp_path)


async def test_its_output_is_whole_or_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-221: half of a list would be believed."""
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    git = Git(fake(tmp_path, 'head -c "$COUNT" /dev/zero'))
    assert len(await git.run(directory=tmp_path, variables={"COUNT": "1000"})) == 1000
    with pytest.raises(GitFailed, match="more than 1000 bytes"):
        await git.run(directory=tmp_path, variables={"COUNT": "1001"})


async def test_it_takes_no_longer_than_it_may(tmp_path: Path) -> None:
    """TOL-342: and what it started cannot hold the call either."""
    environment = fake(tmp_path, "shift $(($# - 1)); sleep 1000 & echo $! > child; $1")
    with pytest.raises(GitFailed, match=r"longer than 0\.5 s"):
        await Git(environment, seconds=0.5).run("wait", directory=tmp_path)
    async with asyncio.timeout(60):
        assert await Git(environment).run("true", directory=tmp_path) == b""
    assert await gone(int((tmp_path / "child").read_text(encoding="utf-8")))


async def test_a_cancelled_call_leaves_nothing(tmp_path: Path) -> None:
    """TOL-218: git and its helpers, before the cancellation goes on."""
    os.mkfifo(tmp_path / "told")
    environment = fake(tmp_path, "sleep 1000 & setsid sleep 1000 & echo $$ $! > told; wait")
    running = asyncio.create_task(Git(environment).run(directory=tmp_path))
    found = (await asyncio.to_thread((tmp_path / "told").read_text, encoding="utf-8")).split()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(found) == 2
    assert not any(alive(int(pid)) for pid in found)
