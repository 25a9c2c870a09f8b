"""Guarded requests: vetted addresses, redirects by hand, bounded bodies."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from ipaddress import ip_address
from typing import Any

import pytest
from aiohttp import web
from tests.core.web.site import Site

from holdfast.core.web.address import Address, AddressPolicy
from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.fetch import RATIO_FREE_BYTES, Budget, Fetcher
from holdfast.core.web.url import join_url, parse_url

pytestmark = pytest.mark.anyio


async def get(fetcher: Fetcher, url: str, *, limit: int = 1_000_000, seconds: float = 10, **options: Any) -> bytes:
    async with fetcher.open(url, budget=Budget(seconds), **options) as response:
        return await response.read(limit)


async def refusal(fetcher: Fetcher, url: str, **options: Any) -> str:
    with pytest.raises(FetchFailed) as refused:
        await get(fetcher, url, **options)
    return refused.value.reason


def answering(*answers: str) -> tuple[AddressPolicy, list[str]]:
    """A policy over a resolver that gives the answers one after the other."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[Address]:
        asked.append(host)
        return [ip_address(answers[min(len(asked), len(answers)) - 1])]

    return AddressPolicy(resolve=resolve), asked


# -- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::7f00:1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost./",
        "http://rebound.test/",
        "https://xn--e1afmkfd.test/",
    ],
)
async def test_a_private_target_opens_no_socket(url: str, connections: list[tuple[Any, ...]]) -> None:
    """TOL-262, TOL-320: in any spelling, or by name."""
    policy, _ = answering("127.0.0.1")
    assert await refusal(Fetcher(policy), url) == "address not allowed"
    assert connections == []


async def test_the_vetted_address_is_the_one_connected_to(connections: list[tuple[Any, ...]]) -> None:
    """TOL-262, TOL-320: a resolver that would say 127.0.0.1 the second time is not asked a second time."""
    policy, asked = answering("93.184.216.34", "127.0.0.1")
    assert await refusal(Fetcher(policy), "http://rebinding.test/") == "could not connect"
    assert asked == ["rebinding.test"]
    assert {address[:2] for address in connections} == {("93.184.216.34", 80)}


async def test_the_name_stays_in_the_host_header(site: Site) -> None:
    """TOL-262: only the address is pinned."""
    site.put("/", "hello")
    policy, asked = answering("127.0.0.1")
    url = f"http://name.test:{site.port}/"
    assert await get(Fetcher(policy), url, exempt=lambda url: True) == b"hello"
    assert site.requests[0][1]["host"] == f"name.test:{site.port}"
    assert asked == ["name.test"]


