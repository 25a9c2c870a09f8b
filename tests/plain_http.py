"""What test clients and servers of plain HTTP share."""

from __future__ import annotations

import socket
import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate. A client that makes its own context reads all certificates of the machine: 25 ms."""


def loopback_listener() -> socket.socket:
    """On a free port. asyncio sends a response's head and body without a pause of 40 ms in between only if the protocol
    of the listener is given."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener
