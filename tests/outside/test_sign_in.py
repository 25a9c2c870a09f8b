"""The page and its sign-ins, as a browser uses them: a real server, and nothing but HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, Server, finish
from tests.outside.test_left_behind import client_of
from tests.outside.wire import Wire, failure, serving
from tests.outside.world import World
from tests.plain_http import NO_TLS
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from holdfast import asgi

PASSWORD = "a password"
Serve = Callable[..., Server]


class Browser(NamedTuple):
    cookie: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        """What a page sends that is signed in."""
        return {"cookie": self.cookie, "x-holdfast-key": self.key, "sec-fetch-site": "same-origin"}


def sign_in(url: str, **payload: str) -> Browser:
    """As the page does it."""
    answer = httpx2.post(
        f"{url}/web/sign-in", json=payload or {"password": PASSWORD}, headers={"origin": url}, verify=NO_TLS
    )
    assert answer.status_code == 200, answer.text
    return Browser(answer.headers["set-cookie"].partition(";")[0], answer.json()["key"])


def status(url: str, headers: dict[str, str], path: str = "/api/session") -> int:
    return httpx2.get(f"{url}{path}", headers=headers, verify=NO_TLS).status_code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with serving(tmp_path_factory.mktemp("machine"), OPENCODE_SERVER_PASSWORD=PASSWORD) as wire:
        yield wire


@pytest.fixture
def url(server: Wire) -> str:
    return str(server.http.base_url).rstrip("/")


def test_anybody_gets_the_page_and_its_files(server: Wire) -> None:
    """WEB-001, WEB-002, WEB-003, WEB-005: and nothing else; files are kept for good, the document never."""
    page = server.get("/")
    assert (page.status_code, page.headers["cache-control"]) == (200, "no-store")
    assert 'data-auth="required" data-signed-in="false"' in page.text
    assert "default-src 'self'" in page.headers["content-security-policy"]
    paths = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
    assert paths
    for path in paths:
        file = server.get(f"/{path}")
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["content-encoding"] == "gzip"
    assert failure(server.get("/web/assets/0000000000000000/app.js")) == (404, "NotFoundError")
    assert failure(server.get("/web/stream")) == failure(server.get("/api/session")) == (401, "UnauthorizedError")
    assert server.get("/", headers={"host": "evil.example"}).status_code == 403


@pytest.mark.anyio
async def test_a_mounted_application_can_do_without_the_page(world: World) -> None:
    """WEB-004: and has it otherwise."""
    for page, expected in ((True, [200, 200, 200]), (False, [404, 404, 200])):
        application = asgi(world.host(), page=page)
        transport = httpx2.ASGITransport(application)
        async with application.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            paths = ("/", "/web/sign-ins", "/api/health")
            assert [(await http.get(path)).status_code for path in paths] == expected


def test_both_halves_of_a_sign_in_are_needed(url: str) -> None:
    """WEB-010, WEB-011, WEB-013: a page on another port of the host gets the cookie, and can do nothing with it."""
    browser = sign_in(url)
    assert browser.cookie.startswith("holdfast_")
    assert status(url, browser.headers) == 200
    stranger = {"cookie": browser.cookie, "origin": "http://127.0.0.1:3000", "sec-fetch-mode": "cors"}
    assert status(url, stranger) == 401
    assert status(url, {"x-holdfast-key": browser.key}) == 401
    forged = httpx2.post(f"{url}/api/session", headers={"cookie": browser.cookie}, json={}, verify=NO_TLS)
    assert forged.status_code == 401
    refused = httpx2.get(f"{url}/api/session", headers=stranger, verify=NO_TLS)
    assert "www-authenticate" not in refused.headers


def test_pages_of_other_origins_cannot_sign_in(url: str) -> None:
    """WEB-014."""
    for origin in ("https://evil.example", "http://localhost:3000"):
        answer = httpx2.post(
            f"{url}/web/sign-in", json={"password": PASSWORD}, headers={"origin": origin}, verify=NO_TLS
        )
        assert answer.status_code == 403


def test_sign_ins_are_listed_and_ended_one_by_one(url: str) -> None:
    """WEB-017, WEB-018."""
    one, other = sign_in(url), sign_in(url)
    listed = httpx2.get(f"{url}/web/sign-ins", headers=one.headers, verify=NO_TLS).json()
    (current,) = [each["id"] for each in listed if each["current"]]
    newest = listed[-1]["id"]
    assert newest != current
    with httpx2.stream("GET", f"{url}/web/stream", headers=other.headers, verify=NO_TLS) as stream:
        lines = stream.iter_lines()
        assert '"hello"' in next(lines)
        ended = httpx2.delete(f"{url}/web/sign-ins/{newest}", headers=one.headers, verify=NO_TLS)
        assert ended.status_code == 204
        assert '"signed-out"' in "".join(lines)
    assert status(url, other.headers) == 401
    out = httpx2.post(f"{url}/web/sign-out", headers={**one.headers, "origin": url}, verify=NO_TLS)
    assert (out.status_code, "Max-Age=0" in out.headers["set-cookie"]) == (204, True)
    assert status(url, one.headers) == 401


def test_failures_are_slowed_down_and_a_code_is_not(server: Wire, url: str) -> None:
    """WEB-015, WEB-021: the owner gets in whatever another program on the machine does."""
    for _ in range(5):
        wrong = httpx2.post(f"{url}/web/sign-in", json={"password": "wrong"}, verify=NO_TLS)
        assert failure(wrong) == (401, "UnauthorizedError")
    made = httpx2.post(f"{url}/web/code", auth=("opencode", PASSWORD), verify=NO_TLS).json()["path"]
    browser = sign_in(url, code=made.removeprefix("/#/code/"))
    assert status(url, browser.headers) == 200
    assert status(url, sign_in(url).headers) == 200
    assert httpx2.post(f"{url}/web/code", headers=browser.headers, verify=NO_TLS).status_code == 401


def test_a_restart_keeps_sign_ins_and_another_password_ends_them(holdfast: Machine, serve: Serve) -> None:
    """WEB-012, WEB-019, WEB-020."""

    def restarted(server: Server | None, **environment: str) -> Server:
        if server is not None:
            server.process.terminate()
            assert finish(server.process).code == 0
        return serve(**environment)

    server = restarted(None, OPENCODE_SERVER_PASSWORD=PASSWORD)
    browser = sign_in(server.url)
    server = restarted(server, OPENCODE_SERVER_PASSWORD=PASSWORD)
    assert status(server.url, browser.headers) == 200
    server = restarted(server, OPENCODE_SERVER_PASSWORD="another")
    assert status(server.url, browser.headers) == 401
    server = restarted(server)
    generated = (holdfast.home / "state" / "holdfast" / "server-password").read_text(encoding="ascii").strip()
    browser = sign_in(server.url, password=generated)
    server = restarted(server)  # with a new password that nobody chose
    assert status(server.url, browser.headers) == 200


def test_without_a_password_nobody_signs_in(holdfast: Machine, serve: Serve) -> None:
    """WEB-016."""
    url = serve("--no-auth").url
    assert 'data-auth="none"' in httpx2.get(f"{url}/", verify=NO_TLS).text
    with httpx2.stream("GET", f"{url}/web/stream", verify=NO_TLS) as stream:
        assert '"hello"' in next(stream.iter_lines())


@pytest.mark.anyio
async def test_a_sign_in_is_good_at_every_server_and_ends_at_all(holdfast: Machine, serve: Serve) -> None:
    """WEB-018: also terminals of another server, which are used through the one that the page is at."""
    holdfast.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    first, second = serve(), serve()
    browser = sign_in(first.url)
    assert status(second.url, browser.headers) == 200
    async with (
        client_of(second, holdfast) as there,
        httpx2.AsyncClient(headers=browser.headers, timeout=PATIENCE, verify=NO_TLS) as http,
    ):
        made = (await there.ptys.create(command="/bin/cat")).data
        token = f"{first.url}/api/pty/{made.id}/connect-token"
        ticket = (await http.post(token, headers={"x-opencode-ticket": "1"})).json()["data"]["ticket"]
        target = f"ws{first.url.removeprefix('http')}/api/pty/{made.id}/connect?ticket={ticket}"
        async with (
            connect(target, proxy=None) as socket,
            http.stream("GET", f"{second.url}/web/stream") as stream,
        ):
            lines = stream.aiter_lines()
            assert '"hello"' in await anext(lines)
            assert (await http.post(f"{first.url}/web/sign-out")).status_code == 204
            async with asyncio.timeout(PATIENCE):
                with suppress(ConnectionClosed):
                    while True:
                        await socket.recv()
                assert socket.close_code == 1008
                assert '"signed-out"' in "".join([line async for line in lines])
