"""Which network addresses a request chosen by a model may reach.

Invariants
- A host is looked up once, and only the addresses that were checked are connected to.
- A host with one address that is not public is refused, because any of its addresses may be used."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from holdfast.core.web.errors import AddressRefused, FetchFailed

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Collection[Address]]]

GLOBAL_UNICAST = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")
IPV4_COMPATIBLE = IPv6Network("::/96")
# Protocol assignments, which not every Python version counts as private, and the metadata service of a cloud at a
# public address. Both can return credentials.
NOT_PUBLIC = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"))


async def system_resolve(host: str, port: int) -> list[Address]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [ip_address(entry[4][0]) for entry in found]


class AddressPolicy:
    """Permits public addresses only, and no port on which this process listens."""

    def __init__(
        self, *, resolve: Resolve = system_resolve, own_ports: Callable[[], Collection[int]] = frozenset
    ) -> None:
        self._resolve = resolve
        self._own_ports = own_ports

    async def vet(self, host: str, port: int, *, exempt: bool) -> tuple[Address, ...]:
        """The addresses to connect to. `exempt`: a rule of the user names this host, so every address is permitted."""
        literal = parse_address(host)
        found = (literal,) if literal is not None else tuple(await self._resolve(host, port))
        if not found:
            raise FetchFailed("host not found")
        if not exempt and not all(self._permitted(address, port) for address in found):
            raise AddressRefused
        return found

    def _permitted(self, address: Address, port: int) -> bool:
        return is_public(address) and not (port in self._own_ports() and _is_of_this_machine(address))


def parse_address(host: str) -> Address | None:
    """The address that a host is, in any spelling that a resolver accepts (`0x7f.1`, `2130706433`)."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    spelled = host.rstrip(".")
    if not spelled or any(character.isspace() for character in spelled):
        return None
    try:
        return IPv4Address(socket.inet_aton(spelled))
    except (OSError, UnicodeError):
        return None


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet. An IPv4 address inside an IPv6 address decides."""
    if isinstance(address, IPv6Address):
        inner = _carried(address)
        if inner is not None:
            return is_public(inner)
        return address in GLOBAL_UNICAST and address.is_global
    return address.is_global and not address.is_multicast and not any(address in network for network in NOT_PUBLIC)


def _carried(address: IPv6Address) -> IPv4Address | None:
    if address in NAT64 or address in IPV4_COMPATIBLE:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_of_this_machine(address: Address) -> bool:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True
