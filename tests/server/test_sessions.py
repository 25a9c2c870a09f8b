"""Creating, getting and describing Sessions."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from pathlib import Path

import pytest
from tests.server.conftest import ECHO, PATIENCE, UNKNOWN, Wire

from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import ScriptedTransport

pytestmark = pytest.mark.anyio


async def test_health_and_location_answer_bare_objects(wire: Wire, project: Path) -> None:
    """API-001, API-002, API-003, API-032, API-100, API-101: no envelope around either; no repository is `global`."""
    health = await wire.get("/api/health")
    location = await wire.get("/api/location")

    assert (health.status, health.content_type, health.json) == (200, "application/json", {"healthy": True})
    assert location.content_type == "application/json"
    assert location.json == {"directory": str(project), "project": {"id": "global", "directory": "/"}}


async def test_a_location_comes_from_the_query_or_the_header(wire: Wire, tmp_path: Path) -> None:
    """API-030, API-032: query before header, an empty value is none, and the workspace is taken by itself."""
    (asked := tmp_path / "asked here").mkdir()
    (headed := tmp_path / "headed").mkdir()
    query = f"location[directory]={asked}&location[workspace]=wrk_q"

    async def place(query: str, **headers: str) -> tuple[str, str | None]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        info = (await wire.get(f"/api/location?{query.replace(' ', '%20')}", named)).json
        return info["directory"], info.get("workspaceID")

    header = str(headed).replace("/", "%2F")
    assert await place(query, x_opencode_directory=header) == (str(asked), "wrk_q")
    assert await place("location[directory]=", x_opencode_directory=header) == (str(headed), None)
    assert await place("", x_opencode_directory=header, x_opencode_workspace="wrk_h") == (str(headed), "wrk_h")


@pytest.mark.parametrize(
    "query",
    [
        "location[directory]=/not/there",
        "location[directory]=relative",
        f"location[directory]=/{'a' * 5000}",
        "location[directory]=/tmp%00",
        "location[workspace]=nope",
    ],
    ids=["missing", "relative", "overlong", "nul", "workspace"],
)
async def test_a_location_that_cannot_be_is_refused(memory: Wire, query: str) -> None:
    """API-007, API-026: a missing directory and a malformed workspace id are 400, never 500 and never accepted."""
    assert (await memory.get(f"/api/location?{query}")).failure == (400, "InvalidRequestError")


@pytest.mark.parametrize("directory", ["/not/there", "relative", "", "/" + "a" * 5000, "/tmp\0"])
async def test_a_session_cannot_be_created_where_nothing_is(memory: Wire, directory: str) -> None:
    """API-026: likewise for the location of a new session."""
    answer = await memory.post("/api/session", {"location": {"directory": directory}})

    assert answer.failure == (400, "InvalidRequestError")


async def test_create_answers_200_with_the_whole_session(wire: Wire, project: Path) -> None:
    """API-002, API-003, API-004, API-005, API-008, API-112: absent keys are absent, times are numbers, the title has
    the only ISO time."""
    answer = await wire.post("/api/session", {})
    session = answer.data
    created = session["time"]["created"]

    assert answer.content_type == "application/json"
    assert session.pop("title") == f"New session - {_iso(created)}"
    assert re.fullmatch(r"ses_[0-9a-f]{12}[0-9A-Za-z]{14}", session.pop("id"))
    session.pop("subpath", None)
    assert session == {
        "projectID": "global",
        "cost": 0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        "time": {"created": created, "updated": created},
        "location": {"directory": str(project)},
    }
    assert type(created) is int


async def test_newer_ids_sort_first(memory: Wire) -> None:
    """API-008: session ids descend."""
    ids = [(await memory.create())["id"] for _ in range(5)]

    assert sorted(ids, reverse=True) == ids


async def test_create_takes_every_field(wire: Wire, tmp_path: Path) -> None:
    """API-034, API-111, API-112: location from the payload, a model without variant reads back with the default."""
    (place := tmp_path / "place").mkdir()
    wanted = {"directory": str(place), "workspaceID": "wrk_1"}
    session = await wire.create(id="ses_mine", agent="plan", model=ECHO, location=wanted)

    assert session["id"] == "ses_mine"
    assert session["agent"] == "plan"
    assert session["model"] == {**ECHO, "variant": "default"}
    assert session["location"] == wanted
    assert (await wire.get("/api/session/ses_mine")).data == session


async def test_a_location_header_does_not_place_a_session(memory: Wire, project: Path, tmp_path: Path) -> None:
    """API-034: without a location in its payload a session belongs to the server's own directory."""
    headers = {"x-opencode-directory": str(tmp_path)}
    answer = await memory.post(f"/api/session?location[directory]={tmp_path}", {}, headers)

    assert answer.data["location"] == {"directory": str(project)}