async def test_the_name_stays_in_the_tls_greeting() -> None:
    """TOL-262: the server is asked for by name, at the vetted address."""
    greeting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting.set_result(await reader.read(4096))
        writer.close()

    server = await asyncio.start_server(greeted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    policy, _ = answering("127.0.0.1")
    async with server:
        reason = await refusal(Fetcher(policy), f"https://name.test:{port}/", exempt=lambda url: True)
    assert reason in ("could not connect", "the certificate was not accepted")
    assert b"name.test" in greeting.result()


async def test_a_proxy_of_the_environment_is_not_used_past_the_policy(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-262: it would look names up by itself."""
    monkeypatch.setenv("http_proxy", f"{site.base}/")
    policy, _ = answering("127.0.0.1")
    assert await refusal(Fetcher(policy), "http://inside.test/") == "address not allowed"
    assert site.requests == []


# -- URLs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com",
        "file:///etc/passwd",
        "ftp://example.com/",
        "data:text/plain,x",
        "http://",
        "http:///path",
        "http://exa mple.com/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com/\r\nHost: x",
        "http://[::1/",
        "http://example.com:99999/",
        "http://example.com:0/",
        "http://user:secret@example.com/",
        "http://user@example.com/",
        "http://:@example.com/",
        "http://example.com/" + "x" * 9000,
    ],
)
async def test_an_address_that_is_not_plain_http_is_refused(url: str, connections: list[tuple[Any, ...]]) -> None:
    """TOL-256, TOL-263: before any traffic; credentials in an address too."""
    reason = await refusal(Fetcher(), url)
    assert "secret" not in reason
    assert connections == []


def test_a_plain_address_is_kept() -> None:
    """TOL-256: percent escapes as they were; the fragment is not sent."""
    assert str(parse_url("https://example.com/a%2Fb?q=%20#part")) == "https://example.com/a%2Fb?q=%20"


# -- redirects -----------------------------------------------------------------------------------------------------


async def test_redirects_are_followed_five_times(site: Site) -> None:
    """TOL-263: the sixth is too many."""
    site.put("/0", "there")
    for hop in range(1, 7):
        site.redirect(f"/{hop}", f"{hop - 1}")
    fetcher = Fetcher()
    assert await get(fetcher, f"{site.base}/5") == b"there"
    assert await refusal(fetcher, f"{site.base}/6") == "too many redirects"


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data/", "address not allowed"),
        ("http://[::ffff:169.254.169.254]/", "address not allowed"),
        ("http://localhost/", "address not allowed"),
        ("file:///etc/passwd", "not a valid http or https URL"),
        ("http://user:secret@example.com/", "URLs with credentials are not allowed"),
        ("http://[broken/", "redirected to something that is not a URL"),
    ],
)
async def test_every_redirect_is_checked_before_a_socket_opens(
    site: Site, connections: list[tuple[Any, ...]], target: str, reason: str
) -> None:
    """TOL-263, TOL-320: a redirect to the metadata service opens no socket."""
    policy, _ = answering("127.0.0.1")
    start = site.redirect("/start", target)
    assert await refusal(Fetcher(policy), start, exempt=lambda url: url == start) == reason
    assert {address[:2] for address in connections} == {("127.0.0.1", site.port)}


async def test_a_name_that_turns_private_between_hops_is_refused(site: Site) -> None:
    """TOL-263, TOL-320: the same origin is looked up and judged again."""
    policy, asked = answering("127.0.0.1")
    start = f"http://turning.test:{site.port}/start"
    site.redirect("/start", "/next")
    site.put("/next", "secret")
    assert await refusal(Fetcher(policy), start, exempt=lambda url: url == start) == "address not allowed"
    assert (asked, site.paths) == (["turning.test", "turning.test"], ["/start"])


def test_https_does_not_become_http() -> None:
    """TOL-263: a downgrade is refused."""
    secure = parse_url("https://example.com/a")
    with pytest.raises(FetchFailed, match="from https to http"):
        join_url(secure, "http://example.com/a")
    assert str(join_url(secure, "//other.com/b")) == "https://other.com/b"


async def test_another_origin_is_asked_about_first(site: Site) -> None:
    """TOL-263: with no connection held meanwhile, and once per crossing."""
    asked: list[str] = []

    async def crossing(url: str) -> None:
        asked.append(url)

    site.put("/there", "there")
    site.redirect("/a", "/b")
    site.redirect("/b", f"http://localhost:{site.port}/there")
    assert await get(Fetcher(), f"{site.base}/a", crossing=crossing) == b"there"
    assert asked == [f"http://localhost:{site.port}/there"]


async def test_cookies_of_one_hop_are_not_sent_to_the_next(site: Site) -> None:
    """TOL-263: credentials are never forwarded."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/next", "Set-Cookie": "id=secret"})

    site.pages["/start"] = answer
    site.put("/next", "x")
    await get(Fetcher(), f"{site.base}/start")
    assert "cookie" not in site.requests[1][1]


# -- bodies --------------------------------------------------------------------------------------------------------


async def test_a_body_up_to_the_limit(site: Site) -> None:
    """TOL-258: one byte more is too large, by declaration already."""
    url = site.put("/", b"x" * 100)
    assert await get(Fetcher(), url, limit=100) == b"x" * 100
    assert await refusal(Fetcher(), url, limit=99) == "too large"


