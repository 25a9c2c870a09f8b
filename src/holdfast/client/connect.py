"""A client of a server elsewhere, with the address and the credential that this machine already knows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.client.credential import given_password, kept_password, username
from holdfast.client.discovery import running_servers
from holdfast.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.client.generated.sync_client import Client

LOOPBACK = ("localhost", "127.0.0.1", "::1")
NO_SERVER = "no server runs on this machine; start one with `holdfast serve`, or give its address"


def connect(
    url: str | None = None,
    *,
    password: str | None = None,
    headers: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncClient:
    """Use as `async with connect() as client`. Without an address, the newest server of this machine."""
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.client.http import HttpTransport

    url, auth = _resolve(url, password, os.environ if environment is None else environment)
    return AsyncClient(HttpTransport(url, auth=auth), headers=headers)


def connect_sync(
    url: str | None = None,
    *,
    password: str | None = None,
    headers: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Client:
    """Use as `with connect_sync() as client`. Without an address, the newest server of this machine."""
    from holdfast.client.generated.sync_client import Client
    from holdfast.client.http import SyncHttpTransport

    url, auth = _resolve(url, password, os.environ if environment is None else environment)
    return Client(SyncHttpTransport(url, auth=auth), headers=headers)


def _resolve(
    url: str | None, password: str | None, environment: Mapping[str, str]
) -> tuple[str, tuple[str, str] | None]:
    if url is None:
        running = running_servers(environment)
        if not running:
            raise ClientError("Transport", NO_SERVER)
        url = running[0].url
    secret = password or given_password(environment)
    if secret is None and (_local(url) or any(server.url == url for server in running_servers(environment))):
        # What this machine's server made for itself is not shown to others.
        secret = kept_password(environment)
    return url, (username(environment), secret) if secret else None


def _local(url: str) -> bool:
    try:
        return urlsplit(url).hostname in LOOPBACK
    except ValueError:
        return False
