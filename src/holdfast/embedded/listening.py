"""The address that a server listens on, and the names under which it is reached."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

from holdfast.core.config.server_names import host_name
from holdfast.schema.exceptions import HoldfastError
from holdfast.server.auth import LOOPBACK_HOSTS, Hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

BACKLOG = 256
"""Connections that the system accepts before the server does."""
DEFAULT_PORT = 4096
PORTS_TRIED = 100
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that are not addresses to connect to, with the one that local clients use instead."""


def listen(hostname: str, port: int | None) -> socket.socket:
    """Listen on the given port, or on the first free one from the default upwards."""
    if port is not None:
        return _bind(hostname, port)
    for candidate in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED - 1):
        try:
            return _bind(hostname, candidate)
        except AddressUnavailable as error:
            if not error.taken:
                raise
    return _bind(hostname, DEFAULT_PORT + PORTS_TRIED - 1)


def _bind(hostname: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in hostname else socket.AF_INET
    # With its protocol: asyncio turns Nagle's algorithm off for TCP only, and a response would take 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((hostname, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        raise AddressUnavailable(hostname, port, reason, taken=taken) from error
    return listener


class AddressUnavailable(HoldfastError):
    """The address cannot be listened on."""

    def __init__(self, hostname: str, port: int, reason: str, *, taken: bool) -> None:
        super().__init__(f"cannot listen on {hostname}:{port}: {reason}")
        self.taken = taken


def reached_address(host: str, port: int) -> str:
    """Where other machines reach a server that listens on this address, as far as that is known."""
    return url_of(socket.gethostname() if host in WILDCARDS else host, port)


def url_of(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def accepted_hosts(hostname: str, further: Sequence[str]) -> Hosts:
    """The accepted host names. On a wildcard address any IP address and the machine's own name are accepted: a DNS
    rebinding attack needs a name that the attacker controls. Other names have to be declared."""
    names = LOOPBACK_HOSTS | set(map(host_name, further))
    if not hostname or hostname in WILDCARDS:
        return Hosts(names | {socket.gethostname().lower()}, addresses=True)
    return Hosts(names | {host_name(hostname)})


def is_loopback(hostname: str) -> bool:
    """Whether only this machine can reach a server on that address."""
    if hostname.lower() == "localhost":
        return True
    try:
        return ip_address(hostname).is_loopback
    except ValueError:
        return False
