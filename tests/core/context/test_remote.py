"""Remote instructions, fetched from a real server on this machine."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.conftest import ManualClock
from tests.core.context.places import baseline, stored, told

from holdfast.core.context import remote as module
from holdfast.core.context.remote import (
    BODY_LIMIT,
    REDIRECT_LIMIT,
    REFRESH_MILLIS,
    HopResponse,
    RemoteInstructions,
    WebFetch,
)
from holdfast.core.context.system_context import SystemContext, initialize, observe
from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.fetch import Fetcher

pytestmark = pytest.mark.anyio


class Hop(WebFetch):
    """The real one, with a record of what was asked."""

    def __init__(self) -> None:
        super().__init__(Fetcher())
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, url: str, headers: Mapping[str, str], *, configured: str, limit: int) -> HopResponse:
        self.asked.append((url, dict(headers)))
        return await super().__call__(url, headers, configured=configured, limit=limit)


class Site:
    """What the server does next, and how often it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b"be kind"
        self.headers: dict[str, str] = {}
        self.requests: list[web.Request] = []
        self.asked = asyncio.Event()
        self.gate: asyncio.Event | None = None

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        if "ETag" in self.headers and request.headers.get("If-None-Match") == self.headers["ETag"]:
            return web.Response(status=304)
        if request.path.startswith("/hops/"):
            left = int(request.path.rpartition("/")[2])
            if left:
                return web.Response(status=302, headers={"Location": f"/hops/{left - 1}"})
        return web.Response(status=self.status, body=self.body, headers=self.headers)


@pytest.fixture
async def site() -> Site:
    return Site()


@pytest.fixture
async def server(site: Site) -> AsyncIterator[TestServer]:
    application = web.Application()
    application.router.add_get("/{path:.*}", site.handle)
    server = TestServer(application)
    await server.start_server()
    yield server
    await server.close()


@pytest.fixture
def hop() -> Hop:
    return Hop()


@pytest.fixture
def environment() -> dict[str, str]:
    return {}


def instructions_at(hop: Hop, tmp_path: Path, environment: dict[str, str], clock: ManualClock) -> RemoteInstructions:
    return RemoteInstructions(hop, tmp_path / "cache", environment, clock)


@pytest.fixture
async def remote(
    hop: Hop, tmp_path: Path, environment: dict[str, str], clock: ManualClock
) -> AsyncIterator[RemoteInstructions]:
    remote = instructions_at(hop, tmp_path, environment, clock)
    yield remote
    await remote.close()


def immediate(context: SystemContext) -> bool:
    """Whether nothing has to be fetched."""
    return all(source.immediate for source in context._sources)


async def test_each_url_is_a_source_of_its_own(remote: RemoteInstructions, server: TestServer, site: Site) -> None:
    """CTX-148: key from the URL's hash, value with URL and content, configuration order, own sentences."""
    urls = [str(server.make_url(path)) for path in ("/z.md", "/a.md")]
    context = remote.context(urls)
    generation = initialize(await observe(context))
    assert generation.baseline == "\n\n".join(f"Instructions from: {url}\nbe kind" for url in urls)
    keys = [f"core/instructions/remote/{hashlib.sha256(url.encode()).hexdigest()[:16]}" for url in urls]
    assert list(generation.snapshot) == keys
    assert module.CONTRIBUTION == "core/instructions-remote"
    outcome, _ = await told(remote.context([urls[0]]), generation.snapshot)
    assert outcome == module.REMOVED.format(urls[1])


async def test_a_new_text_is_told_after_the_interval(
    remote: RemoteInstructions, server: TestServer, site: Site, clock: ManualClock
) -> None:
    """CTX-148, CTX-150: within the interval the copy is the observation; then it is asked again, once."""
    url = str(server.make_url("/x.md"))
    snapshot = await stored(remote.context([url]))
    site.body = b"be kinder"
    clock.advance(REFRESH_MILLIS - 1)
    assert immediate(remote.context([url]))
    assert (await told(remote.context([url]), snapshot))[0] is None
    assert len(site.requests) == 1
    clock.advance(1)
    text, _ = await told(remote.context([url]), snapshot)
    assert text == f"{module.UPDATE.format(url)}\n\nInstructions from: {url}\nbe kinder"
    assert len(site.requests) == 2


