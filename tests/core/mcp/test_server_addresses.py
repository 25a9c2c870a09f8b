"""Where the metadata of an MCP server may lead."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from holdfast.core.mcp.server_addresses import ServerAddresses
from holdfast.core.web.address import Address
from holdfast.core.web.near_addresses import Nearness, nearness
from holdfast.mcp.oauth.errors import AddressRefused, OAuthUnreachable

pytestmark = pytest.mark.anyio
NAMES = {
    "public.example": ["93.184.216.34"],
    "other.example": ["2606:2800:220:1::1"],
    "intranet.example": ["10.0.0.7"],
    "sso.example": ["192.168.3.4", "fd00::3"],
    "mixed.example": ["93.184.216.34", "127.0.0.1"],
    "near.example": ["127.0.0.1"],
    "localhost": ["127.0.0.1", "::1"],
    "cloud.example": ["169.254.169.254"],
}


async def resolve(host: str, port: int) -> list[Address]:
    return [ip_address(text) for text in NAMES.get(host, [])]


async def reaches(server: str, host: str, *, proxied: bool = False) -> bool:
    try:
        await ServerAddresses(server, resolve=resolve).addresses(host, 443, proxied=proxied)
    except AddressRefused:
        return False
    return True


PUBLIC = {"public.example", "other.example", "93.184.216.34"}
PRIVATE = {"intranet.example", "sso.example", "10.1.2.3", "100.64.0.9", "fd00::7"}
LOCAL = {"localhost", "127.0.0.1", "::1", "near.example", "2130706433", "0x7f.1", "::ffff:127.0.0.1"}
NEVER = {"cloud.example", "169.254.169.254", "168.63.129.16", "0.0.0.0", "::", "fe80::1", "224.0.0.1", "64:ff9b::a00:1"}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://public.example/mcp", PUBLIC),
        ("https://93.184.216.34/mcp", PUBLIC),
        ("https://intranet.example/mcp", PUBLIC | PRIVATE),
        ("https://10.9.9.9/mcp", PUBLIC | PRIVATE),
        ("https://mixed.example/mcp", PUBLIC | {"mixed.example"}),
        ("https://near.example/mcp", PUBLIC | PRIVATE | {"near.example"}),
        ("https://cloud.example/mcp", PUBLIC | PRIVATE | {"cloud.example"}),
        ("http://127.0.0.1:8000/mcp", PUBLIC | PRIVATE | LOCAL | {"mixed.example"}),
        ("http://localhost/mcp", PUBLIC | PRIVATE | LOCAL | {"mixed.example"}),
    ],
)
async def test_a_server_leads_no_nearer_than_it_is(server: str, expected: set[str]) -> None:
    """MCP-105: its own host is the user's choice; whoever answers for its name cannot claim to be this machine."""
    tried = PUBLIC | PRIVATE | LOCAL | NEVER | {"mixed.example"}
    assert {host for host in tried if await reaches(server, host)} == expected


async def test_checked_addresses_are_the_ones_to_connect_to() -> None:
    """MCP-105: a name that is looked up again could lead elsewhere."""
    asked: list[str] = []

    async def once(host: str, port: int) -> list[Address]:
        asked.append(host)
        return await resolve(host, port)

    addresses = ServerAddresses("https://public.example/mcp", resolve=once)
    assert await addresses.addresses("other.example", 443, proxied=False) == (ip_address("2606:2800:220:1::1"),)
    assert asked.count("other.example") == 1
    with pytest.raises(OAuthUnreachable, match="nowhere"):
        await addresses.addresses("nowhere.example", 443, proxied=False)


async def test_behind_a_proxy_addresses_and_names_are_taken_by_what_they_say() -> None:
    """MCP-105, MCP-371: the proxy looks names up."""
    server = "https://public.example/mcp"
    for host in ("localhost", "LOCALHOST.", "a.localhost", "intranet", "db.internal", "printer.local"):
        assert not await reaches(server, host, proxied=True)
    assert await reaches("https://intranet/mcp", "sso", proxied=True)
    assert not await reaches("https://intranet/mcp", "localhost", proxied=True)
    assert await reaches("http://localhost/mcp", "intranet", proxied=True)
    assert await reaches(server, "unknown.example", proxied=True)
    assert await reaches(server, "93.184.216.34", proxied=True)
    assert not await reaches(server, "10.0.0.1", proxied=True)
    assert not await reaches(server, "127.0.0.1", proxied=True)
    assert await reaches("http://127.0.0.1:1/mcp", "127.0.0.1", proxied=True)
    assert await ServerAddresses(server, resolve=resolve).addresses("x.example", 443, proxied=True) is None


def test_every_address_has_a_nearness() -> None:
    """MCP-105."""
    found = {text: nearness(ip_address(text)) for text in ("8.8.8.8", "172.16.0.1", "127.1.2.3", "255.255.255.255")}
    assert list(found.values()) == [Nearness.PUBLIC, Nearness.PRIVATE, Nearness.THIS_MACHINE, Nearness.NEVER]
