"""The address policy: what counts as public, in every spelling, and what is looked up."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from holdfast.core.web.address import Address, AddressPolicy, is_public, parse_address, system_resolve
from holdfast.core.web.errors import AddressRefused, FetchFailed

pytestmark = pytest.mark.anyio

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "192.0.0.192",
    "168.63.129.16",
    "::ffff:192.0.0.192",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "0.0.0.0",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd12:3456::1",
    "fec0::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2001::1",
    "2001:db8::1",
]
PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "2002:808:808::1", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_outside_the_public_internet_are_refused(address: str) -> None:
    """TOL-262: loopback, private, link-local, CGNAT, multicast, unspecified, and IPv6 forms that carry them."""
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_accepted(address: str) -> None:
    """TOL-262: the carried address decides, not the form."""
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1", "127.0.0.1.", "0", "[::1]"[1:-1]],
)
async def test_an_address_in_another_spelling_is_that_address(host: str) -> None:
    """TOL-320: decimal, octal, hexadecimal and short forms are judged without a lookup."""

    async def never(host: str, port: int) -> list[Address]:
        raise AssertionError("looked up")

    assert parse_address(host) is not None
    with pytest.raises(AddressRefused):
        await AddressPolicy(resolve=never).vet(host, 80, exempt=False)


@pytest.mark.parametrize("host", ["example.com", "localhost.", "1.2.3.4 x", "", ".", "deadbeef"])
def test_a_name_is_no_address(host: str) -> None:
    """TOL-262: it is looked up."""
    assert parse_address(host) is None


@pytest.mark.parametrize(
    "answers", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["2606:4700::1111", "::ffff:192.168.0.1"]]
)
async def test_one_private_answer_refuses_the_name(answers: list[str]) -> None:
    """TOL-262, TOL-320: also beside public ones."""

    async def resolve(host: str, port: int) -> list[Address]:
        return [ip_address(answer) for answer in answers]

    policy = AddressPolicy(resolve=resolve)
    with pytest.raises(AddressRefused, match="address not allowed"):
        await policy.vet("inside.test", 443, exempt=False)
    assert await policy.vet("inside.test", 443, exempt=True) == tuple(map(ip_address, answers))


@pytest.mark.parametrize("host", ["localhost", "localhost."])
async def test_localhost_is_refused_with_the_real_resolver(host: str) -> None:
    """TOL-262, TOL-320: with or without the final dot."""
    with pytest.raises((AddressRefused, FetchFailed)):
        await AddressPolicy().vet(host, 80, exempt=False)


async def test_a_name_nobody_knows_is_not_found() -> None:
    """TOL-266: a reason of its own."""

    async def resolve(host: str, port: int) -> list[Address]:
        return []

    with pytest.raises(FetchFailed, match="host not found"):
        await AddressPolicy(resolve=resolve).vet("nowhere.test", 80, exempt=False)
    assert await system_resolve("a" * 300, 80) == []


async def test_the_own_port_is_refused_on_every_address_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-262: a public address of this machine does not open the way to the runtime itself."""
    monkeypatch.setattr("holdfast.core.web.address.is_public", lambda address: True)
    policy = AddressPolicy(own_ports=lambda: {4096})
    with pytest.raises(AddressRefused):
        await policy.vet("127.0.0.1", 4096, exempt=False)
    assert await policy.vet("127.0.0.1", 4097, exempt=False)
    assert await policy.vet("127.0.0.1", 4096, exempt=True)
    assert await policy.vet("93.184.216.34", 4096, exempt=False)
