"""Connects to a running server, with the address and credential known on this machine.

A server of this user on this machine is reached over its Unix socket, even if its URL was given. The password that it
generated is sent only there, never to a port, because another process may have taken the port."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.client.credential import given_password, kept_password, username
from holdfast.client.discovery import running_servers
from holdfast.client.errors import ClientError
from holdfast.client.local_socket import UntrustedSocket, verify_socket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.client.discovery import RunningServer
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.client.generated.sync_client import Client
    from holdfast.client.http import HttpTransport, Target

LOOPBACK = ("localhost", "127.0.0.1", "::1")
NO_SERVER = "no server runs on this machine; start one with `holdfast serve`, or give its address"


def connect(
    url: str | None = None,
    *,
    password: str | None = None,
    headers: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncClient:
    """Use as `async with connect() as client`. Without a URL it connects to the newest server on this machine."""
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.client.http import HttpTransport

    target, locate = _locate(url, password, environment)
    transport = HttpTransport(target.url, auth=target.auth, socket=target.socket, locate=locate)
    return AsyncClient(transport, headers=headers)


def transport_to(url: str, environment: Mapping[str, str]) -> HttpTransport:
    """A transport to a server on this machine, with the stored credential. After a restart it finds the new socket."""
    from holdfast.client.http import HttpTransport

    found, locate = _locate(url, None, environment)
    return HttpTransport(found.url, auth=found.auth, socket=found.socket, locate=locate)


def connect_sync(
    url: str | None = None,
    *,
    password: str | None = None,
    headers: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Client:
    """Use as `with connect_sync() as client`. Without a URL it connects to the newest server on this machine."""
    from holdfast.client.generated.sync_client import Client
    from holdfast.client.http import SyncHttpTransport

    target, locate = _locate(url, password, environment)
    transport = SyncHttpTransport(target.url, auth=target.auth, socket=target.socket, locate=locate)
    return Client(transport, headers=headers)


def _locate(
    url: str | None, password: str | None, environment: Mapping[str, str] | None
) -> tuple[Target, Callable[[], Target] | None]:
    """The server, and how to find its socket again after a restart."""
    known = os.environ if environment is None else environment
    target = _resolve(url, password, known)
    return target, partial(_resolve, target.url, password, known) if target.socket is not None else None


def _resolve(url: str | None, password: str | None, environment: Mapping[str, str]) -> Target:
    from holdfast.client.http import Target

    running = running_servers(environment)
    if url is None and not running:
        raise ClientError("Transport", NO_SERVER)
    server = running[0] if url is None else next((one for one in running if _same_server(one, url)), None)
    secret = password or given_password(environment)
    if server is None:
        assert url is not None
        return Target(url, (username(environment), secret) if secret else None, None)
    try:
        verify_socket(server.socket)
    except UntrustedSocket as error:
        raise ClientError("Transport", f"the server at {server.url} cannot be reached: {error}") from error
    secret = secret or kept_password(environment)
    return Target(url or server.url, (username(environment), secret) if secret else None, server.socket)


def _same_server(server: RunningServer, url: str) -> bool:
    """Compares the URL; all loopback names are the same host."""
    if server.url == url.rstrip("/"):
        return True
    try:
        theirs, asked = urlsplit(server.url), urlsplit(url)
        return (
            (asked.scheme, asked.port) == (theirs.scheme, theirs.port)
            and theirs.hostname in LOOPBACK
            and asked.hostname in LOOPBACK
            and asked.path in ("", "/")
        )
    except ValueError:
        return False
