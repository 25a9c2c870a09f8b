"""The HTTP contract on a running server: envelopes, nulls, the order of checks, every kind of refusal."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from tests.outside.wire import ECHO, Wire, failure, serving

UNKNOWN = "/api/session/ses_0000000000000000000000000a"
INVALID = (400, "InvalidRequestError")


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with serving(tmp_path_factory.mktemp("contract"), "--no-auth") as wire:
        yield wire


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """One that asks for a password."""
    with serving(tmp_path_factory.mktemp("locked"), OPENCODE_SERVER_PASSWORD="s3cret:with colon") as wire:
        yield wire


def test_every_answer_has_one_of_few_envelopes(wire: Wire) -> None:
    """API-001, API-002, API-003, API-100, API-101: JSON with `data`, with a location, as a page, as history; health and
    the location are bare; success is 200 with a body or 204 without."""
    session = wire.create()
    project = str(wire.machine.project)
    answers: dict[str, Any] = {}
    for path in ("/api/health", "/api/location", session, "/api/agent", "/api/session", f"{session}/history"):
        answer = wire.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        answers[path] = answer.json()
    assert answers["/api/health"] == {"healthy": True}
    assert answers["/api/location"] == {"directory": project, "project": {"id": "global", "directory": "/"}}
    assert list(answers[session]) == ["data"]
    assert answers["/api/agent"]["location"] == answers["/api/location"]
    assert set(answers["/api/session"]) == {"data", "cursor"}
    assert answers[f"{session}/history"] == {"data": [], "hasMore": False}
    done = wire.post(f"{session}/interrupt")
    assert (done.status_code, done.content) == (204, b"")


def test_absent_keys_are_left_out_or_null_as_the_contract_has_it(wire: Wire) -> None:
    """API-005, API-006, API-112: records omit, empty pages say null; top-level nulls count as absent, nested ones are
    refused; unknown keys and parameters are ignored."""
    made = wire.post("/api/session", {"agent": None, "model": None, "location": None, "surprise": 1}).json()["data"]
    assert {"id", "projectID", "cost", "tokens", "time", "title", "location"} <= set(made)
    assert set(made).isdisjoint({"agent", "model", "parentID", "revert"})
    session = f"/api/session/{made['id']}"
    assert wire.get("/api/session", params={"search": "no such title", "surprise": "1"}).json() == {
        "data": [],
        "cursor": {"previous": None, "next": None},
    }
    given = {"prompt": {"text": "x"}, "delivery": None, "id": None, "resume": False}
    assert wire.post(f"{session}/prompt", given).json()["data"]["delivery"] == "steer"
    for path, payload in (
        ("/api/session", {"model": {**ECHO, "variant": None}}),
        ("/api/session", {"location": {"directory": "/", "workspaceID": None}}),
        (f"{session}/prompt", {"prompt": {"text": "x", "files": None}}),
    ):
        assert failure(wire.post(path, payload)) == INVALID


def test_errors_of_a_request_are_checked_in_one_order(wire: Wire, locked: Wire) -> None:
    """API-009, API-042: no credential beats an unknown Session, which beats a bad payload, query or second id."""
    session = wire.create()
    for path in (f"{UNKNOWN}/prompt", f"{session}/prompt"):
        assert failure(locked.post(path, {"bad": 1})) == (401, "UnauthorizedError")
    unknown = [
        wire.post(f"{UNKNOWN}/prompt", {"bad": 1}),
        wire.get(f"{UNKNOWN}/history?limit=0"),
        wire.get(f"{UNKNOWN}/message/nonsense"),
    ]
    assert [failure(answer) for answer in unknown] == [(404, "SessionNotFoundError")] * 3
    known = [
        wire.post(f"{session}/prompt", {"bad": 1}),
        wire.get(f"{session}/history?limit=0"),
        wire.get(f"{session}/message/nonsense"),
    ]
    assert [failure(answer) for answer in known] == [INVALID] * 3
    assert [answer.json()["kind"] for answer in known] == ["Payload", "Query", "Params"]


def test_a_refusal_says_what_and_where(wire: Wire) -> None:
    """API-020, API-023, API-024: the path inside the payload; a bad Session id is a field; a long message is cut."""
    session = wire.create()
    missing = wire.post(f"{session}/prompt", {"prompt": {}}).json()
    assert '["prompt"]["text"]' in missing["message"]
    malformed = wire.get("/api/session/nonsense").json()
    assert (malformed["_tag"], malformed["field"], malformed.get("kind")) == ("InvalidRequestError", "sessionID", None)
    long = wire.post("/api/session", {"id": "x" * 5000}).json()["message"]
    assert len(long) <= 1024 + len("... (5000 more chars)")


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'{"x":' * 50_000])
def test_a_body_that_is_no_object_is_refused(wire: Wire, body: bytes) -> None:
    """API-011: as a bad payload, never as a failure of the server; another type of content is 415."""
    answer = wire.http.post("/api/session", content=body, headers={"content-type": "application/json"})
    assert failure(answer) == INVALID
    assert answer.json()["kind"] == "Payload"
    assert wire.http.post("/api/session", content=b"x=1", headers={"content-type": "text/plain"}).status_code == 415
    assert wire.http.post(f"{wire.create()}/prompt").status_code == 400
    assert wire.http.post("/api/session").status_code == 200


def test_unknown_paths_and_methods_are_tagged(wire: Wire) -> None:
    """API-010, API-012, API-031: 404 and 405; the server describes itself, marks what is its own, and its places are
    one nested parameter."""
    assert wire.get("/api/nothing").status_code == 404
    assert wire.get("/api/nothing").json()["_tag"]
    wrong = wire.http.delete("/api/health")
    assert (wrong.status_code, bool(wrong.json()["_tag"])) == (405, True)
    document = wire.get("/openapi.json").json()
    operations = [op for path in document["paths"].values() for op in path.values() if isinstance(op, dict)]
    own = [op for op in operations if any(key.startswith("x-") for key in op)]
    assert 0 < len(own) < len(operations)
    assert "/api/session/{sessionID}/pending" in document["paths"]
    agent = document["paths"]["/api/agent"]["get"]["parameters"]
    (place,) = [parameter for parameter in agent if parameter["name"] == "location"]
    assert place["style"] == "deepObject"


def test_a_place_is_chosen_by_query_then_header_then_process(wire: Wire) -> None:
    """API-026, API-030, API-033, API-034: an empty string is no choice; a folder that is not there is 400; the
    Session's own routes and its creation do not look at the header."""
    folders = [wire.machine.home / name for name in ("one", "two words")]
    for folder in folders:
        folder.mkdir()
    one, two = map(str, folders)
    header = {"x-opencode-directory": two.replace(" ", "%20")}

    def place(query: dict[str, str], headers: dict[str, str]) -> Any:
        return wire.get("/api/location", params=query, headers=headers).json()["directory"]

    assert place({"location[directory]": one}, header) == one
    assert place({"location[directory]": ""}, header) == two
    assert place({}, header) == two
    assert place({}, {}) == str(wire.machine.project)
    assert failure(wire.get("/api/location", params={"location[directory]": "/absent"})) == INVALID
    bad = {"location[directory]": one, "location[workspace]": "nonsense"}
    assert failure(wire.get("/api/location", params=bad)) == INVALID
    placed = wire.get("/api/location", params={"location[directory]": one, "location[workspace]": "wrk_1"}).json()
    assert placed["workspaceID"] == "wrk_1"
    created = wire.http.post("/api/session", json={}, headers=header).json()["data"]
    assert created["location"]["directory"] == str(wire.machine.project)
    seen = wire.get(f"/api/session/{created['id']}", headers=header).json()["data"]
    assert seen == created


