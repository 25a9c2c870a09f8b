"""Requests for terminals of other nodes: they are passed on to the node that has the terminal, so that a client behind
a load balancer need not know which one that is.

Invariants
- The caller is authorized here, before anything is looked up; the other node trusts the signature. Nothing of the
  caller's head is passed on but the Location and the cursor, and the ticket, which the node that issued it consumes.
- A request that another node signed is never passed on again.
- Between the two sockets of a connection nothing is buffered: a message is read when the one before was taken.
  Whichever side ends, the other is closed with the same code."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from holdfast.schema.codec import decoder, encode
from holdfast.schema.pty import Pty
from holdfast.schema.record import Record
from holdfast.server.decoding import json_body
from holdfast.server.other_nodes import NodeSocketClosed, NodeUnreachable
from holdfast.server.types import HttpReply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.session.nodes import Owner
    from holdfast.protocol.endpoint import Endpoint
    from holdfast.schema.location import Location
    from holdfast.server.locations import NamedPlace
    from holdfast.server.other_nodes import NodeSocket, OtherNodes
    from holdfast.server.types import Receive, Send

REQUEST_SECONDS = 30.0
LIST_SECONDS = 2.0
CLOSE_SECONDS = 2.0
NODES = 16
"""Nodes that are asked for one list at most."""
BODY_BYTES = 1024 * 1024
GONE = (1014, "the server with this terminal cannot be reached")
UNSENDABLE = (1005, 1006, 1015)
"""Codes that say that there was no close message."""

log = logging.getLogger(__name__)


class _Listed(Record):
    location: msgspec.Raw
    data: list[Pty]


class _RefusedField(Record):
    field: str | None = None


class PtyForwarding:
    def __init__(self, nodes: OtherNodes, has_other_files: Callable[[Location], bool] = lambda location: False) -> None:
        """`has_other_files` tells whether the path of a Location has something else here, by its label."""
        self._nodes = nodes
        self._has_other_files = has_other_files

    async def owner(self, pty_id: str) -> Owner | None:
        """The other node that has a terminal."""
        return await self._nodes.owner(pty_id)

    async def reply(
        self,
        endpoint: Endpoint,
        params: Mapping[str, str],
        place: NamedPlace,
        headers: Mapping[str, str],
        receive: Receive,
    ) -> HttpReply | None:
        """The answer of the node that has what is asked for; None if this process is to answer."""
        pty_id = params.get("ptyID")
        if pty_id is not None:
            node = await self._nodes.owner(pty_id)
            if node is None or endpoint.socket:
                return None
            target = place.target(endpoint.path.replace("{ptyID}", quote(pty_id, safe="")))
            return await self._ask(node, endpoint, target, await self._body(endpoint, headers, receive))
        if place.is_here(self._has_other_files) or not (nodes := await self._with(place)):
            return None
        if endpoint.method == "GET":
            return _merged([each for each in await self._lists(nodes, place) if each is not None])
        body = await self._body(endpoint, headers, receive)
        for number, node in enumerate(nodes, 1):
            reply = await self._ask(node, endpoint, place.target(endpoint.path), body)
            if number == len(nodes) or not _lacks_directory(reply):
                return reply
        return None

    async def listed(self, place: NamedPlace) -> list[Pty]:
        """The terminals of a Location on other nodes. A node that does not answer in time is left out."""
        lists = await self._lists(await self._with(place), place)
        return [pty for each in lists if each is not None for pty in each.data]

    def connect_target(self, pty_id: str, place: NamedPlace, cursor: int | None, ticket: str) -> str:
        path = f"/api/pty/{quote(pty_id, safe='')}/connect"
        return place.target(path, {"cursor": "" if cursor is None else str(cursor), "ticket": ticket})

    async def connect(self, node: Owner, target: str, receive: Receive, send: Send) -> RelayedConnection:
        """Raises NodeUnreachable and NodeSocketRefused."""
        return RelayedConnection(await self._nodes.open_socket(node, target), receive, send)

    def seal(self, pty_id: str, ticket: str) -> str:
        """What shows every node that one of them issued the ticket."""
        return self._nodes.seal(f"{pty_id} {ticket}")

    def issued(self, pty_id: str, ticket: str) -> bool:
        """Whether a node issued the ticket for this terminal. It may be consumed, or have expired."""
        issued, _, code = ticket.rpartition(".")
        return issued != "" and self._nodes.sealed(f"{pty_id} {issued}", code)

    async def _with(self, place: NamedPlace) -> list[Owner]:
        return (await self._nodes.with_directory(place.directory, place.workspace))[:NODES]

    async def _ask(self, node: Owner, endpoint: Endpoint, target: str, body: bytes | None) -> HttpReply:
        return await self._nodes.request(node, endpoint.method, target, body, seconds=REQUEST_SECONDS)

    async def _lists(self, nodes: Sequence[Owner], place: NamedPlace) -> list[_Listed | None]:
        target = place.target("/api/pty")
        return await asyncio.gather(*(self._list(node, target) for node in nodes))

    async def _list(self, node: Owner, target: str) -> _Listed | None:
        try:
            reply = await self._nodes.request(node, "GET", target, None, seconds=LIST_SECONDS)
            if reply.status == 200:
                listed: _Listed = decoder(_Listed).decode(reply.body)
                return listed
        except (NodeUnreachable, msgspec.DecodeError) as error:
            log.warning("the terminals of %s are not listed: %s", node.described, error)
        return None

    async def _body(self, endpoint: Endpoint, headers: Mapping[str, str], receive: Receive) -> bytes | None:
        if endpoint.payload is None:
            return None
        return bytes(await json_body(headers, receive, limit=BODY_BYTES, seconds=REQUEST_SECONDS)) or b"{}"


class RelayedConnection:
    """A WebSocket of a client, joined with one to the node that has its terminal."""

    def __init__(self, node: NodeSocket, receive: Receive, send: Send) -> None:
        self._node = node
        self._receive = receive
        self._send = send
        self._finished = asyncio.Event()
        self._code = 1001

    def finish(self, code: int) -> None:
        """Close both sides."""
        self._code = code
        self._finished.set()

    async def run(self) -> None:
        try:
            await self._send({"type": "websocket.accept"})
            await self._join()
        except OSError:
            return  # the client disconnected
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._node.close()

    async def _join(self) -> None:
        output, typed = asyncio.ensure_future(self._output()), asyncio.ensure_future(self._input())
        ending = asyncio.ensure_future(self._finished.wait())
        tasks = (output, typed, ending)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not output.cancelled():
            code, reason = output.result()
            await self._close(code, reason)
        elif typed.cancelled():
            await self._close(self._code, "")
        elif (closed := typed.result()) is not None:
            await self._close(*closed)

    async def _output(self) -> tuple[int, str]:
        """Pass output on until the node closes; returns why it did."""
        try:
            while True:
                message = await self._node.receive()
                kind = "text" if isinstance(message, str) else "bytes"
                await self._send({"type": "websocket.send", kind: message})
        except NodeSocketClosed as closed:
            return GONE if closed.code in UNSENDABLE else (closed.code, closed.reason)

    async def _input(self) -> tuple[int, str] | None:
        """Pass input on until the client disconnects (None) or the node closes; returns why it did."""
        try:
            while (message := await self._receive())["type"] == "websocket.receive":
                text = message.get("text")
                if text is None:
                    try:
                        text = message["bytes"].decode()
                    except UnicodeDecodeError:
                        continue
                await self._node.send(text)
        except NodeSocketClosed as closed:
            return GONE if closed.code in UNSENDABLE else (closed.code, closed.reason)
        return None

    async def _close(self, code: int, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason})


def _merged(lists: Sequence[_Listed]) -> HttpReply | None:
    if not lists:
        return None
    found = [pty for each in lists for pty in each.data]
    return HttpReply(200, encode({"location": lists[0].location, "data": found}))


def _lacks_directory(reply: HttpReply) -> bool:
    if reply.status != 400:
        return False
    try:
        refused: _RefusedField = decoder(_RefusedField).decode(reply.body)
    except msgspec.DecodeError:
        return False
    return refused.field == "location"
