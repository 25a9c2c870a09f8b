"""Opens connections to an origin on asyncio: name resolution, Unix sockets, proxies, TLS."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, TypeVar, cast

from holdfast.http.errors import ProxyRefused
from holdfast.http.network import check_tunnel, enable_keepalive
from holdfast.http.url import Proxy

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from holdfast.http.url import Origin

EYEBALLS_SECONDS = 0.25

P = TypeVar("P", bound=asyncio.Protocol)


async def connect(
    origin: Origin,
    protocol: Callable[[], P],
    context: Callable[[], ssl.SSLContext],
    addresses: Sequence[IPv4Address | IPv6Address] | None = None,
) -> P:
    """Open a connection that leads to the origin, through a tunnel if there is a proxy and the origin is secure.
    `addresses` replace name resolution; no others are connected to. Raises InvalidRequest and OSError."""
    proxy = Proxy.of(origin)
    if proxy is None:
        return await _connect(origin, protocol, context, addresses)
    if not origin.is_secure:
        return await _connect(proxy.origin, protocol, context)
    tunnel = await _connect(proxy.origin, _Tunnel, context)
    try:
        await tunnel.open(proxy.connect_head(origin))
        made = protocol()
        transport = await asyncio.get_running_loop().start_tls(
            tunnel.transport, made, context(), server_hostname=origin.host
        )
        assert transport is not None
        made.connection_made(transport)
    except BaseException:
        tunnel.transport.abort()
        raise
    return made


async def _connect(
    origin: Origin,
    protocol: Callable[[], P],
    context: Callable[[], ssl.SSLContext],
    addresses: Sequence[IPv4Address | IPv6Address] | None = None,
) -> P:
    loop = asyncio.get_running_loop()
    tls = {"ssl": context(), "server_hostname": origin.host} if origin.is_secure else {}
    if origin.socket is not None:
        _, local = await loop.create_unix_connection(protocol, origin.socket, **tls)  # type: ignore[arg-type]
        return local
    # Bytes: the name is ASCII already and must not be encoded again.
    found = (
        await loop.getaddrinfo(origin.host.encode(), origin.port, type=socket.SOCK_STREAM)
        if addresses is None
        else [_address_info(address, origin.port) for address in addresses]
    )
    if len(found) == 1:
        transport, made = await loop.create_connection(protocol, *found[0][4][:2], **tls)  # type: ignore[call-overload]
    else:
        from aiohappyeyeballs import start_connection

        connected = await start_connection(found, happy_eyeballs_delay=EYEBALLS_SECONDS, interleave=1)
        try:
            transport, made = await loop.create_connection(protocol, sock=connected, **tls)  # type: ignore[call-overload]
        except BaseException:
            connected.close()
            raise
    enable_keepalive(transport.get_extra_info("socket"))
    return cast("P", made)


def _address_info(
    address: IPv4Address | IPv6Address, port: int
) -> tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]]:
    if address.version == 4:
        return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port)
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port, 0, 0)


class _Tunnel(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self) -> None:
        self._answer = b""
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, head: bytes) -> None:
        self.transport.write(head)
        await self._opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._opened.done():
            return
        self._answer += data
        try:
            if check_tunnel(self._answer):
                self._opened.set_result(None)
        except ProxyRefused as error:
            self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._opened.done():
            self._fail(ProxyRefused("it closed the connection"))

    def _fail(self, error: ProxyRefused) -> None:
        self._opened.set_exception(error)
        self._opened.exception()  # marked as retrieved: the caller may have been cancelled