def test_a_password_is_asked_for_everywhere(locked: Wire) -> None:
    """API-022, API-040, API-041, API-042: basic credentials or a token in the query, which wins; also for health and
    project copies; the answer says how to log in."""
    good = base64.b64encode(b"opencode:s3cret:with colon").decode()
    bad = base64.b64encode(b"opencode:wrong").decode()
    for path in ("/api/health", "/api/session", "/api/event", "/openapi.json"):
        answer = locked.get(path)
        assert failure(answer) == (401, "UnauthorizedError")
        assert answer.headers["www-authenticate"] == 'Basic realm="Secure Area"'
    assert failure(locked.post("/experimental/project/x/copy")) == (401, "UnauthorizedError")
    health = "/api/health"
    assert locked.get(health, headers={"authorization": f"basic {good}"}).status_code == 200
    assert locked.get(health, params={"auth_token": good}).status_code == 200
    assert locked.get(health, params={"auth_token": bad}, headers={"authorization": f"Basic {good}"}).status_code == 401
    for header in (f"Basic {bad}", "Basic ???", f"Bearer {good}", ""):
        assert locked.get(health, headers={"authorization": header}).status_code == 401


def test_pages_of_other_origins_may_not_change_anything(locked: Wire) -> None:
    """API-042, API-044, API-045, TOL-308, TOL-326: allowed origins are echoed, also on a refusal; a foreign page reads
    without the header and writes nothing; a preflight needs no credential."""
    credential = {"authorization": "Basic " + base64.b64encode(b"opencode:s3cret:with colon").decode()}
    near, far = {"origin": "http://localhost:3000"}, {"origin": "https://evil.example"}
    allowed = locked.get("/api/health", headers={**credential, **near})
    assert allowed.headers["access-control-allow-origin"] == near["origin"]
    assert "origin" in allowed.headers["vary"].lower()
    assert locked.get("/api/health", headers=near).headers["access-control-allow-origin"] == near["origin"]
    read = locked.get("/api/health", headers={**credential, **far})
    assert (read.status_code, "access-control-allow-origin" in read.headers) == (200, False)
    assert failure(locked.http.post("/api/session", json={}, headers={**credential, **far})) == (403, "ForbiddenError")
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "x-one, x-two"}
    preflight = locked.http.options("/api/session", headers={**near, **asked})
    assert (preflight.status_code, preflight.content) == (204, b"")
    assert preflight.headers["access-control-allow-methods"] == "GET, HEAD, PUT, PATCH, POST, DELETE"
    assert preflight.headers["access-control-allow-headers"] == "x-one, x-two"
    assert preflight.headers["access-control-max-age"] == "86400"
    refused = locked.http.options("/api/session", headers={**far, **asked})
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (204, False)


