"""What the server needs of the other nodes on its database: to find them, and to send them requests that are signed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.schema.exceptions import ServiceUnavailable

if TYPE_CHECKING:
    from holdfast.core.session.nodes import Owner
    from holdfast.server.types import HttpReply


class NodeUnreachable(ServiceUnavailable):
    """Another node has what was asked for, and cannot be asked."""

    def __init__(self, node: Owner, reason: str) -> None:
        super().__init__(f"This is kept by {node.described}, which cannot be reached: {reason}", service="node")


class NodeSocketClosed(Exception):
    """The node has closed the WebSocket, or the connection broke (code 1006)."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"closed with {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class NodeSocketRefused(Exception):
    """The node answered the request for a WebSocket with an ordinary response."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(f"the node answered {reply.status}")
        self.reply = reply


class NodeSocket(Protocol):
    async def receive(self) -> str | bytes:
        """The next message. Raises NodeSocketClosed."""

    async def send(self, text: str) -> None:
        """Waits while the node does not read. Raises NodeSocketClosed."""

    async def close(self) -> None: ...


class OtherNodes(Protocol):
    async def owner(self, id: str) -> Owner | None:
        """The node that has a terminal, if it is another one, lives and can be asked."""

    async def with_directory(self, directory: str | None, workspace: str | None) -> list[Owner]:
        """The nodes that may have a directory, with the label that the workspace names, or all; those that announce it
        first."""

    async def request(self, node: Owner, method: str, target: str, body: bytes | None, *, seconds: float) -> HttpReply:
        """Raises NodeUnreachable."""

    async def open_socket(self, node: Owner, target: str) -> NodeSocket:
        """Raises NodeUnreachable, and NodeSocketRefused."""

    def seal(self, text: str) -> str:
        """A code that only nodes of this database can make."""

    def sealed(self, text: str, code: str) -> bool: ...
