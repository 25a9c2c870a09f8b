"""A client of a running server, with the credential that this machine already has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.http import HttpTransport

if TYPE_CHECKING:
    from contextlib import AsyncExitStack


async def connect(url: str, stack: AsyncExitStack) -> AsyncClient:
    from holdfast.embedded.credential import known_password

    password = known_password(dict(os.environ))
    auth = (os.environ.get("OPENCODE_SERVER_USERNAME", "opencode"), password) if password else None
    transport = HttpTransport(url, auth=auth)
    stack.push_async_callback(transport.close)
    return AsyncClient(transport)
