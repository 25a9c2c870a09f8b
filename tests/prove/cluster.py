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
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.outside.scripted_provider import Call, Model, Request, Turn
from tests.prove.followers import Follower, Stored, followers
from tests.prove.histories import Json, check_history, lines_about
from tests.prove.network import FROM, TO, Link

from holdfast.core.session.heartbeats import EXPIRY_SECONDS, WATCHED_SECONDS

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PATIENCE = 60.0
PROMPTS_OF_A_SESSION = 80
LONG = ("long_stop", "long_cut")
"""Disturbances beside which others go on."""


class Unreachable(Exception):
    """The node did not answer, or not in time: whether it did what was asked is unknown."""


class Node:
    """One server with a home of its own. `environment` says which database it uses.

    The links, if there are any, lead from it to the database, and from other nodes to it."""

    def __init__(
        self,
        home: Path,
        project: Path,
        environment: dict[str, str],
        *,
        database: Link | None = None,
        peers: Link | None = None,
    ) -> None:
        self.home = home
        self.project = project
        self.database = database
        self.peers = peers
        self.away = False
        """Stopped or cut off for long: left alone until it is back."""
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "127.0.0.1", **environment}
        self.port = 0
        self.process: asyncio.subprocess.Process | None = None
        self._errors = home / "stderr"

    @property
    def name(self) -> str:
        return self.home.name

    async def start(self) -> None:
        """As a supervisor does: again, if it ends because the database cannot be reached."""
        deadline = time.monotonic() + PATIENCE
        while not await self._start():
            assert time.monotonic() < deadline, f"{self.name} did not start: {self.log()}"

    async def _start(self) -> bool:
        address = ("--node-address", f"http://127.0.0.1:{self.peers.port}") if self.peers is not None else ()
        with self._errors.open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *(HOLDFAST, "serve", "--no-auth", "--port", str(self.port), "--node-name", self.name, *address),
                cwd=self.project,
                env=self.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await self.process.stdout.readline()).decode()
        if not line:
            await self.process.wait()
            return False
        self.port = int(line.strip().rpartition(":")[2])
        if self.peers is not None:
            self.peers.target = self.port
        return True

    def log(self, characters: int = 4000) -> str:
        return self._errors.read_text(encoding="utf-8", errors="replace")[-characters:]

    async def kill(self, with_signal: int = signal.SIGKILL) -> None:
        if self.process is None:
            return
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
        self._model = model
        model.always = self.turn

    @property
    def count(self) -> int:
        return self._number

    def turn(self, request: Request) -> Turn:
        self._model.requests.clear()  # those of half an hour would fill the memory
        end = asyncio.Event()
        asyncio.get_running_loop().call_later(self._chance.uniform(0, 0.15), end.set)
        self._number += 1
        last = request.body["messages"][-1]
        if "DELEGATE" in str(last.get("content")) and last["role"] == "user":
            task = {"agent": "general", "description": "look", "prompt": f"look for {self._number}"}
            return Turn(text="asking", calls=(Call("subagent", task, id=f"call_{self._number}"),), end=end)
        if last["role"] == "user" and self._chance.random() < 0.7:
            calls = [
                Call("read", {"path": "hello.txt", "offset": 1}, id=f"call_{self._number}_{place}")
                for place in range(self._chance.randint(1, 3))
            ]
            return Turn(text="looking", calls=tuple(calls), end=end)
        return Turn(text=f"answer {self._number}", end=end)


