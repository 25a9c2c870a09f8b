"""Requests for terminals that other nodes answer: corners that need nodes with other disks, or that end at a moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.session.nodes import Owner
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint
from holdfast.schema.codec import encode
from holdfast.server.locations import NamedPlace
from holdfast.server.other_nodes import NodeSocketClosed, NodeUnreachable
from holdfast.server.pty_forwarding import PtyForwarding, RelayedConnection
from holdfast.server.types import HttpReply, Message

pytestmark = pytest.mark.anyio

ELSEWHERE = NamedPlace("/nowhere/on this machine", None)
TARGET = "/api/pty?location%5Bdirectory%5D=%2Fnowhere%2Fon%20this%20machine"
NOT_THERE = HttpReply(400, encode({"_tag": "InvalidRequestError", "message": "no directory", "field": "location"}))


def endpoint(operation: str) -> Endpoint:
    return next(each for each in API if each.operation == operation)


def node(name: str) -> Owner:
    return Owner(
        id=f"own_{name}",
        pid=1,
        age=0,
        beat=0,
        locked=1,
        serves=True,
        holds=False,
        name=name,
        address=f"http://{name}:1",
        version="1",
        started=0,
        roots=None,
        room=None,
    )


class Nodes:
    """Nodes that answer as the test says."""

    def __init__(self, **replies: HttpReply) -> None:
        self._replies = replies
        self.asked: list[tuple[str, str, str, bytes | None]] = []

    async def owner(self, id: str) -> Owner | None:
        return None

    async def with_directory(self, directory: str | None, workspace: str | None) -> list[Owner]:
        return [node(name) for name in self._replies]

    async def request(self, node: Owner, method: str, target: str, body: bytes | None, *, seconds: float) -> HttpReply:
        assert node.name is not None
        self.asked.append((node.name, method, target, body))
        reply = self._replies[node.name]
        if reply.status == 0:
            raise NodeUnreachable(node, "it is off")
        return reply

    async def open_socket(self, node: Owner, target: str) -> Any:
        raise AssertionError

    def seal(self, text: str) -> str:
        return ""

    def sealed(self, text: str, code: str) -> bool:
        return False


def listed(*ids: str) -> HttpReply:
    fields = {"title": "t", "command": "c", "args": [], "cwd": "/", "status": "running", "pid": 1}
    body = {"location": {"directory": "/x"}, "data": [{"id": id, **fields} for id in ids]}
    return HttpReply(200, json.dumps(body).encode())


def sender(*messages: Message) -> Any:
    left = list(messages)

    async def receive() -> Message:
        return left.pop(0)

    return receive


async def reply(nodes: Nodes, operation: str, *messages: Message) -> HttpReply | None:
    return await PtyForwarding(nodes).reply(endpoint(operation), {}, ELSEWHERE, {}, sender(*messages))


async def test_a_terminal_starts_on_the_first_node_that_has_the_directory() -> None:
    """STO-213"""
    nodes = Nodes(one=NOT_THERE, two=HttpReply(200, b"made"), three=HttpReply(200, b"no"))
    made = await reply(nodes, "v2.pty.create", {"type": "http.request", "body": b'{"title":"x"}'})
    assert made == HttpReply(200, b"made")
    assert nodes.asked == [("one", "POST", TARGET, b'{"title":"x"}'), ("two", "POST", TARGET, b'{"title":"x"}')]


async def test_another_refusal_is_not_tried_elsewhere() -> None:
    """STO-213: nor is a list of refusals longer than the nodes."""
    refused = HttpReply(400, encode({"_tag": "InvalidRequestError", "message": "no such program"}))
    for replies in ({"one": refused, "two": NOT_THERE}, {"one": NOT_THERE, "two": refused}):
        body = {"type": "http.request", "body": b""}
        assert await reply(Nodes(**replies), "v2.pty.create", body) == refused
    assert await reply(Nodes(), "v2.pty.create") is None


async def test_a_list_has_what_the_nodes_with_the_directory_have() -> None:
    """STO-210, STO-213: one that is off, says nonsense or lacks the directory is left out."""
    nodes = Nodes(
        off=HttpReply(0, b""), one=listed("pty_1"), lacks=NOT_THERE, two=listed("pty_2"), odd=HttpReply(200, b"{")
    )
    merged = await reply(nodes, "v2.pty.list")
    assert merged is not None
    assert [each["id"] for each in json.loads(merged.body)["data"]] == ["pty_1", "pty_2"]
    assert json.loads(merged.body)["location"] == {"directory": "/x"}
    assert await reply(Nodes(off=HttpReply(0, b"")), "v2.pty.list") is None


class Socket:
    """A node's side of a connection."""

    def __init__(self, *messages: str | bytes, end: tuple[int, str] | None = None) -> None:
        self._messages = list(messages)
        self._end = end
        self.written: list[str] = []
        self.closed = 0

    async def receive(self) -> str | bytes:
        if self._messages:
            return self._messages.pop(0)
        if self._end is None:
            await asyncio.get_running_loop().create_future()
        assert self._end is not None
        raise NodeSocketClosed(*self._end)

    async def send(self, text: str) -> None:
        self.written.append(text)

    async def close(self) -> None:
        self.closed += 1


