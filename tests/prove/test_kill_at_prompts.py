"""`kill -9` at every commit of a command, a prompt without reply, a shell message, a structured answer and a fork."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Provider, holdfast, provider
from tests.outside.test_left_behind import calling
from tests.prove.killed_prompts import CALLED, COMMAND, FORMAT, NOTE, SHELL, finish, send

from holdfast import Holdfast
from holdfast.schema.session_message import AssistantMessage, ShellMessage, UserMessage

__all__ = ["holdfast", "provider"]
pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(1800)]

HOST = Path(__file__).with_name("killed_prompts.py")


def behave(provider: Provider) -> None:
    """The first structured answer does not match; whoever reads that gives another one."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = provider.bodies[-1]
        if "StructuredOutput" not in json.dumps(body.get("tools", [])):
            return Provider.answer(handler)
        wrong = "does not match the schema" not in json.dumps(body["messages"])
        return calling("StructuredOutput", {"total": "many" if wrong else 7}, f"call_{len(provider.bodies)}")(handler)

    provider.behave = answer


async def prepared(machine: Machine, provider: Provider) -> str:
    machine.use_provider(provider.url)
    config = machine.home / "config" / "opencode" / "opencode.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    own = {**document["holdfast"], "titles": False}
    more = {"holdfast": own, "command": {"note": COMMAND}, "snapshot": False}
    config.write_text(json.dumps({**document, **more}), encoding="utf-8")
    behave(provider)
    async with Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment) as host:
        return (await host.sessions.create()).id


def killed(machine: Machine, data: Path, session_id: str, at: int, when: str) -> subprocess.CompletedProcess[str]:
    arguments = [str(machine.project), str(data), session_id, str(at), when]
    return subprocess.run(
        [sys.executable, str(HOST), *arguments],
        cwd=machine.project,
        env={**machine.environment, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def carried_on(machine: Machine, data: Path, session_id: str) -> None:
    """The next host, to which everything is sent again."""
    async with (
        asyncio.timeout(60),
        Holdfast(machine.project, preset="allow", data=data, environment=machine.environment) as host,
    ):
        await send(host, session_id)
        for session in (await host.sessions.list()).items:
            await finish(host, session.id)  # also a fork of the killed process
        assert await host.sessions.interrupted() == []
        for session in (await host.sessions.list()).items:
            assert await host.sessions.waits(session.id) == []
            assert await host.permissions.list(session.id) == []
        await check(host, session_id, machine)
        assert await host.verify() == []


async def check(host: Holdfast, session_id: str, machine: Machine) -> None:
    """Nothing lost, nothing doubled."""
    messages = (await host.sessions.messages(session_id, limit=100, order="asc")).items
    ids = Counter(message.id for message in messages)
    assert {id: ids[id] for id in (NOTE, CALLED, SHELL, FORMAT)} == dict.fromkeys((NOTE, CALLED, SHELL, FORMAT), 1)
    assert [item.text for item in messages if isinstance(item, UserMessage)] == ["a note", "Note this. ", "the total"]
    (shell,) = (item for item in messages if isinstance(item, ShellMessage))
    times = lines(machine.project / "shell.txt")
    assert times <= 1
    assert shell.time.completed is not None
    assert times == 1 or "The process ended" in shell.output
    assert 1 <= lines(machine.project / "noted.txt") <= 2
    last = messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.structured == {"total": 7}
    assert sum(isinstance(item, AssistantMessage) and item.structured == {"total": 7} for item in messages) == 1
    for session in (await host.sessions.list()).items:
        if session.fork is not None:
            shared = (await host.sessions.messages(session.id, limit=100, order="asc")).items
            assert shared[: len(messages)] == messages


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


async def test_a_kill_at_any_commit_of_any_prompt_loses_and_doubles_nothing(
    holdfast: Machine, provider: Provider, tmp_path: Path
) -> None:
    """SES-280, SES-285, SES-297, SES-327, SES-211: killed before and after each commit."""
    session_id = await prepared(holdfast, provider)
    clean = tmp_path / "clean"
    shutil.copytree(holdfast.data, clean)
    whole = await asyncio.to_thread(killed, holdfast, clean, session_id, 0, "after")
    assert whole.returncode == 0, whole.stderr
    commits = int(whole.stdout)
    kills = 0
    for at in range(1, commits + 1):
        for when in ("before", "after"):
            data = tmp_path / f"{at}-{when}"
            shutil.copytree(holdfast.data, data)
            for name in ("noted.txt", "shell.txt"):
                (holdfast.project / name).unlink(missing_ok=True)
            ended = await asyncio.to_thread(killed, holdfast, data, session_id, at, when)
            assert ended.returncode in (0, -9), ended.stderr
            kills += ended.returncode == -9
            try:
                await carried_on(holdfast, data, session_id)
            except (AssertionError, TimeoutError) as error:
                raise AssertionError(f"killed {when} commit {at} of {commits}: {data}") from error
            shutil.rmtree(data)
    print(f"{commits} commits, {kills} of {2 * commits} kills reached")
    assert commits >= 15
    assert kills > commits, "most processes had ended before they were to be killed"