async def test_a_known_id_gives_the_existing_session(memory: Wire) -> None:
    """API-111: other fields are ignored then."""
    first = await memory.create(id="ses_twice", agent="build")

    assert await memory.create(id="ses_twice", agent="plan", location=None) == first


async def test_concurrent_creation_with_one_id_gives_one_session(wire: Wire) -> None:
    """API-111: all callers get the same one."""
    created = await asyncio.gather(*(wire.create(id="ses_race", agent=f"agent {n}") for n in range(8)))

    assert all(session == created[0] for session in created)
    assert len((await wire.get("/api/session")).data) == 1


async def test_a_session_ignores_the_location_of_the_request(wire: Wire) -> None:
    """API-033: session routes read their place from the session."""
    session = await wire.create()
    path = f"/api/session/{session['id']}"
    elsewhere = {"x-opencode-directory": "/not/there", "x-opencode-workspace": "nope"}

    assert (await wire.get(f"{path}?location[directory]=/not/there&directory=/not/there", elsewhere)).data == session
    assert (await wire.post(f"{path}/wait?location[directory]=/not/there", headers=elsewhere)).status == 204


async def test_unknown_keys_and_parameters_are_ignored(memory: Wire) -> None:
    """API-006: in payloads at every level and in queries."""
    session = await memory.create(bogus={"deep": [1]}, model={**ECHO, "bogus": 1})
    prompted = await memory.prompt(session["id"], resume=False, bogus=None)

    assert "bogus" not in prompted
    assert (await memory.get("/api/session?bogus=1&limit=1")).data == [session]
    assert (await memory.get(f"/api/session/{session['id']}/history?bogus=x")).status == 200


@pytest.mark.parametrize(
    ("method", "tail"),
    [
        ("GET", ""),
        ("POST", "/prompt"),
        ("POST", "/wait"),
        ("POST", "/interrupt"),
        ("GET", "/context"),
        ("GET", "/history"),
        ("GET", "/event"),
        ("GET", "/message"),
        ("GET", "/message/msg_1"),
    ],
)
async def test_every_session_route_says_when_the_session_is_unknown(memory: Wire, method: str, tail: str) -> None:
    """API-020, API-022, API-114, API-121..126: the whole tagged body, also where a stream would start."""
    answer = await memory(method, f"/api/session/{UNKNOWN}{tail}")

    assert answer.failure == (404, "SessionNotFoundError")
    assert answer.content_type == "application/json"
    assert set(answer.json) == {"_tag", "sessionID", "message"}
    assert answer.json["sessionID"] == UNKNOWN


async def test_active_lists_what_runs(memory: Wire, model: ScriptedTransport) -> None:
    """API-113: a static segment, not a session id; an idle session is not listed."""
    gate = model.hold(0)
    idle, busy = await memory.create(), await memory.create()
    await memory.prompt(busy["id"])
    await model.seen(1)

    assert (await memory.get("/api/session/active")).data == {busy["id"]: {"type": "running"}}
    gate.set()
    await memory.post(f"/api/session/{busy['id']}/wait")
    assert (await memory.get("/api/session/active")).json == {"data": {}}
    assert idle["id"] != busy["id"]


async def test_a_defect_is_an_unknown_error_with_a_reference(
    memory: Wire, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """API-025: nothing of the inside in the body; the same reference in the log."""

    async def broken(*_: object) -> None:
        raise RuntimeError("secret internals")

    monkeypatch.setattr(runtime.sessions, "wait", broken)
    session = await memory.create()
    answer = await memory.post(f"/api/session/{session['id']}/wait")

    assert answer.failure == (500, "UnknownError")
    assert set(answer.json) == {"_tag", "message", "ref"}
    assert re.fullmatch(r"err_[0-9a-f]{8}", answer.json["ref"])
    assert b"secret" not in answer.body
    assert answer.json["ref"] in caplog.text


def _iso(millis: int) -> str:
    moment = dt.datetime.fromtimestamp(millis // 1000, tz=dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03d}Z"


@pytest.mark.parametrize("operation", ["wait", "outcome"])
async def test_a_caller_that_disconnects_waits_no_longer(wire: Wire, runtime: Runtime, operation: str) -> None:
    """OPS-326: a Session may wait for a person for days."""
    session = (await wire.create())["id"]
    waiting, ended = asyncio.Event(), asyncio.Event()

    async def wait(session_id: str) -> None:
        waiting.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    runtime.sessions.wait = wait  # type: ignore[method-assign]
    calling = asyncio.create_task(wire.post(f"/api/session/{session}/{operation}"))
    await asyncio.wait_for(waiting.wait(), PATIENCE)
    calling.cancel()
    await asyncio.wait_for(ended.wait(), PATIENCE)
