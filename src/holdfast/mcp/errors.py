"""Errors of MCP connections. A message names what happened and may be shown to a person; text of a server in it is
shortened and printable.

McpError
├── ServerClosed                 the process ended or the connection was lost: `exit_status`, `last_stderr`
│   └── Unreachable              no connection could be made
├── Timeout                      no answer in time: `method`, `seconds`
├── ProtocolError                the server does not follow the protocol
│   ├── TooLarge                 a message or a count is beyond its limit
│   └── NoCommonVersion          the server speaks no version that is spoken here: `offered`
├── HttpRefused                  an HTTP status without a JSON-RPC error: `status`
│   └── SessionExpired           404: the server does not know the session any more
├── NeedsAuthorization           401, or 403 for want of scope: `challenge`
├── NotOffered                   the server does not offer what was asked for: `feature`
└── ServerError                  the server answered with an error: `code`, `message`, `data`
    └── UrlElicitationRequired   a person has to visit addresses first: `elicitations`"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.mcp.input import Elicitation

SHOWN_CHARACTERS = 300
MESSAGE_CHARACTERS = 4000


class McpError(Exception):
    pass


class ServerClosed(McpError):
    """`exit_status` is negative for a signal. Both facts are None for a server that is not a process."""

    def __init__(self, reason: str, *, exit_status: int | None = None, last_stderr: str | None = None) -> None:
        details = [f"exit status {exit_status}"] if exit_status is not None else []
        if last_stderr:
            details.append(f"its last line on stderr: {shown(last_stderr)}")
        super().__init__(f"{reason} ({'; '.join(details)})" if details else reason)
        self.exit_status = exit_status
        self.last_stderr = last_stderr


class Unreachable(ServerClosed):
    pass


class Timeout(McpError):
    def __init__(self, method: str, seconds: float) -> None:
        super().__init__(f"The MCP server did not answer {method} within {seconds:g} s")
        self.method = method
        self.seconds = seconds


class ProtocolError(McpError):
    pass


class TooLarge(ProtocolError):
    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} is larger than {limit} bytes")
        self.limit = limit


class NoCommonVersion(ProtocolError):
    def __init__(self, offered: Sequence[str]) -> None:
        names = ", ".join(shown(name, 40) for name in offered[:10]) or "none"
        super().__init__(f"The MCP server speaks no protocol version that is spoken here; it offers {names}")
        self.offered = tuple(offered)


class HttpRefused(McpError):
    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(f"The MCP server answered with HTTP {status}{f': {shown(text)}' if text.strip() else ''}")
        self.status = status


class SessionExpired(HttpRefused):
    pass


class Challenge(msgspec.Struct, frozen=True):
    """What a server demands with a 401 or 403. `headers` are those of its answer, with names in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]

    @property
    def www_authenticate(self) -> str:
        return self.headers.get("www-authenticate", "")


class NeedsAuthorization(McpError):
    """`refused` is the token that was not accepted, if there was one. It is a secret."""

    def __init__(self, challenge: Challenge, reason: str = "", refused: str | None = None) -> None:
        super().__init__(f"The MCP server needs authorization: {reason or f'it answered with HTTP {challenge.status}'}")
        self.challenge = challenge
        self.refused = refused


class NotOffered(McpError):
    def __init__(self, feature: str) -> None:
        super().__init__(f"The MCP server does not offer {feature}")
        self.feature = feature


class ServerError(McpError):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"The MCP server answered with error {code}: {shown(message, MESSAGE_CHARACTERS)}")
        self.code = code
        self.message = message
        self.data = data


class UrlElicitationRequired(ServerError):
    def __init__(self, code: int, message: str, data: Any, elicitations: Sequence[Elicitation]) -> None:
        super().__init__(code, message, data)
        self.elicitations = tuple(elicitations)


class RpcError(Exception):
    """Raised by whoever handles a request, to answer it with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def shown(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Text of a server for a message: printable characters on one line, shortened."""
    short = " ".join("".join(c if c.isprintable() else " " for c in text[: limit * 2]).split())
    return short if len(short) <= limit else f"{short[:limit]}…"