def test_the_stream_of_a_session_is_plain_sse(wire: Wire) -> None:
    """API-200, API-204, API-206, API-202: only `data:` lines; it begins at once although nothing has happened; a
    position can come as a header, and the query wins."""
    session = wire.create()
    with wire.http.stream("GET", f"{session}/event") as answer:
        assert answer.headers["content-type"].split(";")[0] == "text/event-stream"
    wire.ask(session, "hi")
    history = wire.data(f"{session}/history")
    with wire.http.stream("GET", f"{session}/event") as answer:
        lines: list[str] = []
        for line in answer.iter_lines():
            lines.append(line)
            if history[-1]["id"] in line:
                break
    assert {line.split(":")[0] for line in lines if line} <= {"data", ""}
    second = history[1]["durable"]["seq"]
    header = {"last-event-id": str(second)}
    assert wire.events(f"{session}/event", 1, headers=header)[0]["id"] == history[2]["id"]
    assert wire.events(f"{session}/event?after=0", 1, headers=header)[0]["id"] == history[0]["id"]


def test_the_live_stream_greets_and_beats(wire: Wire) -> None:
    """API-210, API-211: the first event, a heartbeat at once, and headers that keep proxies from holding it back."""
    with wire.http.stream("GET", "/api/event") as answer:
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["x-content-type-options"] == "nosniff"
        lines = answer.iter_lines()
        seen = [next(lines) for _ in range(4)]
    assert ": heartbeat" in seen
    (first,) = [line for line in seen if line.startswith("data: ")]
    assert '"type":"server.connected"' in first
    assert '"data":{}' in first
