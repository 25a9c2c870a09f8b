"""Answers and commands under way on two nodes, of which one is killed: what becomes of each."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.cli.conftest import Machine, Provider, Server, finish, frame
from tests.outside.test_left_behind import calling, client_of, new_session

from holdfast import PromptInput
from holdfast.schema.session_message import AssistantMessage, ToolError, ToolPart

Serve = Callable[..., Server]


class Load:
    """A provider that holds the first answer to each prompt after its first words; prompts that begin with `run` get a
    command that takes long instead."""

    def __init__(self, provider: Provider) -> None:
        self.requests: Counter[str] = Counter()
        self.again = 0.0
        """When the last answer was asked for again."""
        self.released = threading.Event()
        self._lock = threading.Lock()
        provider.behave = self._behave

    def _behave(self, handler: BaseHTTPRequestHandler) -> None:
        body: dict[str, Any] = handler.body  # type: ignore[attr-defined]
        text = next(item["content"] for item in reversed(body["messages"]) if item["role"] == "user")
        with self._lock:
            self.requests[text] += 1
            first = self.requests[text] == 1
            if not first:
                self.again = time.monotonic()
        if not first:
            return Provider.answer(handler)
        if text.startswith("run"):
            command = {"command": f"echo '{text}' >> ran.txt; sleep 600", "description": "d"}
            return calling("bash", command)(handler)
        Provider.head(handler)
        handler.wfile.write(frame({"content": "partly"}))
        handler.wfile.flush()
        self.released.wait(120)
        handler.wfile.write(frame({}, "stop") + b"data: [DONE]\n\n")
        return None


async def kill_one_of_two(machine: Machine, serve: Serve, provider: Provider, answers: int, commands: int) -> float:
    """Prompts at two nodes in turn, and kills one. Checks that all answers end without a person, that each command ran
    once, and that a person is asked about those of the dead node alone. Returns after how many seconds the last answer
    was asked for again."""
    machine.use_provider(provider.url, settings={"titles": False})
    load, nodes = Load(provider), (serve(), serve())
    texts = [f"answer {number}" for number in range(answers)] + [f"run {number}" for number in range(commands)]
    sessions: dict[str, str] = {}
    async with client_of(nodes[1], machine) as there:
        async with client_of(nodes[0], machine) as here:
            for number, text in enumerate(texts):
                client = here if number % 2 == 0 else there
                sessions[text] = await new_session(client, machine)
                await client.sessions.prompt(sessions[text], prompt=PromptInput(text=text))
            await _until(lambda: len(load.requests) == len(texts) and len(_ran(machine)) == commands)
        dead = {text for number, text in enumerate(texts) if number % 2 == 0}
        killed = time.monotonic()
        nodes[0].process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(finish, nodes[0].process)
        lost = {text for text in dead if not text.startswith("run")}
        await _until(lambda: all(load.requests[text] == 2 for text in lost))
        asked_again = load.again - killed
        load.released.set()
        for text, session_id in sessions.items():
            if text.startswith("answer"):
                assert (await there.sessions.outcome(session_id)).type == "completed"
        undecided = {left.session_id: left for left in await there.sessions.interrupted()}
        assert set(undecided) == {sessions[text] for text in dead - lost}
        assert all(left.decision and len(left.calls) == 1 for left in undecided.values())
        assert {text: load.requests[text] for text in texts if text not in lost} == dict.fromkeys(set(texts) - lost, 1)
        for session_id in undecided:
            await there.sessions.recover(session_id, decision="continue")
        for session_id in undecided:
            assert (await there.sessions.outcome(session_id)).type == "completed"
            history = await there.sessions.context(session_id)
            (part,) = [
                part
                for item in history
                if isinstance(item, AssistantMessage)
                for part in item.content
                if isinstance(part, ToolPart)
            ]
            assert isinstance(part.state, ToolError)
        for text in texts:
            if text.startswith("run") and text not in dead:
                await there.sessions.interrupt(sessions[text])
    assert sorted(_ran(machine)) == sorted(text for text in texts if text.startswith("run"))
    return asked_again


def _ran(machine: Machine) -> list[str]:
    path = machine.project / "ran.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def _until(met: Callable[[], bool]) -> None:
    while not met():  # noqa: ASYNC110 - only looking tells
        await asyncio.sleep(0.05)