async def relayed(socket: Socket, *messages: Message, finish: int | None = None) -> list[Message]:
    sent: list[Message] = []
    left: Sequence[Message] = list(messages)

    async def receive() -> Message:
        if left:
            return left.pop(0)  # type: ignore[attr-defined, no-any-return]
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def send(message: Message) -> None:
        sent.append(message)

    connection = RelayedConnection(socket, receive, send)
    if finish is not None:
        connection.finish(finish)
    await connection.run()
    assert socket.closed == 1
    return sent


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ((1000, ""), (1000, "")),
        ((4404, "session exited"), (4404, "session exited")),
        ((1006, ""), (1014, "the server with this terminal cannot be reached")),
    ],
)
async def test_the_client_is_told_how_the_node_ended(end: tuple[int, str], told: tuple[int, str]) -> None:
    """STO-212: after everything that it sent."""
    sent = await relayed(Socket("text", b"\0{}", end=end))
    assert sent == [
        {"type": "websocket.accept"},
        {"type": "websocket.send", "text": "text"},
        {"type": "websocket.send", "bytes": b"\0{}"},
        {"type": "websocket.close", "code": told[0], "reason": told[1]},
    ]


async def test_the_node_is_left_when_the_client_disconnects() -> None:
    """STO-212: what the client sent before has arrived; bytes that are no text are ignored."""
    socket = Socket()
    sent = await relayed(
        socket,
        {"type": "websocket.receive", "text": "a"},
        {"type": "websocket.receive", "bytes": b"\xff"},
        {"type": "websocket.receive", "bytes": "é".encode()},
        {"type": "websocket.disconnect"},
    )
    assert sent == [{"type": "websocket.accept"}]
    assert socket.written == ["a", "é"]


async def test_a_server_that_stops_closes_both_sides() -> None:
    """STO-212"""
    sent = await relayed(Socket(), finish=1001)
    assert sent[-1] == {"type": "websocket.close", "code": 1001, "reason": ""}


async def test_nothing_is_read_from_the_node_while_the_client_does_not_take_it() -> None:
    """STO-212: one message at a time."""
    socket, taken = Socket(*("x" for _ in range(100))), asyncio.Event()
    sent: list[Message] = []

    async def receive() -> Message:
        await taken.wait()
        return {"type": "websocket.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "websocket.send":
            await asyncio.get_running_loop().create_future()

    running = asyncio.create_task(RelayedConnection(socket, receive, send).run())
    while len(sent) < 2:  # noqa: ASYNC110 - only looking tells
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(socket._messages) == 99
    taken.set()
    await running
    assert socket.closed == 1
