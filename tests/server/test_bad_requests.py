"""What is refused, in which order it is looked at, and how the refusal reads."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.server.conftest import UNKNOWN, Wire

from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint, EndpointScope
from holdfast.schema import errors

pytestmark = pytest.mark.anyio

INVALID = (400, "InvalidRequestError")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"id": "ses_',
        b'{"id": ses_1}',
        b"{} {}",
        b"\xff\xfe",
        b'{"id": "ses_\xff"}',
        b'{"id": "ses_\\ud800"}',
        b"[]",
        b"null",
        b'"text"',
        b"5",
        b'{"x":' * 200_000,
        b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    ],
    ids=lambda body: repr(body[:16]),
)
async def test_a_body_that_is_no_object_is_refused(memory: Wire, body: bytes) -> None:
    """API-011, API-023: broken, cut, badly encoded, of another type, or too deep: 400 of kind Payload, never 500."""
    answer = await memory("POST", "/api/session", body=body)

    assert answer.failure == INVALID
    assert answer.content_type == "application/json"
    assert answer.json["kind"] == "Payload"
    assert (await memory.get("/api/session")).data == []


ACCEPTED_NULLS = [
    ("/api/session", {"id": None, "agent": None, "model": None, "location": None}),
    ("/api/session/ses_one/prompt", {"prompt": {"text": ""}, "id": None, "delivery": None, "resume": None}),
]
PROMPT = {"text": "x"}
REFUSED: list[tuple[str, Any, str]] = [
    ("", {"id": 5}, '["id"]'),
    ("", {"id": "nope_1"}, '["id"]'),
    ("", {"agent": ["build"]}, '["agent"]'),
    ("", {"model": "demo/echo"}, '["model"]'),
    ("", {"model": {"id": "echo", "providerID": "demo", "variant": None}}, '["model"]["variant"]'),
    ("", {"location": {"directory": None}}, '["location"]["directory"]'),
    ("", {"location": {"directory": "/", "workspaceID": None}}, '["location"]["workspaceID"]'),
    ("", {"location": {"directory": "/", "workspaceID": "nope"}}, '["location"]["workspaceID"]'),
    ("/ses_one/prompt", {"prompt": None}, '["prompt"]'),
    ("/ses_one/prompt", {"prompt": "hi"}, '["prompt"]'),
    ("/ses_one/prompt", {"prompt": {"text": None}}, '["prompt"]["text"]'),
    ("/ses_one/prompt", {"prompt": {"text": "x", "files": None}}, '["prompt"]["files"]'),
    ("/ses_one/prompt", {"prompt": {"text": "x", "files": [{}]}}, '["prompt"]["files"]'),
    ("/ses_one/prompt", {"prompt": {"text": "x", "files": [{"uri": "a", "name": None}]}}, '["prompt"]["files"]'),
    ("/ses_one/prompt", {"prompt": {"text": "x", "agents": {}}}, '["prompt"]["agents"]'),
    ("/ses_one/prompt", {"prompt": PROMPT, "id": "bad"}, '["id"]'),
    ("/ses_one/prompt", {"prompt": PROMPT, "delivery": "later"}, '["delivery"]'),
    ("/ses_one/prompt", {"prompt": PROMPT, "resume": "yes"}, '["resume"]'),
]


@pytest.mark.parametrize(("tail", "payload", "place"), REFUSED)
async def test_a_payload_of_the_wrong_shape_is_refused(memory: Wire, tail: str, payload: Any, place: str) -> None:
    """API-005, API-007, API-023: nulls inside records and wrong types; the message says where."""
    await memory.create(id="ses_one")
    answer = await memory.post(f"/api/session{tail}", payload)

    assert answer.failure == INVALID
    assert answer.json["kind"] == "Payload"
    assert f"at {place}" in answer.json["message"]


@pytest.mark.parametrize(
    ("tail", "payload", "place"),
    [
        ("", {"model": {"id": "echo"}}, '["model"]["providerID"]'),
        ("", {"location": {}}, '["location"]["directory"]'),
        ("/ses_one/prompt", {}, '["prompt"]'),
        ("/ses_one/prompt", {"prompt": {}}, '["prompt"]["text"]'),
    ],
)
async def test_a_missing_key_is_named_with_its_path(memory: Wire, tail: str, payload: Any, place: str) -> None:
    """API-023: the path ends in the key that is missing."""
    await memory.create(id="ses_one")
    answer = await memory.post(f"/api/session{tail}", payload)

    assert (answer.failure, answer.json["kind"]) == (INVALID, "Payload")
    assert answer.json["message"].endswith(f"at {place}")


@pytest.mark.parametrize(("target", "payload"), ACCEPTED_NULLS)
async def test_null_at_the_top_of_a_payload_is_absence(memory: Wire, target: str, payload: Any) -> None:
    """API-005: for every optional field of create and prompt."""
    await memory.create(id="ses_one")

    assert (await memory.post(target, payload)).status == 200


async def test_a_missing_body_counts_as_empty_only_where_nothing_is_required(wire: Wire) -> None:
    """API-011: the real SDK sends none for `create({})`."""
    session = (await wire.post("/api/session")).data["id"]
    answer = await wire.post(f"/api/session/{session}/prompt")

    assert answer.failure == INVALID
    assert answer.json["kind"] == "Payload"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"])
async def test_another_content_type_is_refused(memory: Wire, kind: str) -> None:
    """API-011: 415, and nothing is created."""
    assert (await memory("POST", "/api/session", body=b"{}", headers={"content-type": kind})).status == 415
    assert (await memory.get("/api/session")).data == []


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
async def test_a_json_media_type_may_have_parameters(memory: Wire, kind: str) -> None:
    """API-001: the media type counts, in any case, whatever follows it."""
    assert (await memory("POST", "/api/session", body=b"{}", headers={"content-type": kind})).status == 200


HUGE = "9" * 30
BAD_QUERIES = [
    *(f"/api/session?limit={value}" for value in ("0", "-1", "x", "", "1.5", "null", "NaN", HUGE)),
    *(f"/api/session?order={value}" for value in ("", "sideways", "ASC")),
    *(f"/api/session/ses_one/message?limit={value}" for value in ("0", "201", "x")),
    *(f"/api/session/ses_one/history?{query}" for query in ("limit=0", "limit=101", "after=-1", "after=x")),
    *(f"/api/session/ses_one/event?after={value}" for value in ("-1", "x", "1.5")),
]


@pytest.mark.parametrize("target", BAD_QUERIES)
async def test_a_query_out_of_bounds_is_refused(memory: Wire, target: str) -> None:
    """API-023, API-110, API-122, API-126: kind Query, and the parameter is named."""
    await memory.create(id="ses_one")
    answer = await memory.get(target)

    assert answer.failure == INVALID
    assert answer.json["kind"] == "Query"
    assert "at [" in answer.json["message"]


async def test_a_sequence_beyond_any_log_is_no_defect(memory: Wire) -> None:
    """API-023: refused as a bad query, or simply nothing there; never 500."""
    await memory.create(id="ses_one")

    assert (await memory.get(f"/api/session/ses_one/history?after={HUGE}")).status in (200, 400)


async def test_a_long_message_is_cut(memory: Wire) -> None:
    """API-023: after 1024 characters, and it says how much is missing."""
    message = (await memory.get(f"/api/session?order={'x' * 5000}")).json["message"]

    head, dots, tail = message.partition("... (")
    assert len(head) == 1024
    assert dots
    assert tail.endswith(" more chars)")


async def test_a_malformed_session_id_is_named_as_a_field(wire: Wire) -> None:
    """API-007, API-024: 400 with `field` and without `kind`, for each session route."""
    for tail in ("", "/context", "/message/msg_1", "/message/nope", "/event"):
        answer = await wire.get(f"/api/session/nope{tail}")
        assert answer.failure == INVALID
        assert answer.json["field"] == "sessionID"
        assert "kind" not in answer.json


async def test_a_malformed_message_id_is_an_ordinary_parameter(memory: Wire) -> None:
    """API-007, API-024: kind Params, no field."""
    await memory.create(id="ses_one")
    answer = await memory.get("/api/session/ses_one/message/nope")

    assert answer.failure == INVALID
    assert answer.json["kind"] == "Params"
    assert "field" not in answer.json


@pytest.mark.parametrize(
    ("method", "tail", "body", "status"),
    [
        ("POST", "/prompt", b"{", 400),
        ("POST", "/prompt", b'{"prompt": 5}', 400),
        ("POST", "/prompt", None, 400),
        ("GET", "/history?limit=0", None, 400),
        ("GET", "/event?after=-1", None, 400),
        ("GET", "/message/nope", None, 400),
        ("GET", "/message?cursor=nonsense", None, 400),
    ],
)
async def test_an_unknown_session_beats_everything_wrong_with_the_request(
    memory: Wire, method: str, tail: str, body: bytes | None, status: int
) -> None:
    """API-009: 404 on an unknown session; the same request on a known one is 400."""
    await memory.create(id="ses_one")

    assert (await memory(method, f"/api/session/{UNKNOWN}{tail}", body=body)).failure == (404, "SessionNotFoundError")
    assert (await memory(method, f"/api/session/ses_one{tail}", body=body)).status == status


async def test_an_unknown_session_beats_a_wrong_content_type(memory: Wire) -> None:
    """API-009: nothing of the payload is looked at."""
    answer = await memory("POST", f"/api/session/{UNKNOWN}/prompt", body=b"hi", headers={"content-type": "text/plain"})

    assert answer.failure == (404, "SessionNotFoundError")


@pytest.mark.parametrize("endpoint", API, ids=lambda endpoint: endpoint.operation)
def test_every_endpoint_declares_what_may_refuse_it(endpoint: Endpoint) -> None:
    """API-022: 400 and 401 everywhere, 404 for the session where one is in the path; a purge has them in its body."""
    declared = set(endpoint.declared_errors)
    named = endpoint.scope in (EndpointScope.SESSION, EndpointScope.FORM)

    assert {errors.InvalidRequestError, errors.UnauthorizedError} <= declared
    assert (errors.SessionNotFoundError in declared) == (named or endpoint.operation == "holdfast.session.purge")


@pytest.mark.parametrize(
    ("error", "status", "fields"),
    [
        (errors.InvalidRequestError, 400, {"message", "kind", "field"}),
        (errors.InvalidCursorError, 400, {"message"}),
        (errors.UnauthorizedError, 401, {"message"}),
        (errors.ForbiddenError, 403, {"message", "role"}),
        (errors.SessionNotFoundError, 404, {"message", "sessionID"}),
        (errors.MessageNotFoundError, 404, {"message", "sessionID", "messageID"}),
        (errors.ConflictError, 409, {"message", "resource"}),
        (errors.TooManyRequestsError, 429, {"message", "retryAfter"}),
        (errors.UnknownError, 500, {"message", "ref"}),
        (errors.ServiceUnavailableError, 503, {"message", "service"}),
        (errors.InsufficientStorageError, 507, {"message", "limit"}),
    ],
)
def test_errors_have_the_fields_of_the_contract(error: type[errors.PublicError], status: int, fields: set[str]) -> None:
    """API-020: tag, status and fields; optional ones are left out when absent."""
    full = error(**{field.name: "x" for field in msgspec.structs.fields(error)})

    assert json.loads(msgspec.json.encode(full)) == {"_tag": error.__name__, **dict.fromkeys(fields, "x")}
    assert error.status == status
