"""Credentials and origins."""

from __future__ import annotations

import base64
import re

import httpx2
import pytest
from tests.server.conftest import UNKNOWN, Wire, in_memory

from holdfast.core.runtime.runtime import Runtime
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint
from holdfast.server.app import App
from holdfast.server.auth import Access, Credentials, Hosts
from holdfast.server.head import QUERY_FIELDS

pytestmark = pytest.mark.anyio

PASSWORD = "se:cret"


@pytest.fixture
def credentials() -> Credentials | None:
    return Credentials(PASSWORD)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


GOOD = encoded(f"opencode:{PASSWORD}")
BAD = encoded("opencode:wrong")
UNAUTHORIZED = (401, "UnauthorizedError")


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/api/health"),
        ("GET", "/nowhere"),
        ("DELETE", "/api/health"),
        ("GET", f"/api/session/{UNKNOWN}"),
        ("GET", "/api/event"),
        ("POST", "/api/session"),
    ],
)
async def test_a_missing_credential_beats_everything(memory: Wire, method: str, target: str) -> None:
    """API-009, API-020, API-042: health too, unknown paths and broken payloads too."""
    answer = await memory(method, target, body=b"{broken" if method == "POST" else None)

    assert answer.failure == UNAUTHORIZED
    assert set(answer.json) == {"_tag", "message"}


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
async def test_a_basic_header_with_the_password_is_accepted(memory: Wire, scheme: str) -> None:
    """API-041: the scheme in any case; the password may contain a colon."""
    assert (await memory.get("/api/health", {"authorization": f"{scheme} {GOOD}"})).status == 200


async def test_a_query_token_lets_in(wire: Wire) -> None:
    """API-041: base64 of the same."""
    assert (await wire.get(f"/api/health?auth_token={GOOD}")).status == 200


@pytest.mark.parametrize(
    "value",
    [
        f"Basic {BAD}",
        f"Basic {encoded('opencode')}",
        f"Basic {encoded(f'other:{PASSWORD}')}",
        f"Basic {encoded('opencode:')}",
        f"Basic {encoded('')}",
        "Basic !!!",
        "Basic Ã¿",
        "Basic",
        f"Bearer {GOOD}",
        GOOD,
        "",
    ],
)
async def test_a_wrong_or_unreadable_credential_does_not(memory: Wire, value: str) -> None:
    """API-041: what cannot be decoded is an empty credential, not an error of its own."""
    assert (await memory.get("/api/health", {"authorization": value})).failure == UNAUTHORIZED


async def test_the_query_token_wins_even_when_wrong(wire: Wire) -> None:
    """API-041: over a right header; and right, over a wrong one."""
    assert (await wire.get(f"/api/health?auth_token={BAD}", {"authorization": f"Basic {GOOD}"})).failure == UNAUTHORIZED
    assert (await wire.get(f"/api/health?auth_token={GOOD}", {"authorization": f"Basic {BAD}"})).status == 200


async def test_a_refusal_names_the_scheme_and_can_be_read_across_origins(http: httpx2.AsyncClient) -> None:
    """API-042: challenge and CORS headers on a 401."""
    answer = await http.get("/api/session", headers={"origin": "http://localhost:3000"})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="Secure Area"'
    assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert answer.headers["vary"] == "Origin"


ALLOWED = [
    "http://localhost:3000",
    "http://127.0.0.1:5173",
    "oc://renderer",
    "oc://renderer/index.html",
    "tauri://localhost",
    "http://tauri.localhost",
    "https://tauri.localhost",
    "https://opencode.ai",
    "https://app.opencode.ai",
]
FOREIGN = [
    "https://evil.example",
    "null",
    "",
    "https://localhost:3000",
    "http://localhost.evil.example",
    "http://localhost:3000.evil.example",
    "http://127.0.0.1.evil.example",
    "https://opencode.ai.evil.example",
    "https://evilopencode.ai",
    "http://opencode.ai",
    "oc://other",
    "tauri://localhost.evil",
]
AUTHORIZED = {"authorization": f"Basic {GOOD}"}


async def test_an_allowed_origin_is_echoed(http: httpx2.AsyncClient) -> None:
    """API-044: with `Vary`, and it may write."""
    for origin in ALLOWED:
        answer = await http.get("/api/health", headers={"origin": origin, **AUTHORIZED})
        written = await http.post("/api/session", headers={"origin": origin, **AUTHORIZED}, json={})
        assert [item.headers["access-control-allow-origin"] for item in (answer, written)] == [origin, origin]
        assert "Origin" in answer.headers["vary"]
        assert (answer.status_code, written.status_code) == (200, 200)


async def test_a_configured_origin_is_allowed_exactly(runtime: Runtime) -> None:
    """API-044: the very text, nothing that begins or ends like it."""
    async with in_memory(App(runtime, origins=frozenset({"https://desk.example"}))) as wire:
        for origin, status in (
            ("https://desk.example", 200),
            ("https://desk.example.evil", 403),
            ("https://desk.example:8443", 403),
            ("http://desk.example", 403),
        ):
            assert (await wire.post("/api/session", {}, {"origin": origin})).status == status


WRITES = [endpoint for endpoint in API if endpoint.method not in ("GET", "HEAD")]


