"""A provider floods one Session with 400 MB: other turns, memory and the end of the process stay as they should."""

from __future__ import annotations

import json
import signal
import statistics
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Provider, Server, frame
from tests.cli.conftest import holdfast as holdfast
from tests.cli.conftest import provider as provider
from tests.cli.conftest import serve as serve

from holdfast import Client, PromptInput, connect_sync
from holdfast.schema.session_message import AssistantMessage

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]

MIB = 1024 * 1024
TURNS = 60
ROUNDS = 9
NOISE = 0.05
DONE = b"data: [DONE]\n\n"


class Flooding:
    """Answers the Sessions in `flooded` with 400 MB, and any other with TURNS tool calls, whose gaps it measures."""

    def __init__(self, piece: bytes) -> None:
        self._piece = piece
        self._calls: dict[str, int] = {}
        self._ended: dict[str, float] = {}
        self.flooded: set[str] = set()
        self.gaps: list[float] = []
        self.began = threading.Event()
        self.over = threading.Event()

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        arrived = time.perf_counter()
        session = handler.headers["x-session-id"]
        Provider.head(handler)
        if session in self.flooded:
            self._flood(handler)
            return
        if session in self._ended:
            self.gaps.append(arrived - self._ended[session])
        calls = self._calls[session] = self._calls.get(session, 0) + 1
        if calls <= TURNS:
            given = {"name": "read", "arguments": json.dumps({"path": "hello.txt", "offset": calls})}
            call = frame({"tool_calls": [{"index": 0, "id": f"c{calls}", "function": given}]})
            handler.wfile.write(call + frame({}, "tool_calls") + DONE)
            self._ended[session] = time.perf_counter()
        else:
            handler.wfile.write(frame({"content": "done"}) + frame({}, "stop") + DONE)

    def _flood(self, handler: BaseHTTPRequestHandler) -> None:
        self.began.set()
        sent = 0
        try:
            while sent < 400 * MIB:
                sent += handler.wfile.write(self._piece)
        except OSError:
            pass
        self.over.set()


def resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def start(client: Client, flooding: Flooding | None = None) -> str:
    session = client.sessions.create()
    if flooding is not None:
        flooding.flooded.add(session.id)
    client.sessions.prompt(session.id, prompt=PromptInput(text="go"))
    return session.id


PIECES = {"large": frame({"content": "x" * 60_000}), "tiny": frame({"content": "ab"}) * 600}


@pytest.fixture
def server(holdfast: Machine, provider: Provider, serve: Callable[..., Server]) -> Server:
    (holdfast.project / "hello.txt").write_text("hello\n" * 1000, encoding="utf-8")
    options = {"baseURL": provider.url}
    holdfast.configure_user(
        model="mock/m",
        provider={"mock": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}},
        holdfast={"titles": False},
    )
    return serve("--no-auth")


@pytest.mark.parametrize("kind", PIECES)
def test_a_flood_leaves_the_turns_of_others_alone(server: Server, provider: Provider, kind: str) -> None:
    """SES-221: the median gap between two turns of another Session grows by at most a tenth.

    The number of rounds and the estimator are fixed. `again` is a second measurement without a flood: where that
    differs from the first by more than NOISE, the machine cannot tell a tenth, and nothing was proved."""
    gaps: dict[str, list[float]] = {"quiet": [], "again": [], "flood": []}
    with connect_sync(server.url) as client:
        for number in range(ROUNDS):
            for name in (*gaps, *gaps)[number % 3 : number % 3 + 3]:
                now = provider.behave = Flooding(PIECES[kind])
                other = start(client)
                victim = start(client, now) if name == "flood" else None
                assert not victim or now.began.wait(10), "the flood did not begin"
                counted = len(now.gaps) if victim else 0
                client.sessions.wait(other)
                gaps[name] += now.gaps[counted:]
                if victim:
                    assert not now.over.is_set(), "the flood has to last longer than the turns"
                    client.sessions.interrupt(victim)
    quiet, again, flood = (statistics.median(each) for each in gaps.values())
    figures = f"{kind}: {flood / quiet:.2f} with a flood, {again / quiet:.2f} without, of {quiet * 1e3:.2f} ms"
    print(figures)
    if abs(again / quiet - 1) > NOISE:
        pytest.skip(f"this machine is too busy to tell; {figures}")
    assert flood / quiet <= 1.1, figures


@pytest.mark.parametrize("kind", PIECES)
def test_a_flood_takes_little_memory_and_can_be_ended(
    holdfast: Machine, server: Server, provider: Provider, kind: str
) -> None:
    """SES-221: less than 150 MB more, also after several; SIGTERM in the middle of one ends the process within 5 s."""
    with connect_sync(server.url) as client:
        provider.behave = Flooding(PIECES[kind])
        client.sessions.wait(start(client))
        before = peak = resident(server.process.pid)
        for _ in range(3):
            storm = provider.behave = Flooding(PIECES[kind])
            victim = start(client, storm)
            while not storm.over.wait(0.01):
                peak = max(peak, resident(server.process.pid))
            client.sessions.wait(victim)
            peak = max(peak, resident(server.process.pid))
            (answer,) = client.sessions.messages(victim, limit=1, order="desc").items
            assert isinstance(answer, AssistantMessage)
            assert answer.error is not None
            assert "The answer was cut off" in answer.error.message
        print(f"{kind}: memory {before // MIB} MiB, at most {peak // MIB} MiB")
        assert peak - before < 150 * MIB
        last = provider.behave = Flooding(PIECES[kind])
        start(client, last)
        assert last.began.wait(10)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(10)
    assert time.monotonic() - began < 5
    assert holdfast.healthy()
