"""`kill -9` at every commit of an activity of three turns with a compaction, a permission and a tool."""

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
from tests.outside.test_left_behind import answers, calling, in_turn, parts
from tests.prove.killed_host import FIRST, LONG, SECOND, approve, send

from holdfast import Holdfast, PromptInput
from holdfast.schema.session_message import AssistantMessage, CompactionMessage, ToolCompleted, ToolError, UserMessage

__all__ = ["holdfast", "provider"]
pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(1800)]

HOST = Path(__file__).with_name("killed_host.py")
ROUNDS = 3
"""How often each point is tried: what is committed together differs from run to run."""


def behave(provider: Provider) -> None:
    """One command that needs an approval, one file, then the answer; the second prompt is answered at once."""
    command = {"command": "echo once >> ran.txt", "description": "d"}
    steps = [calling("bash", command, "call_bash"), calling("read", {"filePath": "hello.txt"}, "call_read")]

    def step(handler: BaseHTTPRequestHandler) -> None:
        told = json.dumps(provider.bodies[-1]["messages"])
        done = ("call_bash" in told) + ("call_read" in told)
        (steps[done] if done < len(steps) and "and then?" not in told else Provider.answer)(handler)

    in_turn(provider, step)


async def prepared(machine: Machine, provider: Provider) -> str:
    """A Session with so much history that the next long prompt makes it compact."""
    machine.use_provider(provider.url, models={"m": {"limit": {"context": 60_000, "output": 1_000}}})
    config = machine.home / "config" / "opencode" / "opencode.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**document, "permission": {"bash": "ask"}, "snapshot": False}), encoding="utf-8")
    async with Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment) as host:
        session = await host.sessions.create()
        for number in range(3):
            await host.sessions.prompt(session.id, prompt=PromptInput(text=f"{number} " + "word " * 8_000))
            assert (await host.sessions.outcome(session.id)).type == "completed"
    behave(provider)
    return session.id


def killed(machine: Machine, data: Path, session_id: str, at: int, when: str) -> subprocess.CompletedProcess[str]:
    arguments = [str(machine.project), str(data), session_id, str(at), when]
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, str(HOST), *arguments],
        cwd=machine.project,
        env={**machine.environment, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def carried_on(machine: Machine, data: Path, session_id: str) -> str:
    """What one call says right after the restart; then everything is brought to its end, as a person would."""
    async with Holdfast(
        machine.project, preset="allow", data=data, environment=machine.environment, recover=False
    ) as host:
        waits = await host.sessions.waits(session_id)
        pending = await host.sessions.pending(session_id)
        (newest,) = (await host.sessions.messages(session_id, limit=1)).items
        answered = isinstance(newest, AssistantMessage) and newest.finish == "stop"
        assert bool(waits) == (bool(pending) or not answered), (waits, pending, newest)
        explained = waits[0].kind if waits else "answered"
    async with (
        asyncio.timeout(60),
        Holdfast(machine.project, preset="allow", data=data, environment=machine.environment) as host,
    ):
        approving = asyncio.create_task(approve(host, session_id))
        await send(host, session_id)  # what was accepted is not taken twice
        while (now := await host.sessions.outcome(session_id)).type != "completed" or now.pending:
            await host.sessions.run(session_id)
        approving.cancel()
        assert await host.sessions.interrupted() == []
        assert await host.sessions.waits(session_id) == []
        await check(host, session_id, machine)
        assert await host.verify() == []
    return explained


async def check(host: Holdfast, session_id: str, machine: Machine) -> None:
    """Nothing lost, nothing doubled."""
    page = await host.sessions.messages(session_id, limit=100)
    users = [message for message in page.items if isinstance(message, UserMessage)]
    assert Counter(message.id for message in users)[FIRST] == 1
    assert Counter(message.id for message in users)[SECOND] == 1
    assert [message.text for message in users if message.id == FIRST] == [LONG]
    assert sum(isinstance(message, CompactionMessage) for message in page.items) >= 1
    ran = machine.project / "ran.txt"
    times = len(ran.read_text(encoding="utf-8").splitlines()) if ran.exists() else 0
    calls = [part for answer in await answers(host, session_id) for part in parts(answer)]
    completed = [part for part in calls if part.name == "bash" and isinstance(part.state, ToolCompleted)]
    assert all(isinstance(part.state, ToolCompleted | ToolError) for part in calls)
    assert len(completed) <= times <= len([part for part in calls if part.name == "bash"])
    assert times <= 1 or all(isinstance(part.state, ToolError) for part in calls if part.name == "bash" and times > 1)


async def test_a_kill_at_any_commit_loses_and_doubles_nothing(
    holdfast: Machine, provider: Provider, tmp_path: Path
) -> None:
    """SES-034, SES-139, SES-253, SES-254, TOL-101: killed before and after each commit between the admission of a
    prompt and the end of its activity, with another prompt queued behind it."""
    session_id = await prepared(holdfast, provider)
    clean = tmp_path / "clean"
    shutil.copytree(holdfast.data, clean)
    whole = await asyncio.to_thread(killed, holdfast, clean, session_id, 0, "after")
    assert whole.returncode == 0, whole.stderr
    commits = int(whole.stdout)
    seen: Counter[str] = Counter()
    kills = 0
    for run in range(ROUNDS):
        for at in range(1, commits + 1):
            for when in ("before", "after"):
                data = tmp_path / f"{run}-{at}-{when}"
                shutil.copytree(holdfast.data, data)
                (holdfast.project / "ran.txt").unlink(missing_ok=True)
                ended = await asyncio.to_thread(killed, holdfast, data, session_id, at, when)
                assert ended.returncode in (0, -9), ended.stderr
                kills += ended.returncode == -9
                try:
                    seen[await carried_on(holdfast, data, session_id)] += 1
                except (AssertionError, TimeoutError) as error:
                    raise AssertionError(f"killed {when} commit {at} of {commits}: {data}") from error
                shutil.rmtree(data)
    print(f"{commits} commits, {kills} of {2 * ROUNDS * commits} kills reached: {dict(seen)}")
    assert 2 * ROUNDS * commits >= 100
    assert kills > ROUNDS * commits, "most processes had ended before they were to be killed"
    assert seen["permission"], "no process was killed while its call waited for a person"
    assert seen["answered"], "no process was killed after the answer"