class Cluster:
    def __init__(
        self, nodes: list[Node], chance: random.Random, stored: Callable[[], Iterable[tuple[str, int, str]]]
    ) -> None:
        """`stored` reads Session, sequence and type of every event that is stored, in the order of the sequences."""
        self._stored = stored
        self.nodes = nodes
        self.chance = chance
        self.over = asyncio.Event()
        self.acknowledged: dict[str, list[str]] = {}
        """Prompts by Session."""
        self.followers: list[Follower] = []
        self._successors: dict[str, str] = {}
        """The Sessions that took the places of those with enough prompts."""
        self.done: Counter[str] = Counter()
        self.checked = 0
        """Events."""
        self._away: set[asyncio.Task[None]] = set()

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
        text = f"DELEGATE {id}" if self.chance.random() < 0.1 else f"do {id}"
        body = {"id": id, "prompt": {"text": text}, "delivery": delivery}
        await self.anywhere("POST", f"/api/session/{session_id}/prompt", body)
        self.acknowledged[session_id].append(id)

    async def keep_prompting(self, session_id: str, pause: float) -> None:
        """Goes on in another Session after a while: requests grow with the history."""
        while not self.over.is_set():
            await self.prompt(session_id)
            if len(self.acknowledged[session_id]) == PROMPTS_OF_A_SESSION:
                former, session_id = session_id, await self.create()
                self._successors[former] = session_id
            await asyncio.sleep(self.chance.uniform(0.1, 1.9) * pause)

    async def keep_following(self, follower: Follower) -> None:
        """Go from node to node, always continuing after the last event that was seen."""
        while not self.over.is_set():
            if (successor := self._successors.get(follower.session_id)) is not None:
                follower = type(follower)(successor)
                self.followers.append(follower)
            hop = asyncio.Event()
            asyncio.get_running_loop().call_later(self.chance.uniform(0.3, 8.0), hop.set)
            node = self.node()
            await follower.follow(node.name, node.port, hop)
            await asyncio.sleep(0.1)

    async def keep_deciding(self) -> None:
        """A person continues what only a person may decide about."""
        while not self.over.is_set():
            await asyncio.sleep(self.chance.uniform(1, 3))
            with suppress(Unreachable):
                await self.decide()

    async def decide(self) -> int:
        left = (await self.node().request("GET", "/api/session/interrupted"))["data"]
        for activity in left:
            await self.anywhere("POST", f"/api/session/{activity['sessionID']}/recover", {"decision": "continue"})
        return len(left)

    async def keep_disturbing(self, actions: dict[str, float]) -> None:
        """`actions` are the names of methods of `Disturbances`, with their weights."""
        disturbances = Disturbances(self.chance, self.over)
        while not self.over.is_set():
            await asyncio.sleep(self.chance.uniform(0.3, 1.5))
            (action,) = self.chance.choices(list(actions), list(actions.values()))
            usable = [node for node in self.nodes if not node.away]
            node = self.chance.choice(usable)
            if action in LONG and len(usable) < len(self.nodes):
                continue
            self.done[action] += 1
            disturbing = asyncio.create_task(getattr(disturbances, action)(node))
            if action in LONG:
                self._away.add(disturbing)
            else:
                await disturbing

    async def run(self, seconds: float, *, followed_by: int, actions: dict[str, float], pause: float = 0.6) -> None:
        """`pause`: seconds between the prompts of a Session."""
        sessions = list(self.acknowledged)
        self.followers = followers(sessions, followed_by)
        tasks = [asyncio.create_task(self.keep_prompting(id, pause)) for id in sessions]
        tasks += [asyncio.create_task(self.keep_following(follower)) for follower in self.followers]
        tasks.append(asyncio.create_task(self.keep_deciding()))
        tasks.append(asyncio.create_task(self.keep_disturbing(actions)))
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        self.over.set()
        await asyncio.gather(*tasks)
        await asyncio.gather(*self._away)

    async def settle(self) -> None:
        """Wait until nothing is owed any more."""
        deadline = time.monotonic() + PATIENCE
        quiet = 0
        while quiet < 2:  # what one node took over may wake another Session
            assert time.monotonic() < deadline, "the Sessions do not come to an end"
            with suppress(Unreachable):
                left = await self.decide()
                active = (await self.node().request("GET", "/api/session/active"))["data"]
                pending = [id for id in self.acknowledged if await self.anywhere_pending(id)] if not active else []
                quiet = 0 if left or active or pending else quiet + 1
            await asyncio.sleep(0.3)

    async def anywhere_pending(self, session_id: str) -> bool:
        return bool((await self.anywhere("GET", f"/api/session/{session_id}/pending"))["data"])

    async def history(self, session_id: str) -> list[Json]:
        found: list[Json] = []
        while True:
            after = f"&after={found[-1]['durable']['seq']}" if found else ""
            page = await self.anywhere("GET", f"/api/session/{session_id}/history?limit=100{after}")
            found += page["data"]
            if not page.get("hasMore"):
                return found

    async def members(self, session_id: str) -> list[str]:
        tree = (await self.anywhere("GET", f"/api/session/{session_id}/tree?limit=2000"))["data"]
        return [entry["id"] for entry in tree["nodes"]]

    async def check(self) -> None:
        """Every acknowledged prompt is answered once, each call settled once, and nobody missed or doubled an event."""
        problems: list[str] = []
        for id, prompts in self.acknowledged.items():
            for member in await self.members(id):
                events = await self.history(member)
                found = check_history(events, prompts if member == id else [])
                problems += [f"{member}: {problem}" for problem in found]
                if found:
                    problems.append(lines_about(events, found))
                self.checked += len(events)
        stored = Stored(self._stored())
        for follower in self.followers:
            problems += follower.problems(stored)
        assert not problems, "\n".join(problems)