@pytest.mark.parametrize("endpoint", WRITES, ids=lambda endpoint: endpoint.operation)
async def test_no_operation_that_writes_takes_a_foreign_page(memory: Wire, endpoint: Endpoint) -> None:
    """API-044, TOL-326: by origin or by host name, credentials or not, before anything is looked up."""
    target = re.sub(r"\{\w+\}", "ses_one", endpoint.path)
    for stranger in ({"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
        for kind in ("application/json", "text/plain"):
            headers = {**AUTHORIZED, **stranger, "content-type": kind}
            answer = await memory(endpoint.method, target, body=b"{}", headers=headers)
            assert answer.failure == (403, "ForbiddenError")


@pytest.mark.parametrize("endpoint", API, ids=lambda endpoint: endpoint.operation)
async def test_no_operation_answers_without_a_credential(memory: Wire, endpoint: Endpoint) -> None:
    """API-009, API-022, API-042: not one, documents and project copies included."""
    target = re.sub(r"\{\w+\}|\*", "x", endpoint.path)

    assert (await memory(endpoint.method, target)).failure == UNAUTHORIZED


async def test_a_foreign_origin_may_only_read(http: httpx2.AsyncClient) -> None:
    """API-044: served without the header, and anything that is not a read is forbidden, preflight or not."""
    for origin in FOREIGN:
        headers = {"origin": origin, **AUTHORIZED}
        read = await http.get("/api/health", headers=headers)
        assert read.status_code == 200, origin
        assert "access-control-allow-origin" not in read.headers
        for kind in ("application/json", "text/plain"):
            written = await http.post("/api/session", headers={**headers, "content-type": kind}, content=b"{}")
            assert (written.status_code, written.json()["_tag"]) == (403, "ForbiddenError"), origin
            assert "access-control-allow-origin" not in written.headers
    assert (await http.get("/api/session", headers=AUTHORIZED)).json()["data"] == []


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example"])
async def test_a_foreign_host_gets_nothing(http: httpx2.AsyncClient, host: str) -> None:
    """API-044, API-410: DNS rebinding: a page whose name was pointed at this machine reads and changes nothing, and is
    not even asked for credentials."""
    for method, path in (("POST", "/api/session"), ("GET", "/api/health"), ("OPTIONS", "/api/session")):
        for headers in (AUTHORIZED, {}):
            answer = await http.request(method, path, headers={"host": host, **headers})
            assert (answer.status_code, answer.json()["_tag"]) == (403, "ForbiddenError")
            assert f"--allow-host {host.removesuffix(':80')}" in answer.json()["message"]


@pytest.mark.parametrize(
    ("hosts", "host", "included"),
    [
        (Hosts(), "localhost", True),
        (Hosts(), "LocalHost:4096", True),
        (Hosts(), "[::1]:4096", True),
        (Hosts(), "localhost.", False),
        (Hosts(), "localhost:evil", False),
        (Hosts(), "127.0.0.2", False),
        (Hosts(), "::1", False),
        (Hosts(), "", False),
        (Hosts(addresses=True), "127.0.0.2:80", True),
        (Hosts(addresses=True), "[2001:db8::1]", True),
        (Hosts(addresses=True), "2001:db8::1", False),
        (Hosts(addresses=True), "[evil.example]", False),
        (Hosts(addresses=True), "evil.example", False),
        (Hosts(addresses=True), "0x7f000001", False),
        (Hosts(frozenset({"agent.example"})), "agent.example:443", True),
        (Hosts(frozenset({"agent.example"})), "localhost", False),
    ],
)
def test_the_names_of_a_server(hosts: Hosts, host: str, included: bool) -> None:
    """API-410: exactly, but for case and port."""
    assert hosts.include(host) is included


@pytest.mark.parametrize(
    ("access", "origin", "known"),
    [
        (Access(Credentials("x"), None), "http://evil.example", True),
        (Access(None, None), "http://evil.example", False),
        (Access(None), "http://evil.example", True),
        (Access(None), "ftp://evil.example", False),
        (Access(None), "evil.example", False),
    ],
)
def test_a_page_of_the_same_host(access: Access, origin: str, known: bool) -> None:
    """API-413: counts as the server's own where its name was checked, or a password is asked for: no page has that
    under a name which it pointed here itself."""
    assert access.knows_origin(origin, "evil.example") is known


async def test_a_query_of_any_length_costs_little_before_credentials(memory: Wire) -> None:
    """API-411: it is counted before it is read."""
    for fields, answer in (
        (QUERY_FIELDS, UNAUTHORIZED),
        (QUERY_FIELDS + 1, (400, "InvalidRequestError")),
    ):
        assert (await memory.get(f"/api/health?{'&'.join(['a=b'] * fields)}")).failure == answer


@pytest.mark.parametrize("path", ["/api/session", "/nowhere"])
async def test_a_preflight_needs_no_credential(http: httpx2.AsyncClient, path: str) -> None:
    """API-045: 204 before authorization, with everything a browser asks for."""
    asked = {"origin": "http://localhost:3000", "access-control-request-method": "POST"}
    answer = await http.options(path, headers={**asked, "access-control-request-headers": "content-type, x-mine"})

    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert answer.headers["access-control-allow-methods"] == "GET, HEAD, PUT, PATCH, POST, DELETE"
    assert answer.headers["access-control-allow-headers"] == "content-type, x-mine"
    assert answer.headers["access-control-max-age"] == "86400"
    assert answer.headers["vary"] == "Access-Control-Request-Headers, Origin"


async def test_a_foreign_preflight_gets_no_permission(http: httpx2.AsyncClient) -> None:
    """API-045: 204, but without the header that would let the browser go on."""
    answer = await http.options("/api/session", headers={"origin": "https://evil.example"})

    assert answer.status_code == 204
    assert "access-control-allow-origin" not in answer.headers
