"""Receives the authorization response of a browser on 127.0.0.1.

Invariants
- Only a GET of the callback's path, addressed to its own host, reaches the sign-in: any page that a browser shows can
  send requests to this port.
- What a connection may send and how long it may take are bounded, and so is the number of connections.
- No text of a request is part of an answer."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from holdfast.mcp.oauth.errors import AccessDenied, CallbackRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

HOST = "127.0.0.1"
HEAD_BYTES = 32 * 1024
SECONDS = 10.0
MOST_CONNECTIONS = 16
MOST_PARAMETERS = 50

RECEIVED = "The sign-in was received. You can close this window and go back to Holdfast."
REFUSED = "The sign-in was refused. Go back to Holdfast for the reason."
FOREIGN = "This address does not belong to a sign-in that Holdfast waits for."


class CallbackListener:
    """`receive` gets the parameters of a response. It raises CallbackRefused for one that is not its own, and
    AccessDenied for one that ends the sign-in."""

    def __init__(self, listening: socket.socket, paths: Collection[str], hosts: Collection[str]) -> None:
        self.port: int = listening.getsockname()[1]
        self._socket = listening
        self._paths = paths
        self._hosts = {*hosts, f"{HOST}:{self.port}", f"localhost:{self.port}"}
        self._receive: Callable[[Mapping[str, str]], None] | None = None
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, receive: Callable[[Mapping[str, str]], None]) -> None:
        self._receive = receive
        self._server = await asyncio.start_server(self._answer, sock=self._socket, limit=HEAD_BYTES)

    async def close(self) -> None:
        self._receive = None
        if self._server is None:
            self._socket.close()
            return
        self._server.close()
        for writer in self._open:
            writer.close()  # what was written is still sent

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if len(self._open) <= MOST_CONNECTIONS:
                async with asyncio.timeout(SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    status, text = self._answer_to(head.decode("latin-1"))
                    writer.write(_page(status, text))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the browser sends another request if it still wants an answer
        finally:
            self._open.discard(writer)
            writer.close()

    def _answer_to(self, head: str) -> tuple[str, str]:
        request, *lines = head.split("\r\n")
        method, _, rest = request.partition(" ")
        target = rest.partition(" ")[0]
        host = next((line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")), "")
        path, _, query = target.partition("?")
        if method != "GET" or path not in self._paths or host.lower() not in self._hosts or self._receive is None:
            return "404 Not Found", FOREIGN
        try:
            self._receive(read_parameters(query))
        except CallbackRefused:
            return "400 Bad Request", FOREIGN
        except AccessDenied:
            return "200 OK", REFUSED
        return "200 OK", RECEIVED


def open_socket(port: int) -> socket.socket | None:
    """A listening socket on this machine only; None if the port is taken. Port 0 is any free one."""
    # asyncio sends an answer without a pause only if the protocol is given.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((HOST, port))
        made.listen(MOST_CONNECTIONS)
        made.setblocking(False)
    except OSError:
        made.close()
        return None
    return made


def read_parameters(query: str) -> dict[str, str]:
    """Raises CallbackRefused if a parameter is repeated: which one counts would be a guess."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS, errors="strict")
    except ValueError:
        raise CallbackRefused("The authorization response cannot be read") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CallbackRefused("The authorization response repeats a parameter")
    return found


def pasted_parameters(text: str) -> dict[str, str] | None:
    """The parameters of a redirect address that a person pasted; None if the text is a bare code."""
    if "code=" not in text and "error=" not in text:
        return None
    try:
        query = urlsplit(text).query if "?" in text else text
    except ValueError:
        raise CallbackRefused("The pasted address cannot be read") from None
    return read_parameters(query)


def _page(status: str, text: str) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>Holdfast</title><p>{text}</p>\n".encode()
    head = (
        f"HTTP/1.1 {status}",
        "content-type: text/html; charset=utf-8",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "content-security-policy: default-src 'none'; frame-ancestors 'none'",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "connection: close",
        "",
        "",
    )
    return "\r\n".join(head).encode() + body
