"""Finds the server that runs on the same data."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.client.discovery import running_servers
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from holdfast.client.generated.async_client import AsyncClient

GREETING_SECONDS = 2.0


class LocalServer(Frozen):
    url: str
    client: AsyncClient


async def find_server(stack: AsyncExitStack) -> LocalServer | None:
    """A server that answers and accepts our credentials, connected until `stack` closes. Without one, the caller opens
    the runtime in its own process."""
    if not running_servers(os.environ):
        return None
    from holdfast.client.call import Options
    from holdfast.client.connect import connect
    from holdfast.client.errors import ApiError, ClientError
    from holdfast.embedded.registration import server_of

    server = server_of(dict(os.environ))
    if server is None:
        return None
    try:
        client = await stack.enter_async_context(connect(server.url))
        await client.health.get(options=Options(timeout=GREETING_SECONDS))
    except (ApiError, ClientError):
        return None
    return LocalServer(server.url, client)
