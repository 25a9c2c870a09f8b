"""Reads a resource of an MCP server as the bytes of an attachment. What the server sends is not trusted: the bytes
decide what it is, and the limits of files hold."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING

from holdfast.core.filesystem.content import MEDIA_BYTES, PLAIN, TYPE_CHARACTERS, UNKNOWN, Unusable
from holdfast.core.mcp.errors import ServerUnavailable
from holdfast.core.mcp.stranger_text import one_line
from holdfast.core.session.attachment_source import Source
from holdfast.mcp.errors import McpError
from holdfast.schema.exceptions import McpServerNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.mcp.resource_address import ResourceAddress
    from holdfast.core.mcp.seam import Servers
    from holdfast.mcp.content import ResourceContents

SECONDS = 60.0
"""How long a prompt waits for one resource, the start of its server included."""
MOST_PARTS = 1000
SHOWN = 200


async def read_resource(servers: Servers, address: ResourceAddress) -> Source:
    """Starts the server if needed. Nobody is asked anything for it. Raises Unusable."""
    try:
        async with asyncio.timeout(SECONDS):
            result = await servers.read_resource(address.server, address.uri, None)
    except TimeoutError:
        raise Unusable(f"the MCP server {address.server} did not send it within {SECONDS:g} s") from None
    except (ServerUnavailable, McpServerNotFound) as error:
        raise Unusable(str(error)) from error
    except McpError as error:
        raise Unusable(f"{address.server}: {error}") from error
    return _source(result.contents)


def _source(contents: Sequence[ResourceContents]) -> Source:
    if not contents:
        raise Unusable("it is empty")
    if len(contents) == 1:
        [only] = contents
        claimed = (only.mime_type or "").partition(";")[0].strip().lower()[:TYPE_CHARACTERS]
        return Source(_data(only), claimed or (PLAIN if only.text is not None else UNKNOWN))
    parts = [f"--- {one_line(part.uri, SHOWN)}\n{_text(part)}" for part in contents[:MOST_PARTS]]
    if len(contents) > MOST_PARTS:
        parts.append(f"[{len(contents) - MOST_PARTS} more are not shown]")
    return Source("\n".join(parts).encode("utf-8", "replace"), PLAIN)


def _text(part: ResourceContents) -> str:
    if part.text is not None:
        return part.text
    kind = one_line(part.mime_type or UNKNOWN, TYPE_CHARACTERS)
    return f"[{kind}, {len(part.blob or '') * 3 // 4} bytes, not shown]"


def _data(part: ResourceContents) -> bytes:
    if part.text is not None:
        return part.text.encode("utf-8", "replace")
    blob = part.blob or ""
    if len(blob) * 3 // 4 > MEDIA_BYTES:
        raise Unusable(f"it has more than {MEDIA_BYTES} bytes")
    try:
        return base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        raise Unusable("its base64 is broken") from None
