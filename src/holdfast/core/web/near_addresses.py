"""Which hosts an address that a user configured may lead to: those that are as near as the address itself, or farther.

One on the public internet leads to public hosts only, one in a private network to hosts of such networks too, and only
one on this machine, by its configured address, to this machine. The configured host itself is the user's choice.

Invariants
- A name is looked up once, and only the addresses that were checked are connected to.
- Link-local addresses, where clouds offer credentials, are reached by no answer.
- Where a proxy looks names up, what a name says of itself decides."""

from __future__ import annotations

from enum import IntEnum
from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.core.web.address import NOT_PUBLIC, is_public, parse_address, system_resolve
from holdfast.core.web.errors import AddressRefused, FetchFailed

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from holdfast.core.web.address import Address, Resolve

UNIQUE_LOCAL = IPv6Network("fc00::/7")
THIS_MACHINE_NAMES = ("localhost", "localhost.localdomain")
PRIVATE_NAMES = ("local", "internal", "intranet", "lan", "home", "corp", "private", "home.arpa")
"""Names that are looked up in private networks, and what names in them end with."""


class Nearness(IntEnum):
    PUBLIC = 0
    PRIVATE = 1
    THIS_MACHINE = 2
    NEVER = 3


class NearAddresses:
    """The addresses to which what `url` answers may lead."""

    def __init__(self, url: str, *, resolve: Resolve = system_resolve) -> None:
        parts = urlsplit(url)
        self._host = (parts.hostname or "").lower()
        self._port = parts.port or 443
        self._resolve = resolve

    def is_configured(self, host: str) -> bool:
        return host == self._host

    async def addresses(self, host: str, port: int, *, proxied: bool) -> Sequence[Address] | None:
        """The addresses to connect to; None leaves the lookup to a proxy. Raises AddressRefused, and FetchFailed if
        there is no such host."""
        if proxied:
            nearest = self._configured_nearness() or min(Nearness.PRIVATE, name_nearness(self._host))
            if not self.is_configured(host) and name_nearness(host) > nearest:
                raise AddressRefused
            return None
        found = await self._look_up(host, port)
        if not self.is_configured(host):
            nearest = await self._nearness()
            if any(nearness(address) > nearest for address in found):
                raise AddressRefused
        return found

    async def _nearness(self) -> Nearness:
        known = self._configured_nearness()
        if known is not None:
            return known
        found = await self._look_up(self._host, self._port)
        # Whoever answers for the name could claim to be this machine.
        return min(Nearness.PRIVATE, *map(nearness, found))

    def _configured_nearness(self) -> Nearness | None:
        """As the configured address tells; None if it has to be looked up."""
        if self._host == "localhost":
            return Nearness.THIS_MACHINE
        literal = parse_address(self._host)
        if literal is None:
            return None
        return Nearness.THIS_MACHINE if literal.is_loopback else min(Nearness.PRIVATE, nearness(literal))

    async def _look_up(self, host: str, port: int) -> tuple[Address, ...]:
        literal = parse_address(host)
        found: Collection[Address] = (literal,) if literal is not None else await self._resolve(host, port)
        if not found:
            raise FetchFailed("host not found")
        return tuple(found)


def nearness(address: Address) -> Nearness:
    if is_public(address):
        return Nearness.PUBLIC
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return nearness(address.ipv4_mapped)
        if address.is_loopback:
            return Nearness.THIS_MACHINE
        return Nearness.PRIVATE if address in UNIQUE_LOCAL else Nearness.NEVER
    if address.is_loopback:
        return Nearness.THIS_MACHINE
    special = address.is_link_local or address.is_unspecified or address.is_multicast or address.is_reserved
    return Nearness.NEVER if special or any(address in network for network in NOT_PUBLIC) else Nearness.PRIVATE


def name_nearness(host: str) -> Nearness:
    """As near as a host is by what is written: an address, or a name that only a near network knows."""
    literal = parse_address(host)
    if literal is not None:
        return nearness(literal)
    name = host.lower().rstrip(".")
    if name in THIS_MACHINE_NAMES or name.endswith(".localhost"):
        return Nearness.THIS_MACHINE
    if "." not in name or any(name.endswith(f".{end}") for end in PRIVATE_NAMES):
        return Nearness.PRIVATE
    return Nearness.PUBLIC
