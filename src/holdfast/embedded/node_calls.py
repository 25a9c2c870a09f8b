"""Requests to the other nodes of the database, signed with the secrets of `core/session/node_secrets.py`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.client.errors import ClientError
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request, SocketClosed, SocketRefused
from holdfast.server.handlers.events import SIGNATURE
from holdfast.server.other_nodes import NodeSocketClosed, NodeSocketRefused, NodeUnreachable
from holdfast.server.types import HttpReply

if TYPE_CHECKING:
    from holdfast.client.http import HttpResponse
    from holdfast.client.websocket import NetworkSocket
    from holdfast.core.session.node_secrets import NodeSecrets
    from holdfast.core.session.nodes import Nodes, Owner

REPLY_LIMIT = 8 * 1024 * 1024
OPEN_SECONDS = 10.0
NOT_ACCEPTED = "it does not accept the signature of this server; do both have the same secret?"


class NodeCalls:
    def __init__(self, nodes: Nodes, secrets: NodeSecrets) -> None:
        self._nodes = nodes
        self._secrets = secrets

    async def owner(self, id: str) -> Owner | None:
        node = await self._nodes.of_tag(id)
        return node if node is not None and node.address else None

    async def with_directory(self, directory: str | None, workspace: str | None) -> list[Owner]:
        found = [node for node in await self._nodes.others() if node.address]
        if directory is None:
            return found
        having = [node for node in found if node.may_have(directory, workspace)]
        return sorted(having, key=lambda node: node.roots is None)

    async def request(self, node: Owner, method: str, target: str, body: bytes | None, *, seconds: float) -> HttpReply:
        transport = self._transport(node)
        headers = await self._headers(node, method, target)
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            async with asyncio.timeout(seconds):
                response = await transport.send(Request(method, target, headers, body, timeout=seconds))
                reply = HttpReply(response.status, await _bounded(response), response.content_type)
        except (ClientError, TimeoutError) as error:
            raise NodeUnreachable(node, str(error) or f"no answer within {seconds:g} s") from None
        finally:
            await transport.close()
        if reply.status == 401:
            raise NodeUnreachable(node, NOT_ACCEPTED)
        return reply

    async def open_socket(self, node: Owner, target: str) -> _Socket:
        transport = self._transport(node)
        request = Request("GET", target, await self._headers(node, "GET", target), timeout=OPEN_SECONDS)
        try:
            return _Socket(await transport.open_socket(request))
        except SocketRefused as refused:
            if refused.status == 401:
                raise NodeUnreachable(node, NOT_ACCEPTED) from None
            raise NodeSocketRefused(HttpReply(refused.status, refused.body, refused.content_type)) from None
        except ClientError as error:
            raise NodeUnreachable(node, str(error)) from None
        finally:
            await transport.close()

    def seal(self, text: str) -> str:
        return self._secrets.seal(text)

    def sealed(self, text: str, code: str) -> bool:
        return self._secrets.sealed(text, code)

    def _transport(self, node: Owner) -> HttpTransport:
        assert node.address is not None
        return HttpTransport(node.address)

    async def _headers(self, node: Owner, method: str, target: str) -> dict[str, str]:
        await self._secrets.refresh()
        return {SIGNATURE: self._secrets.sign(node.id, method, target)}


class _Socket:
    def __init__(self, socket: NetworkSocket) -> None:
        self._socket = socket

    async def receive(self) -> str | bytes:
        try:
            return await self._socket.receive()
        except SocketClosed as closed:
            raise NodeSocketClosed(closed.code, closed.reason) from None

    async def send(self, text: str) -> None:
        try:
            await self._socket.send(text)
        except SocketClosed as closed:
            raise NodeSocketClosed(closed.code, closed.reason) from None

    async def close(self) -> None:
        await self._socket.close()


async def _bounded(response: HttpResponse) -> bytes:
    body = bytearray()
    async with aclosing(response.chunks()) as pieces:  # type: ignore[type-var]
        async for piece in pieces:
            body += piece
            if len(body) > REPLY_LIMIT:
                raise ClientError("Transport", f"the answer is larger than {REPLY_LIMIT} bytes")
    return bytes(body)
