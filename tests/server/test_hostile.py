"""Callers that mean no good, or do not know what they do."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest
from tests.server.conftest import PATIENCE, Wire, listening

from holdfast.core.runtime.runtime import Runtime
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.server.app import App

pytestmark = pytest.mark.anyio

INVALID = (400, "InvalidRequestError")


async def exchange(url: str, request: bytes) -> bytes:
    """What comes back before the server closes the connection."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(PATIENCE):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_body_that_never_comes_is_not_waited_for(runtime: Runtime) -> None:
    """API-011, API-023: a readable refusal after a bound, and others are served meanwhile."""
    head = b"POST /api/session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    dripping = head + b'content-length: 100\r\nconnection: close\r\n\r\n{"id"'
    chunked = head + b'transfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\n{"id"\r\n'
    async with listening(App(runtime, body_seconds=0.2)) as url:
        answers = await asyncio.gather(
            *(exchange(url, request) for request in (dripping, chunked)),
            exchange(url, b"GET /api/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"),
        )

    assert [answer.split(b"\r\n", 1)[0] for answer in answers] == [
        b"HTTP/1.1 400 Bad Request",
        b"HTTP/1.1 400 Bad Request",
        b"HTTP/1.1 200 OK",
    ]
    assert b"InvalidRequestError" in answers[0]
    assert await runtime.store.find("ses_x") is None


async def test_ten_thousand_headers_are_no_defect(wire: Wire) -> None:
    """API-006: ignored like anything unknown."""
    assert (await wire.get("/api/health", {f"x-{number}": "v" for number in range(10_000)})).status == 200


@pytest.mark.parametrize("query", ["limit[x]=no", "limit[x]=no&limit=1", "limit=1&limit[x]=no", "location[x]=1"])
async def test_a_part_of_what_has_none_is_unknown_and_ignored(memory: Wire, query: str) -> None:
    """API-006: only the location has parts."""
    assert (await memory.get(f"/api/session?{query}")).status == 200
    assert (await memory.get(f"/api/fs/find?query=a&{query}")).status == 200


@pytest.mark.parametrize(
    "query",
    [
        "location=x",
        "location[directory][deep]=/x",
        "location[]=x",
        "location[directory]=%00",
        "location[directory]=%ff%fe",
        "location[directory]=../..",
        "location[directory]=/proc/self/mem",
        "location[workspace]=nope",
        "&".join(f"p{number}={number}" for number in range(5_000)),
        "&&&===&%%%",
    ],
)
async def test_an_odd_query_is_refused_or_ignored(memory: Wire, query: str) -> None:
    """API-006, API-026, API-030: never a defect."""
    assert (await memory.get(f"/api/agent?{query}")).status in (200, 400)


async def test_a_directory_beside_the_location_is_a_filter(memory: Wire, tmp_path: object) -> None:
    """API-035: the released SDK sends its directory as both; on the list of sessions it filters."""
    session = await memory.create()
    here = session["location"]["directory"]
    query = f"directory={here}&location%5Bdirectory%5D={here}"

    assert (await memory.get(f"/api/session?{query}")).data == [session]
    assert (await memory.get(f"/api/session?directory={tmp_path}/other&location%5Bdirectory%5D={here}")).data == []
    assert (await memory.get(f"/api/location?{query}")).json["directory"] == here


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"null",
        b'"text"',
        b"5",
        b"true",
        b'{"title":' + b"[" * 100_000,
        b'{"title":"\\ud800"}',
        b'{"title":"x"',
        b"\xff\xfe",
        b'{"title":5}',
        b'{"title":NaN}',
        b'{"title":"x"}{"title":"y"}',
        b"\x00" * 100,
    ],
    ids=range(13),
)
async def test_a_body_of_the_wrong_kind_changes_nothing(memory: Wire, body: bytes) -> None:
    """API-011, API-023: 400, kind Payload."""
    session = await memory.create()
    answer = await memory("POST", f"/api/session/{session['id']}/rename", body=body)

    assert (answer.failure, answer.json["kind"]) == (INVALID, "Payload")
    assert (await memory.get(f"/api/session/{session['id']}")).data["title"] == session["title"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api//session", 404),
        ("/api/session/", 200),
        ("//api/session", 200),
        ("/api/./session", 404),
        ("/api/session/%2e%2e/health", 404),
        ("/api/session/active%2F..", 400),
        ("/API/session", 404),
        ("/api/session%00", 404),
        ("/api/session/{sessionID}", 400),
        ("/api/fs/*", 404),
        ("/api/fs/read/*", 404),
        ("/api/integration/%2F", 200),
        ("/" + "a/" * 5_000, 404),
    ],
)
async def test_a_path_means_what_it_says(memory: Wire, path: str, status: int) -> None:
    """API-010: no normalisation leads from one operation to another, and a pattern is no path."""
    assert (await memory.get(path)).status == status


def anything(dice: random.Random, depth: int = 0) -> Any:
    """A JSON value, more often odd than not."""
    plain = [None, True, 0, -1, 2**63, 1.5, "", "x", "../..", "msg_x", "ses_x", "\0", "\ud83d\ude00", "a" * 3_000]
    if depth > 2 or dice.random() < 0.6:
        return dice.choice(plain)
    if dice.random() < 0.5:
        return [anything(dice, depth + 1) for _ in range(dice.randrange(3))]
    return {str(dice.choice(plain)): anything(dice, depth + 1) for _ in range(dice.randrange(3))}


def filled(path: str, dice: random.Random, session: str) -> str:
    ids = ["x", "msg_x", "per_x", "que_x", "con_x", "%00", "%2e%2e", "a" * 3_000]
    return re.sub(r"\{\w+\}|\*", lambda _: dice.choice(ids), path.replace("{sessionID}", session))


ANSWERABLE = [item for item in API if item.envelope is not Envelope.STREAM and item.group != "ptys"]


@pytest.mark.parametrize("endpoint", ANSWERABLE, ids=lambda endpoint: endpoint.operation)
async def test_no_request_is_a_defect(memory: Wire, endpoint: Endpoint) -> None:
    """API-021, API-023, API-025, API-026: whatever is sent, the answer is a result or a declared refusal."""
    dice = random.Random(endpoint.operation)
    declared = {200, 204, *(error.status for error in endpoint.declared_errors)}
    fields = msgspec.structs.fields(endpoint.payload) if endpoint.payload else ()
    names = msgspec.structs.fields(endpoint.query) if endpoint.query else ()
    session = (await memory.create())["id"]
    for _ in range(12):
        payload = {field.encode_name: anything(dice) for field in fields if dice.random() < 0.8}
        query = {field.encode_name: str(anything(dice, 9)) for field in names if dice.random() < 0.5}
        target = f"{filled(endpoint.path, dice, session)}?{urlencode(query, errors='surrogatepass')}"
        answer = await memory(endpoint.method, target, payload if fields else ...)
        assert answer.status in declared | {404}, (target, payload, answer.body)
        if answer.status >= 400:
            assert {"_tag", "message"} <= set(answer.json) or answer.json["name"] == "ProjectCopyError"
        if answer.status == 204 and endpoint.name == "delete":
            session = (await memory.create())["id"]
