"""What both clients need of the network: TLS, TCP keep-alive, the answer of a proxy to CONNECT."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Protocol

from holdfast.http.errors import HEAD_LIMIT, ProxyRefused

# A server that vanished is noticed within two minutes, however long it may be silent otherwise.
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


def tls_context() -> ssl.SSLContext:
    """Certificates of the system. Takes some 20 ms, so a client makes one when it needs it, and keeps it."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _Settable(Protocol):
    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


def enable_keepalive(connected: _Settable | None) -> None:
    if connected is None:
        return
    with suppress(OSError):  # not supported everywhere, and not after a reset
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def check_tunnel(answer: bytes) -> bool:
    """Whether a proxy's answer to CONNECT is complete. Raises ProxyRefused unless its status is 2xx."""
    if b"\r\n\r\n" not in answer and len(answer) <= HEAD_LIMIT:
        return False
    status = answer.split(b" ", 2)[1:2]
    if not status or status[0][:1] != b"2":
        raise ProxyRefused(status[0][:3].decode("latin-1") if status else "no status")
    return True
