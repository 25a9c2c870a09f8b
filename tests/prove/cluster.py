"""Several servers on one database that are killed, stopped and cut off, and clients that go from one to another.

Everything is seen from outside: over HTTP, with the ids that the clients chose."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.outside.scripted_provider import Call, Model, Request, Turn

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PATIENCE = 60.0
Json = dict[str, Any]


class Unreachable(Exception):
    """The node did not answer, or not in time: whether it did what was asked is unknown."""


class Node:
    """One server with a home of its own. `environment` says which database it uses."""

    def __init__(self, home: Path, project: Path, environment: dict[str, str]) -> None:
        self.home = home
        self.project = project
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "127.0.0.1", **environment}
        self.port = 0
        self.process: asyncio.subprocess.Process | None = None
        self._errors = home / "stderr"

    async def start(self) -> None:
        with self._errors.open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *(HOLDFAST, "serve", "--no-auth", "--port", str(self.port)),
                cwd=self.project,
                env=self.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await self.process.stdout.readline()).decode()
        assert line, f"{self.home.name} did not start: {self._errors.read_text()[-2000:]}"
        self.port = int(line.strip().rpartition(":")[2])

    async def kill(self, with_signal: int = signal.SIGKILL) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(with_signal)
        await self.process.communicate()

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)

    async def request(self, method: str, path: str, body: Json | None = None, *, seconds: float = 10.0) -> Any:
        """The decoded answer. Raises Unreachable, and AssertionError for an answer that reports an error."""
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    payload = b"" if body is None else json.dumps(body).encode()
                    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                    writer.write(
                        f"{head}content-length: {len(payload)}\r\nconnection: close\r\n\r\n".encode() + payload
                    )
                    answer = await reader.read()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            raise Unreachable(str(error)) from error
        first, _, content = answer.partition(b"\r\n\r\n")
        if not first:
            raise Unreachable("the connection ended")
        status = int(first.split(b" ", 2)[1])
        if status >= 500:
            raise Unreachable(f"{status}: {content[:300]!r}")
        assert status < 300, f"{method} {path}: {status} {content[:500]!r}"
        return json.loads(_whole(first, content)) if content else None

    async def events(self, session_id: str, after: int | None, until: asyncio.Event) -> list[Json]:
        """Follow the durable events after a sequence for a while. Ends without an error when the node does."""
        seen: list[Json] = []
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                path = f"/api/session/{session_id}/event" + (f"?after={after}" if after is not None else "")
                writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
                status = await reader.readline()
                assert not status or status.startswith(b"HTTP/1.1 200"), status
                while not until.is_set():
                    async with asyncio.timeout(3):
                        line = await reader.readline()
                    if not line:
                        break
                    if line.startswith(b"data: "):
                        event = json.loads(line[6:])
                        if "durable" in event:
                            seen.append(event)
            finally:
                writer.close()
        return seen


def _whole(head: bytes, content: bytes) -> bytes:
    if b"transfer-encoding: chunked" not in head.lower():
        return content
    pieces = []
    while content:
        size, _, rest = content.partition(b"\r\n")
        length = int(size, 16)
        pieces.append(rest[:length])
        content = rest[length + 2 :] if length else b""
    return b"".join(pieces)


class Answers:
    """The model: calls a tool for most prompts, then answers. Both take a little time, so that nodes die meanwhile."""

    def __init__(self, model: Model, chance: random.Random) -> None:
        self._chance = chance
        self._number = 0
        model.always = self.turn

    def turn(self, request: Request) -> Turn:
        end = asyncio.Event()
        asyncio.get_running_loop().call_later(self._chance.uniform(0, 0.15), end.set)
        self._number += 1
        last = request.body["messages"][-1]
        if last["role"] == "user" and self._chance.random() < 0.7:
            calls = [
                Call("read", {"path": "hello.txt", "offset": 1}, id=f"call_{self._number}_{place}")
                for place in range(self._chance.randint(1, 3))
            ]
            return Turn(text="looking", calls=tuple(calls), end=end)
        return Turn(text=f"answer {self._number}", end=end)


class Cluster:
    def __init__(self, nodes: list[Node], chance: random.Random) -> None:
        self.nodes = nodes
        self.chance = chance
        self.over = asyncio.Event()
        self.acknowledged: dict[str, list[str]] = {}
        """Prompts by Session."""
        self.seen: list[tuple[str, list[Json]]] = []
        """What each follower saw of its Session."""
        self.done: Counter[str] = Counter()
        self.checked = 0
        """Events."""

    def node(self) -> Node:
        return self.chance.choice(self.nodes)

    async def anywhere(self, method: str, path: str, body: Json | None = None, *, seconds: float = PATIENCE) -> Any:
        """Ask one node after another until one answers."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return await self.node().request(method, path, body)
            except Unreachable:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)

    async def create(self) -> str:
        created = await self.anywhere("POST", "/api/session", {"location": {"directory": str(self.nodes[0].project)}})
        id = str(created["data"]["id"])
        self.acknowledged[id] = []
        return id

    async def prompt(self, session_id: str) -> None:
        """One prompt with an id of its own, sent again with the same id until somebody acknowledges it."""
        id = f"msg_{self.chance.randbytes(13).hex()}"
        delivery = self.chance.choice(("steer", "queue"))
        body = {"id": id, "prompt": {"text": f"do {id}"}, "delivery": delivery}
        await self.anywhere("POST", f"/api/session/{session_id}/prompt", body)
        self.acknowledged[session_id].append(id)

    async def keep_prompting(self, session_id: str) -> None:
        while not self.over.is_set():
            await self.prompt(session_id)
            await asyncio.sleep(self.chance.uniform(0.1, 1.0))

    async def keep_following(self, session_id: str) -> None:
        """Go from node to node, always continuing after the last event that was seen."""
        events: list[Json] = []
        self.seen.append((session_id, events))
        while not self.over.is_set():
            hop = asyncio.Event()
            asyncio.get_running_loop().call_later(self.chance.uniform(0.3, 4.0), hop.set)
            after = events[-1]["durable"]["seq"] if events else None
            events += await self.node().events(session_id, after, hop)
            if not hop.is_set():
                await asyncio.sleep(0.05)

    async def keep_killing(self, actions: dict[str, float], *, most_stopped: float = 3.0) -> None:
        """`actions`: kill, stop, and names of further ones, with their weights."""
        while not self.over.is_set():
            await asyncio.sleep(self.chance.uniform(0.3, 1.5))
            (action,) = self.chance.choices(list(actions), list(actions.values()))
            await self.disturb(action, most_stopped)
            self.done[action] += 1

    async def disturb(self, action: str, most_stopped: float) -> None:
        node = self.node()
        if action == "kill":
            await node.kill()
            await asyncio.sleep(self.chance.uniform(0, 1.0))
            await node.start()
        elif action == "end":
            await node.kill(signal.SIGTERM)
            await node.start()
        else:
            node.stop()
            await asyncio.sleep(self.chance.uniform(0.2, most_stopped))
            node.go_on()

    async def run(self, seconds: float, *, followers: int, actions: dict[str, float]) -> None:
        sessions = list(self.acknowledged)
        tasks = [asyncio.create_task(self.keep_prompting(id)) for id in sessions]
        tasks += [asyncio.create_task(self.keep_following(sessions[n % len(sessions)])) for n in range(followers)]
        killing = asyncio.create_task(self.keep_killing(actions))
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        self.over.set()
        await asyncio.gather(*tasks, killing)

    async def settle(self) -> None:
        """Wait until all Sessions are idle."""
        for id in self.acknowledged:
            async with asyncio.timeout(PATIENCE):
                while True:
                    with suppress(Unreachable):
                        await self.node().request("POST", f"/api/session/{id}/wait", seconds=PATIENCE)
                        break

    async def history(self, session_id: str) -> list[Json]:
        found: list[Json] = []
        while True:
            after = f"&after={found[-1]['durable']['seq']}" if found else ""
            page = await self.anywhere("GET", f"/api/session/{session_id}/history?limit=100{after}")
            found += page["data"]
            if not page.get("hasMore"):
                return found

    async def check(self) -> None:
        """Every acknowledged prompt is answered once, each call settled once, and nobody missed or doubled an event."""
        for id, prompts in self.acknowledged.items():
            events = await self.history(id)
            check_history(events, prompts)
            self.checked += len(events)
            for _, seen in (entry for entry in self.seen if entry[0] == id):
                places = [event["durable"]["seq"] for event in seen]
                whole = [event["durable"]["seq"] for event in events]
                assert places == whole[: len(places)], (id, _first_difference(places, whole))


