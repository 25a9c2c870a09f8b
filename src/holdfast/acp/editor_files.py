"""The files that an editor has open, for the tools of the Sessions that it has open and of their subagents."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.acp.requests import FileText
from holdfast.mcp.errors import McpError, ServerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from holdfast.acp.requests import ClientCapabilities

    Call = Callable[[str, dict[str, Any]], Awaitable[msgspec.Raw]]
    SessionOf = Callable[[str], Awaitable[str | None]]

SECONDS = 15.0
"""How long the editor may take for a file."""

log = logging.getLogger(__name__)


class ConnectionFiles:
    """The `editor` of a host (core/filesystem/editor_files.py). Until a client has said that it offers files, and for
    Sessions that it has not open, there are none."""

    def __init__(self) -> None:
        self._offers: ClientCapabilities | None = None
        self._call: Call | None = None
        self._session_of: SessionOf | None = None

    def use(self, offers: ClientCapabilities, call: Call, session_of: SessionOf) -> None:
        """`call` sends a request to the editor and gives up after `SECONDS`. `session_of` is the Session that the
        editor has open and that one belongs to, if any."""
        self._offers, self._call, self._session_of = offers, call, session_of

    async def read(self, session_id: str, path: Path) -> str | None:
        fs = self._offers.fs if self._offers is not None else None
        if fs is None or not fs.read_text_file:
            return None
        params = await self._params(session_id, path)
        if params is None or self._call is None:
            return None
        try:
            return msgspec.json.decode(await self._call("fs/read_text_file", params), type=FileText).content
        except ServerError:
            return None  # it does not have this file
        except (McpError, ValueError) as error:
            log.warning("the editor did not give %s, so it is read from the disk: %s", path, error)
            return None

    async def write(self, session_id: str, path: Path, text: str) -> bool:
        fs = self._offers.fs if self._offers is not None else None
        if fs is None or not fs.write_text_file:
            return False
        params = await self._params(session_id, path)
        if params is None or self._call is None:
            return False
        try:
            await self._call("fs/write_text_file", {**params, "content": text})
        except ServerError as error:
            raise OSError(f"the editor refused: {error.message[:500]}") from error
        except McpError as error:
            raise OSError(f"the editor did not answer, and may have written it: {error}") from error
        return True

    async def _params(self, session_id: str, path: Path) -> dict[str, Any] | None:
        opened = await self._session_of(session_id) if self._session_of is not None else None
        return None if opened is None else {"sessionId": opened, "path": str(path)}
