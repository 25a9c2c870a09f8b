"""Opening a connection to an origin: name resolution, proxies of the environment, TLS."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

EYEBALLS_SECONDS = 0.25
ANSWER_LIMIT = 64 * 1024
DEFAULT_PORTS = {"http": 80, "https": 443}
# A provider that vanished without a word is noticed within two minutes, however long it may be silent while it lives.
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}

P = TypeVar("P", bound=asyncio.Protocol)


class Origin(Frozen):
    """Where requests go; connections to equal ones are alike."""

    scheme: str
    host: str
    port: int
    proxy: str | None = None

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def place(self) -> str:
        """Host and port, as a proxy wants them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """The same, without a port that goes without saying."""
        return self.place.removesuffix(f":{DEFAULT_PORTS[self.scheme]}")


class Unsendable(ValueError):
    """Its text says why, and holds nothing of the request."""


class Address(Frozen):
    """A URL, taken apart. What was encoded in it stays as it was: it may be signed."""

    origin: Origin
    target: str
    credentials: str | None


def parse(url: str) -> Address:
    """Raises ValueError for what is no address."""
    parts = urlsplit(url)
    host = _host(parts)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    if not target.isascii() or any(character <= " " for character in target):
        raise Unsendable("the address holds characters that must be encoded")
    origin = Origin(parts.scheme, host, port)
    return Address(origin.replace(proxy=proxy_of(origin)), target, _credentials(parts))


def proxy_of(origin: Origin) -> str | None:
    """As the environment, or the system's settings, have it."""
    named = any(name.lower().endswith("_proxy") for name in os.environ)
    if not named and sys.platform not in ("darwin", "win32"):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(origin.scheme) or proxies.get("all")
    return proxy if proxy and not proxy_bypass(f"{origin.host}:{origin.port}") else None


class Proxy(Frozen):
    """What an origin's proxy needs to be told."""

    address: Address

    @classmethod
    def of(cls, origin: Origin) -> Proxy | None:
        if origin.proxy is None:
            return None
        url = origin.proxy if "://" in origin.proxy else f"http://{origin.proxy}"
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS:
            raise Unsendable(f"a {parts.scheme[:20]} proxy cannot be used, only http and https ones")
        here = Origin(parts.scheme, _host(parts), parts.port or DEFAULT_PORTS[parts.scheme])
        return cls(Address(here, "", _credentials(parts)))

    @property
    def headers(self) -> dict[str, str]:
        return {"proxy-authorization": self.address.credentials} if self.address.credentials else {}


async def dial(origin: Origin, protocol: Callable[[], P], context: Callable[[], ssl.SSLContext]) -> P:
    """A connection that leads to the origin, through a tunnel where a proxy lies between."""
    proxy = Proxy.of(origin)
    if proxy is None:
        return await _connect(origin, protocol, context)
    if not origin.is_secure:
        return await _connect(proxy.address.origin, protocol, context)
    tunnel = await _connect(proxy.address.origin, _Tunnel, context)
    try:
        await tunnel.ask(origin.place, proxy.headers)
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


async def _connect(origin: Origin, protocol: Callable[[], P], context: Callable[[], ssl.SSLContext]) -> P:
    loop = asyncio.get_running_loop()
    tls = {"ssl": context(), "server_hostname": origin.host} if origin.is_secure else {}
    # As bytes: it is ASCII, and need not be encoded as a name in some language.
    addresses = await loop.getaddrinfo(origin.host.encode(), origin.port, type=socket.SOCK_STREAM)
    if len(addresses) == 1:
        transport, made = await loop.create_connection(protocol, *addresses[0][4][:2], **tls)  # type: ignore[call-overload]
    else:
        from aiohappyeyeballs import start_connection

        found = await start_connection(addresses, happy_eyeballs_delay=EYEBALLS_SECONDS, interleave=1)
        try:
            transport, made = await loop.create_connection(protocol, sock=found, **tls)  # type: ignore[call-overload]
        except BaseException:
            found.close()
            raise
    _keep_alive(transport)
    return cast("P", made)


class _Settable(Protocol):
    def setsockopt(self, level: int, option: int, value: int) -> None: ...


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    connected: _Settable | None = transport.get_extra_info("socket")
    if connected is None:
        return
    with suppress(OSError):  # not everywhere, and not after a reset
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Tunnel(asyncio.Protocol):
    """Asks a proxy to connect us through, and hears its answer."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._answer = b""
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(self, authority: str, headers: dict[str, str]) -> None:
        lines = (f"CONNECT {authority} HTTP/1.1", f"host: {authority}", *(f"{k}: {v}" for k, v in headers.items()))
        self.transport.write("\r\n".join((*lines, "", "")).encode())
        await self._opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if b"\r\n\r\n" in self._answer or len(self._answer) > ANSWER_LIMIT:
            status = self._answer.split(b" ", 2)[1:2]
            opened = bool(status) and status[0][:1] == b"2"
            self._settle(None if opened else _Refused(status[0][:3].decode("latin-1") if status else "no status"))

    def connection_lost(self, error: Exception | None) -> None:
        self._settle(_Refused("it closed the connection"))

    def _settle(self, error: ConnectionError | None) -> None:
        if self._opened.done():
            return
        if error is None:
            self._opened.set_result(None)
        else:
            self._opened.set_exception(error)
            self._opened.exception()  # seen: whoever asked may be gone


class _Refused(ConnectionError):
    def __init__(self, why: str) -> None:
        super().__init__(f"the proxy did not connect us ({why})")


def _host(parts: SplitResult) -> str:
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise Unsendable("the address has no host")
    host = parts.hostname
    return host if host.isascii() else host.encode("idna").decode()


def _credentials(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