class Disturbances:
    """What happens to a node. Those that last long end early with the run."""

    def __init__(self, chance: random.Random, over: asyncio.Event) -> None:
        self._chance = chance
        self._over = over

    async def kill(self, node: Node) -> None:
        await node.kill()
        await asyncio.sleep(self._chance.uniform(0, 1.0))
        await node.start()

    async def end(self, node: Node) -> None:
        await node.kill(signal.SIGTERM)
        await node.start()

    async def stop(self, node: Node) -> None:
        node.stop()
        await asyncio.sleep(self._chance.uniform(0.2, 3.0))
        node.go_on()

    async def long_stop(self, node: Node) -> None:
        """Longer than others wait before they take over."""
        node.away = True
        node.stop()
        await self._pass(EXPIRY_SECONDS + WATCHED_SECONDS + self._chance.uniform(2, 6))
        node.go_on()
        node.away = False

    async def close(self, node: Node) -> None:
        link = self._link(node)
        link.close_connections()
        link.refuses = True
        await asyncio.sleep(self._chance.uniform(0, 1.0))
        link.heal()

    async def cut(self, node: Node) -> None:
        await self._cut(self._link(node), self._chance.uniform(0.2, 5.0), TO, FROM)

    async def cut_one_way(self, node: Node) -> None:
        await self._cut(self._link(node), self._chance.uniform(0.2, 5.0), self._chance.choice((TO, FROM)))

    async def long_cut(self, node: Node) -> None:
        assert node.database is not None
        node.away = True
        directions = self._chance.choice(((TO,), (FROM,), (TO, FROM)))
        await self._cut(node.database, EXPIRY_SECONDS + WATCHED_SECONDS + self._chance.uniform(2, 6), *directions)
        node.away = False

    async def slow(self, node: Node) -> None:
        link = self._link(node)
        link.delay = self._chance.uniform(0.01, 0.2)
        await asyncio.sleep(self._chance.uniform(0.5, 3.0))
        link.heal()

    async def _cut(self, link: Link, seconds: float, *directions: str) -> None:
        link.cut(*directions)
        await self._pass(seconds)
        if self._chance.random() < 0.5:
            link.close_connections()
        link.heal()

    async def _pass(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    def _link(self, node: Node) -> Link:
        """More often that to the database."""
        assert node.database is not None
        assert node.peers is not None
        return node.database if self._chance.random() < 0.7 else node.peers