async def test_concurrent_observations_share_one_fetch(
    remote: RemoteInstructions, server: TestServer, site: Site
) -> None:
    """CTX-150: single flight, also when one of those who wait goes away."""
    site.gate = asyncio.Event()
    url = str(server.make_url("/x.md"))
    waiting = [asyncio.create_task(baseline(remote.context([url]))) for _ in range(3)]
    await site.asked.wait()
    waiting[0].cancel()
    await asyncio.wait([waiting[0]])
    site.gate.set()
    assert [await task for task in waiting[1:]] == [f"Instructions from: {url}\nbe kind"] * 2
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (200, "available"),
        (203, "available"),
        (401, "absent"),
        (404, "absent"),
        (410, "absent"),
        (408, "unavailable"),
        (425, "unavailable"),
        (429, "unavailable"),
        (500, "unavailable"),
        (503, "unavailable"),
        (304, "unavailable"),
        (302, "unavailable"),
    ],
)
async def test_a_confirmed_absence_is_told_and_an_outage_keeps_the_last_copy(
    remote: RemoteInstructions, server: TestServer, site: Site, clock: ManualClock, status: int, state: str
) -> None:
    """CTX-149, CTX-057, CTX-056: a confirmed absence is told; an outage is not, and keeps the last good copy."""
    url = str(server.make_url("/x.md"))
    snapshot = await stored(remote.context([url]))
    clock.advance(REFRESH_MILLIS)
    site.status = status
    site.headers = {}
    text, _ = await told(remote.context([url]), snapshot)
    assert text == (module.REMOVED.format(url) if state == "absent" else None)
    fresh = str(server.make_url("/never-seen.md"))
    expected = {"available": f"Instructions from: {fresh}\nbe kind", "absent": "", "unavailable": ""}
    assert await baseline(remote.context([fresh])) == expected[state]


async def test_a_dead_server_never_blocks_a_first_baseline(remote: RemoteInstructions, clock: ManualClock) -> None:
    """CTX-150, CTX-020: left out, asked at most once per interval."""
    url = "http://127.0.0.1:9/x.md"
    context = remote.context([url])
    assert await baseline(context) == ""
    assert immediate(remote.context([url]))