async def test_an_endless_body_is_cut_off(site: Site) -> None:
    """TOL-258: streaming stops at the limit and the connection is closed."""
    gone = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except ConnectionError:
            gone.set()
        return response

    site.pages["/"] = endless
    assert await refusal(Fetcher(), f"{site.base}/", limit=200_000) == "too large"
    await asyncio.wait_for(gone.wait(), 5)


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"packed text " * 50, mtime=0)),
        ("GZIP", gzip.compress(b"packed text " * 50, mtime=0)),
        ("deflate", zlib.compress(b"packed text " * 50)),
        ("deflate", zlib.compress(b"packed text " * 50)[2:-4]),
        ("identity", b"packed text " * 50),
    ],
)
async def test_compressed_bodies_are_limited_by_their_unpacked_size(site: Site, encoding: str, packed: bytes) -> None:
    """TOL-264: the limit counts what comes out."""
    url = site.put("/", packed, Content_Encoding=encoding)
    assert await get(Fetcher(), url, limit=600) == b"packed text " * 50
    assert await refusal(Fetcher(), url, limit=599) == "too large"


async def test_a_bomb_does_not_go_off(site: Site) -> None:
    """TOL-264: neither beyond the size nor beyond 100:1."""
    url = site.put("/", gzip.compress(b"\0" * 50_000_000), Content_Encoding="gzip")
    assert await refusal(Fetcher(), url, limit=1_000_000) in ("too large", "compressed beyond reason")
    url = site.put("/", gzip.compress(b"\0" * 900_000), Content_Encoding="gzip")
    assert await refusal(Fetcher(), url, limit=1_000_000) == "compressed beyond reason"
    url = site.put("/", gzip.compress(b"\0" * RATIO_FREE_BYTES), Content_Encoding="gzip")
    assert len(await get(Fetcher(), url)) == RATIO_FREE_BYTES


@pytest.mark.parametrize(
    ("encoding", "body", "reason"),
    [
        ("br", b"whatever", "unsupported content encoding"),
        ("gzip, gzip", b"whatever", "unsupported content encoding"),
        ("gzip", b"not gzip at all", "the body broke off"),
        ("gzip", gzip.compress(b"cut" * 1000, mtime=0)[:-10], "the body broke off"),
    ],
)
async def test_a_body_that_cannot_be_unpacked_is_refused(site: Site, encoding: str, body: bytes, reason: str) -> None:
    """TOL-264: never half a page for a whole one."""
    url = site.put("/", body, Content_Encoding=encoding)
    assert await refusal(Fetcher(), url) == reason


# -- time ----------------------------------------------------------------------------------------------------------


async def test_the_budget_covers_request_and_body(site: Site) -> None:
    """TOL-255: a server that is silent, and one that stops in the middle."""
    release = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if request.path == "/middle":
            await response.prepare(request)
            await response.write(b"half")
        await release.wait()
        return response

    site.pages["/start"] = site.pages["/middle"] = silent
    for path in ("/start", "/middle"):
        assert await refusal(Fetcher(), site.base + path, seconds=0.2) == "timed out"
    release.set()


async def test_waiting_for_a_person_costs_no_budget(site: Site) -> None:
    """TOL-263: an approval may take its time."""
    budget = Budget(60)
    async with budget.spend():
        await asyncio.sleep(0)
    left = budget._left
    await asyncio.sleep(0.05)
    assert budget._left == left
    async with budget.spend():
        pass
    assert 0 < budget._left <= left


async def test_a_spent_budget_sends_nothing(site: Site) -> None:
    """TOL-255: the time of earlier requests counts."""
    url = site.put("/", "x")
    budget = Budget(0)
    with pytest.raises(FetchFailed, match="timed out"):
        async with Fetcher().open(url, budget=budget) as response:
            await response.read(10)
