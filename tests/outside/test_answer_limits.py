"""A provider that sends without end: the turn fails durably and says which limit it was, what arrived is kept, the
connection is closed, and the next prompt works."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from tests.cli.conftest import Machine, Provider, Server, eventually, frame

from holdfast import Holdfast, PromptInput, connect_sync
from holdfast.schema.session_message import AssistantMessage, TextPart, ToolError, ToolPart

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


class Flood:
    """Sends pieces until the other side closes the connection, but not forever."""

    def __init__(self, *first: bytes, piece: bytes, most: int = 64 * MIB, encoding: str = "identity") -> None:
        self._first = first
        self._piece = piece
        self._most = most
        self._headers = {"content-type": "text/event-stream", "content-encoding": encoding}
        self.status = 200
        self.sent = 0
        self.cut_off = threading.Event()

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        handler.send_response(self.status)
        for name, value in self._headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        try:
            for piece in self._pieces():
                handler.wfile.write(piece)
                self.sent += len(piece)
        except OSError:
            self.cut_off.set()

    def _pieces(self) -> Iterator[bytes]:
        yield from self._first
        while self.sent < self._most:
            yield self._piece


def configure(machine: Machine, provider: Provider, **limits: int) -> None:
    models = {"m": {"limit": {"context": 100_000, "output": 8_000}}}
    options = {"baseURL": provider.url}
    machine.configure_user(
        model="mock/m",
        provider={"mock": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}},
        holdfast={"titles": False, "answer": limits},
    )


def opened(machine: Machine) -> Holdfast:
    return Holdfast(
        machine.project, preset="allow", data=machine.data, environment=machine.environment, unattended="allow"
    )


async def asked(hf: Holdfast, session_id: str, text: str) -> AssistantMessage:
    """The newest answer, after a prompt has been worked on."""
    await hf.sessions.prompt(session_id, prompt=PromptInput(text=text))
    await hf.sessions.wait(session_id)
    newest = (await hf.sessions.messages(session_id, limit=1, order="desc")).items[0]
    assert isinstance(newest, AssistantMessage)
    return newest


def arguments(text: str) -> bytes:
    return frame({"tool_calls": [{"index": 0, "function": {"arguments": text}}]})


CALL = frame({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read", "arguments": ""}}]})
TEXTS: dict[str, tuple[Callable[[], Flood], dict[str, int], str, int]] = {
    "text, at the default limit": (
        lambda: Flood(piece=frame({"content": "x" * 60_000})),
        {},
        "8388608 bytes (holdfast.answer.part_bytes)",
        8 * MIB,
    ),
    "text in small pieces": (
        lambda: Flood(piece=frame({"content": "ab"}) * 200),
        {"part_bytes": 10_001},
        "10001 bytes (holdfast.answer.part_bytes)",
        10_001,
    ),
    "framing": (
        lambda: Flood(frame({"content": "kept"}), piece=b": nothing\n\n" * 1000),
        {"stream_bytes": 200_000},
        "200000 bytes (holdfast.answer.stream_bytes)",
        4,
    ),
    "one line": (
        lambda: Flood(frame({"content": "kept"}), b"data: ", piece=b"x" * 100_000),
        {"frame_bytes": 1_000_000},
        "1000000 bytes (holdfast.answer.frame_bytes)",
        4,
    ),
    "one line, at the default limit": (
        lambda: Flood(frame({"content": "kept"}), b"data: ", piece=b"x" * 1_000_000),
        {},
        "16777216 bytes (holdfast.answer.frame_bytes)",
        4,
    ),
}


@pytest.mark.parametrize("name", TEXTS)
async def test_a_flood_of_text_ends_the_turn_at_its_limit(holdfast: Machine, provider: Provider, name: str) -> None:
    """LLM-390, LLM-394, LLM-363, SES-220"""
    make, limits, said, kept = TEXTS[name]
    flood = make()
    configure(holdfast, provider, **limits)
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        provider.behave = flood
        answer = await asked(hf, session.id, "go")
        assert flood.cut_off.wait(5)
        assert answer.finish == "error"
        assert answer.error is not None
        assert said in answer.error.message
        (part,) = answer.content
        assert isinstance(part, TextPart)
        assert len(part.text) == kept
        await goes_on(hf, session.id, provider)


async def goes_on(hf: Holdfast, session_id: str, provider: Provider) -> None:
    """The next prompt is answered, and everything agrees with the log."""
    provider.behave = Provider.answer
    answer = await asked(hf, session_id, "and now?")
    assert (answer.finish, answer.error) == ("stop", None)
    assert await hf.verify() == []


async def test_a_flood_of_arguments_ends_the_turn_and_calls_nothing(holdfast: Machine, provider: Provider) -> None:
    """LLM-391, SES-220: at the default limit."""
    flood = Flood(CALL, arguments('{"path":"'), piece=arguments("x" * 60_000))
    configure(holdfast, provider)
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        provider.behave = flood
        answer = await asked(hf, session.id, "go")
        assert flood.cut_off.wait(5)
        assert answer.error is not None
        assert "2097152 bytes (holdfast.answer.argument_bytes)" in answer.error.message
        await goes_on(hf, session.id, provider)
        parts = [part for each in await hf.sessions.context(session.id) for part in getattr(each, "content", ())]
        assert not any(isinstance(part, ToolPart) and not isinstance(part.state, ToolError) for part in parts)


async def test_many_tiny_calls_end_the_turn_at_the_limit_of_blocks(holdfast: Machine, provider: Provider) -> None:
    """LLM-393, SES-220: those before the limit ran and are settled; the others do not exist."""

    def call(index: int) -> bytes:
        given = {"name": "read", "arguments": json.dumps({"path": "hello.txt"})}
        return frame({"tool_calls": [{"index": index, "id": f"c{index}", "function": given}]})

    calls = b"".join(call(index) for index in range(20_000))
    configure(holdfast, provider, blocks=20)
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        flood = provider.behave = Flood(calls, piece=b": more\n\n" * 1000)
        answer = await asked(hf, session.id, "go")
        assert flood.cut_off.wait(5)
        assert answer.error is not None
        assert "may not exceed 20 (holdfast.answer.blocks)" in answer.error.message
        assert len(answer.content) == 20
        await goes_on(hf, session.id, provider)


async def test_a_compressed_body_is_not_decompressed_without_end(holdfast: Machine, provider: Provider) -> None:
    """LLM-396"""
    bomb = gzip.compress(frame({"content": "kept"}) + b": " + bytes(32 * MIB))
    configure(holdfast, provider)
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        provider.behave = Flood(bomb, piece=b"", most=len(bomb), encoding="gzip")
        answer = await asked(hf, session.id, "go")
        assert answer.error is not None
        assert "200 times what was received (holdfast.answer.inflation)" in answer.error.message
        assert [getattr(part, "text", None) for part in answer.content] == ["kept"]
        await goes_on(hf, session.id, provider)


async def test_a_huge_error_is_shown_in_part(holdfast: Machine, provider: Provider) -> None:
    """LLM-338"""
    configure(holdfast, provider)
    async with opened(holdfast) as hf:
        session = await hf.sessions.create()
        flood = provider.behave = Flood(piece=b"no " * 30_000)
        flood.status = 400
        answer = await asked(hf, session.id, "go")
        assert flood.cut_off.wait(5)
        assert flood.sent < 4 * MIB
        assert answer.error is not None
        assert "400" in answer.error.message
        assert len(answer.error.message) < 20_000
        await goes_on(hf, session.id, provider)


async def test_a_wrong_limit_is_reported_and_not_used(holdfast: Machine) -> None:
    """LLM-390, CAT-030: nothing is accepted in silence."""
    holdfast.configure_user(holdfast={"answer": {"part_bytes": 0}})
    assert "holdfast: answer.part_bytes: Expected `int` >= 1; ignored" in holdfast("doctor").err


def test_sigterm_in_the_middle_of_a_flood_ends_the_server(
    holdfast: Machine, provider: Provider, serve: Callable[..., Server]
) -> None:
    """SES-221: within 5 seconds, and what was received is recorded."""
    flood = provider.behave = Flood(piece=frame({"content": "ab"}) * 200, most=1024 * MIB)
    configure(holdfast, provider)
    server = serve("--no-auth")
    with connect_sync(server.url) as client:
        session = client.sessions.create()
        client.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        eventually(lambda: flood.sent > MIB)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(10)
    assert time.monotonic() - began < 5
    _, (_, answer) = holdfast.look(session.id)
    assert isinstance(answer, AssistantMessage)
    assert answer.error is not None
    assert "shut down" in answer.error.message
    assert holdfast.healthy()
