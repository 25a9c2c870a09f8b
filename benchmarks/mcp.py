"""A tool of an MCP server, called by a model, against the bare round trip to the same server; and what five hundred
tools cost a turn. `make bench`.

A call is measured from the model's last byte to the next request: the answer is decoded, the call recorded, checked,
permitted, sent, its result read and settled, the step ended, the next request made and dispatched."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.mcp.catalogue import Catalogue
from holdfast.core.mcp.guidance import baseline
from holdfast.core.mcp.seam import KnownServer, Manifest, ManifestTool
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.session.transcript import tokens
from holdfast.embedded.serve import fast_loop
from holdfast.llm.offline import Call, OfflineResponse, Turn, respond
from holdfast.schema.model import ModelRef
from holdfast.schema.permission import Rule
from holdfast.schema.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.llm.route.transport import HttpRequest

ROUNDS = 3
TURNS = 120
WARM = 20
MOST_MILLISECONDS = 3.0
MOST_TOKENS = 2_500
MODEL = ModelRef(id="echo", provider_id="demo")
RULES = (Rule(action="*", resource="*", effect="allow"),)
SERVER = """
import json, sys
def say(id, result):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + chr(10))
    sys.stdout.flush()
schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
for line in sys.stdin:
    message = json.loads(line)
    method, id = message["method"], message.get("id")
    if method == "initialize":
        server = {"name": "s", "version": "1"}
        say(id, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server})
    elif method == "tools/list":
        say(id, {"tools": [{"name": "echo", "description": "Says it again", "inputSchema": schema}]})
    elif method == "tools/call":
        say(id, {"content": [{"type": "text", "text": str(message["params"]["arguments"]["number"])}]})
    elif id is not None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}) + chr(10))
        sys.stdout.flush()
"""


class Model:
    """Calls the tool in every turn but the last. The whole answer arrives in one read."""

    def __init__(self) -> None:
        self._turns = itertools.count(1)
        self._answered = 0.0
        self.taken: list[float] = []

    async def send(self, request: HttpRequest) -> OfflineResponse:
        self.taken.append(time.perf_counter() - self._answered)
        number = next(self._turns)
        turn = Turn(calls=(Call(tool="s_echo", input={"number": number}),)) if number % TURNS else Turn(text="done")
        frames = [frame async for frame in respond(turn, "echo").chunks()]
        return OfflineResponse(200, self._at_once(b"".join(frames)))

    async def close(self) -> None:
        pass

    async def _at_once(self, answer: bytes) -> AsyncIterator[bytes]:
        self._answered = time.perf_counter()
        yield answer


async def calls(folder: Path) -> tuple[float, float]:
    """Milliseconds of a call through the runner, and of the bare round trip."""
    (folder / "server.py").write_text(SERVER)
    server = {"type": "local", "command": [sys.executable, "-S", "-E", str(folder / "server.py")]}
    document = {"mcp": {"servers": {"s": server}}, "permission": {"s_*": "allow"}}
    (folder / "opencode.json").write_text(json.dumps(document))
    model = Model()
    runtime = Runtime(
        paths=Paths(folder / "data"),
        directory=folder,
        environment={"HOME": str(folder)},
        transport=model,
        options=HostOptions(titles=False, trust=True),
    )
    taken, bare = [], []
    async with runtime, runtime.locations.use(runtime.location) as services:
        await services.mcp.connect("s")
        for _ in range(ROUNDS):
            model.taken.clear()
            session = await runtime.sessions.create(
                location=runtime.location, project=await runtime.project(runtime.location), model=MODEL
            )
            await runtime.sessions.prompt(session.id, Prompt(text="go"), resume=False)
            await runtime.sessions.run(session.id)
            assert len(model.taken) == TURNS
            taken.append(undisturbed(model.taken[WARM:]))
            bare.append(await _bare(services.mcp))
    return min(taken) * 1e3, min(bare) * 1e3


async def _bare(servers: Any) -> float:
    times = []
    for number in range(TURNS):
        started = time.perf_counter()
        await servers.call("s", "echo", {"number": number}, None)
        times.append(time.perf_counter() - started)
    return undisturbed(times[WARM:])


def undisturbed(times: list[float]) -> float:
    """The tenth percentile: what it takes while nothing else wants the processor."""
    return statistics.quantiles(times, n=10)[0]


def many() -> Catalogue:
    """20 servers with 25 tools each."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("path", "query", "limit")}}
    text = "Does something with a path, a query and a limit, and returns what it found. " * 3
    tools = tuple(ManifestTool(name=f"do_something_{n:02}", description=text, input_schema=schema) for n in range(25))
    known = tuple(
        KnownServer(f"server{n:02}", str(n), Manifest(tools=tools, instructions="Use with care. " * 40))
        for n in range(20)
    )
    return Catalogue(known, frozenset(server.name for server in known), MOST_TOKENS, 250)


def catalogue() -> tuple[float, float, float]:
    """Milliseconds to make what a turn needs of 500 tools, microseconds when nothing changed, tokens of the list."""
    started = time.perf_counter()
    made = many()
    made.offer()
    listed = made.listed(RULES, ())
    first = time.perf_counter() - started
    started = time.perf_counter()
    for _ in range(1_000):
        made.listed(RULES, ())
    again = (time.perf_counter() - started) / 1_000
    return first * 1e3, again * 1e6, tokens(len(json.dumps(baseline(listed))))


def told(name: str, value: float, most: float) -> bool:
    good = value <= most
    print(f"{'ok ' if good else 'BAD'} {name}: {value:.2f} (<= {most})")
    return good


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        whole, bare = await calls(Path(folder).resolve())
    print(f"    {whole:.2f} ms for a call and its turn, {bare:.2f} ms for the bare round trip")
    first, again, size = catalogue()
    good = [
        told("milliseconds of a call beyond the round trip, with its two commits", whole - bare, MOST_MILLISECONDS),
        told("milliseconds to list 500 tools of 20 servers", first, 250),
        told("microseconds to list them again", again, 50),
        told("tokens of the list", size, MOST_TOKENS - 250),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fast_loop()) as runner:  # as a server has it
        sys.exit(runner.run(main()))
