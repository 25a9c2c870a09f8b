"""Paths and methods that are not in the API, hostile ones among them."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.server.conftest import PATIENCE, UNKNOWN, Wire, eventually

from holdfast.core.runtime.runtime import Runtime
from holdfast.protocol.openapi import document

pytestmark = pytest.mark.anyio

INVALID = (400, "InvalidRequestError")


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/apix/health",
        "/api/sessions",
        "/api/session/ses_one/unknown",
        "/api/session/ses_one/message/msg_1/more",
        "/api//health",
        "/api/session//message",
        "/api/session/ses_one//message",
        "/api/session/../health",
        "/api/session/%2e%2e/health",
        "/api/session/..%2Fhealth",
        "/api/session/ses_one/message/../../active",
        "/api/%68ealth/%00",
        "/API/health",
        "/" + "a" * 30_000,
        "/" + "a/" * 15_000,
    ],
    ids=lambda path: path[:40],
)
async def test_an_unknown_path_is_a_tagged_404(memory: Wire, path: str) -> None:
    """API-010: hostile ones too; nothing is normalised into another route."""
    answer = await memory.get(path)

    assert answer.status in (400, 404)
    assert answer.json["_tag"] in ("NotFoundError", "InvalidRequestError")
    assert len(answer.body) < 2000


@pytest.mark.parametrize("path", ["/api/session/{sessionID}", "/api/session/{sessionID}/message/{messageID}"])
async def test_a_template_is_no_path(memory: Wire, path: str) -> None:
    """API-024: braces in a path are an id like any other, here a malformed one."""
    assert (await memory.get(path)).failure == INVALID


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/session"),
        ("PUT", "/api/session/ses_one"),
        ("PATCH", "/api/health"),
        ("POST", "/api/health"),
        ("GET", "/api/session/ses_one/prompt"),
        ("POST", "/api/session/ses_one/event"),
        ("TRACE", "/api/health"),
        ("BREW", "/api/health"),
    ],
)
async def test_a_wrong_method_is_a_tagged_405(memory: Wire, method: str, path: str) -> None:
    """API-010: on a known path only."""
    assert (await memory(method, path)).failure == (405, "MethodNotAllowedError")


async def exchange(url: str, request: bytes) -> bytes:
    """Exactly these bytes, without a client library that tidies them."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(request + b"host: localhost\r\nconnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), timeout=PATIENCE)
    writer.close()
    await writer.wait_closed()
    return answer


HOSTILE = (
    b"GET /api/session/../health HTTP/1.1",
    b"GET /api/session/%2e%2e%2f%2e%2e%2fetc%2fpasswd HTTP/1.1",
    b"GET /api/session/%zz HTTP/1.1",
    b"GET /api/%ff%fe HTTP/1.1",
    b"GET //api//health HTTP/1.1",
    b"GET * HTTP/1.1",
    b"BREW /api/health HTTP/1.1",
    b"GET /api/health HTTP/9.9",
    b"nonsense",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1",
)


async def test_hostile_request_lines_leave_the_server_well(url: str) -> None:
    """API-010: an answer in the 400s or a closed connection, and the next request is served."""
    for line in HOSTILE:
        answer = await exchange(url, line + b"\r\n")
        assert answer == b"" or answer.split(b" ", 2)[1][:1] == b"4", line[:50]
        assert b'{"healthy":true}' in await exchange(url, b"GET /api/health HTTP/1.1\r\n")


async def test_head_answers_like_get_without_a_body(http: httpx2.AsyncClient) -> None:
    """API-002, API-010: same status and headers, errors too."""
    for path in ("/api/health", "/api/session", f"/api/session/{UNKNOWN}", "/nowhere"):
        head, got = await http.head(path), await http.get(path)
        assert head.content == b""
        assert head.status_code == got.status_code
        assert head.headers["content-type"] == got.headers["content-type"]


async def test_head_of_a_stream_ends(url: str, runtime: Runtime) -> None:
    """API-210, API-211: only the headers; neither the connection is held by it nor a listener left behind."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(b"HEAD /api/event HTTP/1.1\r\nhost: localhost\r\n\r\n")
        writer.write(b"HEAD /api/health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        heads = [await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), timeout=PATIENCE) for _ in range(2)]
    finally:
        writer.close()
        await writer.wait_closed()

    assert b"text/event-stream" in heads[0]
    assert b"application/json" in heads[1]
    await eventually(lambda: not runtime.log.bus.observed)


async def test_the_server_publishes_its_openapi_document(wire: Wire) -> None:
    """API-010: the very document that is compared with the contract."""
    answer = await wire.get("/openapi.json")

    assert (answer.status, answer.content_type) == (200, "application/json")
    assert answer.json == json.loads(json.dumps(document()))