async def test_an_answer_has_a_time_limit(
    remote: RemoteInstructions, server: TestServer, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTX-149, CTX-021: in all, redirects included."""
    monkeypatch.setattr(module, "REMOTE_TIMEOUT", 0.05)
    site.gate = asyncio.Event()
    assert await baseline(remote.context([str(server.make_url("/x.md"))])) == ""
    site.gate.set()


async def test_a_body_has_a_limit_and_is_read_as_utf8(
    remote: RemoteInstructions, server: TestServer, site: Site
) -> None:
    """CTX-149: exactly the limit is fine; invalid bytes are replaced."""
    site.body = b"\xff" + b"x" * (BODY_LIMIT - 1)
    url = str(server.make_url("/fits.md"))
    text = await baseline(remote.context([url]))
    assert text == f"Instructions from: {url}\n\ufffd{'x' * (BODY_LIMIT - 1)}"
    site.body += b"x"
    assert await baseline(remote.context([str(server.make_url("/large.md"))])) == ""


async def test_the_copy_outlives_the_process_and_is_asked_about_conditionally(
    hop: Hop, tmp_path: Path, server: TestServer, site: Site, clock: ManualClock
) -> None:
    """CTX-149, CTX-150: validators go along, 304 is available, and a failing refresh serves the copy."""
    url = str(server.make_url("/x.md"))
    site.headers = {"ETag": '"1"', "Last-Modified": "Wed, 03 Jun 2026 12:00:00 GMT"}
    first = instructions_at(hop, tmp_path, {}, clock)
    expected = await baseline(first.context([url]))
    second = instructions_at(hop, tmp_path, {}, clock)
    assert await baseline(second.context([url])) == expected
    assert hop.asked[1] == (
        url,
        {"if-none-match": '"1"', "if-modified-since": "Wed, 03 Jun 2026 12:00:00 GMT"},
    )
    await server.close()
    third = instructions_at(hop, tmp_path, {}, clock)
    assert await baseline(third.context([url])) == expected


async def test_a_confirmed_absence_forgets_the_copy(
    hop: Hop, tmp_path: Path, server: TestServer, site: Site, clock: ManualClock
) -> None:
    """CTX-150, CTX-149: a later failure does not bring it back; nor does a damaged copy do harm."""
    url = str(server.make_url("/x.md"))
    await observe(instructions_at(hop, tmp_path, {}, clock).context([url]))
    (copy,) = (tmp_path / "cache").iterdir()
    site.status = 404
    assert await baseline(instructions_at(hop, tmp_path, {}, clock).context([url])) == ""
    assert not copy.exists()
    copy.write_bytes(b"{damaged")
    site.status = 500
    assert await baseline(instructions_at(hop, tmp_path, {}, clock).context([url])) == ""


async def test_redirects_are_followed_up_to_a_limit(remote: RemoteInstructions, server: TestServer, hop: Hop) -> None:
    """CTX-149: five are followed, six are not; relative targets are resolved."""
    reached = str(server.make_url(f"/hops/{REDIRECT_LIMIT}"))
    assert await baseline(remote.context([reached])) == f"Instructions from: {reached}\nbe kind"
    assert len(hop.asked) == REDIRECT_LIMIT + 1
    hop.asked.clear()
    assert await baseline(remote.context([str(server.make_url(f"/hops/{REDIRECT_LIMIT + 1}"))])) == ""
    assert len(hop.asked) == REDIRECT_LIMIT + 1


@pytest.mark.parametrize("target", ["http://plain.example/x", "ftp://x.example/", "file:///etc/passwd"])
async def test_a_redirect_never_leads_to_less(tmp_path: Path, clock: ManualClock, target: str) -> None:
    """CTX-149: from https only to https, and to nothing but the web."""
    asked: list[str] = []

    async def fetch(url: str, headers: Mapping[str, str], *, configured: str, limit: int) -> HopResponse:
        asked.append(url)
        return HopResponse(302, {"location": target})

    remote = RemoteInstructions(fetch, tmp_path, {}, clock)
    assert await baseline(remote.context(["https://start.example/x"])) == ""
    assert asked == ["https://start.example/x"]


async def test_validators_and_credentials_stay_with_their_origin(tmp_path: Path, clock: ManualClock) -> None:
    """CTX-151: what belongs to one origin is not sent to another; credentials are neither shown nor kept."""
    asked: list[tuple[str, dict[str, str]]] = []

    async def fetch(url: str, headers: Mapping[str, str], *, configured: str, limit: int) -> HopResponse:
        asked.append((url, dict(headers)))
        if "other.example" in url:
            return HopResponse(200, {"etag": '"2"'}, b"text")
        return HopResponse(307, {"location": "https://other.example/x"})

    url = "https://user:secret@start.example/x"
    remote = RemoteInstructions(fetch, tmp_path, {}, clock)
    await observe(remote.context([url]))
    clock.advance(REFRESH_MILLIS)
    assert await baseline(remote.context([url])) == "Instructions from: https://start.example/x\ntext"
    assert asked == [
        (url, {}),
        ("https://other.example/x", {}),
        (url, {}),
        ("https://other.example/x", {}),
    ]
    assert not [copy for copy in tmp_path.iterdir() if b"secret" in copy.read_bytes()]


async def test_remote_instructions_can_be_turned_off(
    remote: RemoteInstructions, server: TestServer, site: Site, environment: dict[str, str]
) -> None:
    """CTX-151: absent, and nobody is asked."""
    url = str(server.make_url("/x.md"))
    snapshot = await stored(remote.context([url]))
    environment["OPENCODE_DISABLE_REMOTE_INSTRUCTIONS"] = "True"
    assert (await told(remote.context([url]), snapshot))[0] == module.REMOVED.format(url)
    assert await baseline(remote.context([str(server.make_url("/other.md"))])) == ""
    assert len(site.requests) == 1


async def test_a_removed_url_is_told(remote: RemoteInstructions, server: TestServer) -> None:
    """CTX-152: after a reload without it."""
    url = str(server.make_url("/x.md"))
    snapshot = await stored(remote.context([url]))
    assert (await told(remote.context([]), snapshot))[0] == module.REMOVED.format(url)


async def test_closing_ends_a_refresh_of_remote_instructions(
    hop: Hop, tmp_path: Path, server: TestServer, site: Site, clock: ManualClock
) -> None:
    """CTX-150: a refresh under way ends with the process's services."""
    site.gate = asyncio.Event()
    remote = instructions_at(hop, tmp_path, {}, clock)
    task = asyncio.create_task(baseline(remote.context([str(server.make_url("/x.md"))])))
    await site.asked.wait()
    await remote.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    site.gate.set()


@pytest.mark.parametrize("target", ["https://[broken", "https://other.example:99999/", "https://other.example:port/"])
async def test_an_address_that_cannot_be_read_is_a_failed_refresh(
    tmp_path: Path, clock: ManualClock, target: str
) -> None:
    """CTX-149, CTX-150: a server that redirects into nowhere fails no turn; the last good copy stays."""
    answers = [HopResponse(200, {}, b"be kind"), HopResponse(302, {"location": target})]

    async def fetch(url: str, headers: Mapping[str, str], *, configured: str, limit: int) -> HopResponse:
        if url == target:
            raise FetchFailed("unreachable")
        return answers.pop(0)

    remote = RemoteInstructions(fetch, tmp_path, {}, clock)
    first = await baseline(remote.context(["https://start.example/x"]))
    clock.advance(REFRESH_MILLIS)
    assert await baseline(remote.context(["https://start.example/x"])) == first
    assert answers == []
