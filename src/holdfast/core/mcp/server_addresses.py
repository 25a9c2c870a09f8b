"""Which hosts the metadata of an MCP server may lead to: those that are as near as the server itself, or farther.

A server on the public internet leads to public hosts only, one in a private network to hosts of such networks too, and
only one on this machine, by its configured address, to this machine. The server's own host is the user's choice.

Invariants
- A name is looked up once, and only the addresses that were checked are connected to.
- Link-local addresses, where clouds offer credentials, are reached by no metadata."""

from __future__ import annotations

from enum import IntEnum
from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.core.web.address import NOT_PUBLIC, is_public, parse_address, system_resolve
from holdfast.mcp.oauth.errors import AddressRefused, OAuthUnreachable
from holdfast.mcp.oauth.url import is_loopback

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from holdfast.core.web.address import Address, Resolve

UNIQUE_LOCAL = IPv6Network("fc00::/7")


class Nearness(IntEnum):
    PUBLIC = 0
    PRIVATE = 1
    THIS_MACHINE = 2
    NEVER = 3


class ServerAddresses:
    """An AddressCheck for the sign-in at one MCP server."""

    def __init__(self, server_url: str, *, resolve: Resolve = system_resolve) -> None:
        parts = urlsplit(server_url)
        self._host = (parts.hostname or "").lower()
        self._port = parts.port or 443
        self._resolve = resolve

    async def addresses(self, host: str, port: int, *, proxied: bool) -> Sequence[Address] | None:
        literal = parse_address(host)
        if proxied:  # the proxy looks names up
            if literal is not None and host != self._host:
                self._check(host, (literal,), self._configured_nearness() or Nearness.PUBLIC)
            return None
        found = await self._look_up(host, port)
        if host != self._host:
            self._check(host, found, await self._nearness())
        return found

    def _check(self, host: str, found: Collection[Address], nearest: Nearness) -> None:
        if any(nearness(address) > nearest for address in found):
            raise AddressRefused(host)

    async def _nearness(self) -> Nearness:
        known = self._configured_nearness()
        if known is not None:
            return known
        found = await self._look_up(self._host, self._port)
        # Whoever answers for the name could claim to be this machine.
        return min(Nearness.PRIVATE, *map(nearness, found))

    def _configured_nearness(self) -> Nearness | None:
        """As the configured address tells; None if it has to be looked up."""
        if is_loopback(self._host):
            return Nearness.THIS_MACHINE
        literal = parse_address(self._host)
        return min(Nearness.PRIVATE, nearness(literal)) if literal is not None else None

    async def _look_up(self, host: str, port: int) -> tuple[Address, ...]:
        literal = parse_address(host)
        found = (literal,) if literal is not None else tuple(await self._resolve(host, port))
        if not found:
            raise OAuthUnreachable(f"The host {host[:200]} was not found")
        return found


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