def check_history(events: list[Json], prompts: list[str]) -> None:
    of_type: dict[str, list[Json]] = {}
    for event in events:
        of_type.setdefault(event["type"].removeprefix("session.next."), []).append(event)

    def ids(type: str, key: str) -> Counter[str]:
        return Counter(event["data"][key] for event in of_type.get(type, ()))

    once = dict.fromkeys(prompts, 1)
    assert {id: n for id, n in ids("prompt.admitted", "messageID").items() if id in once} == once
    assert {id: n for id, n in ids("prompted", "messageID").items() if id in once} == once
    called = ids("tool.called", "callID")
    settled = ids("tool.success", "callID") + ids("tool.failed", "callID")
    assert all(n == 1 for n in settled.values()), settled.most_common(3)
    assert called.keys() <= settled.keys(), called.keys() - settled.keys()
    begun = ids("step.started", "assistantMessageID")
    ended = ids("step.ended", "assistantMessageID") + ids("step.failed", "assistantMessageID")
    assert all(n == 1 for n in ended.values()), ended.most_common(3)
    assert begun.keys() == ended.keys(), begun.keys() ^ ended.keys()
    if prompts:
        newest = max(event["durable"]["seq"] for event in of_type["prompted"])
        answers = [event for event in of_type["step.ended"] if event["durable"]["seq"] > newest]
        assert answers, f"nothing answers the prompt at {newest}"
        assert answers[-1]["data"]["finish"] == "stop", answers[-1]["data"]


def _first_difference(one: list[int], other: list[int]) -> str:
    place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"at {place}: followed {one[place : place + 3]}, stored {other[place : place + 3]}"
