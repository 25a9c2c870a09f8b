"""Switching, compacting, reverting, and our own operations on a Session."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import ECHO, UNKNOWN, Wire

from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.protocol.api import API
from holdfast.schema.codec import encode
from holdfast.schema.model import ModelRef
from holdfast.schema.todo import Todo
from holdfast.schema.turn_event import TurnDispatched

pytestmark = pytest.mark.anyio

INVALID = (400, "InvalidRequestError")
CONFLICT = (409, "ConflictError")


@pytest.fixture
async def session(wire: Wire) -> str:
    return str((await wire.create())["id"])


@pytest.fixture
def path(session: str) -> str:
    return f"/api/session/{session}"


async def context(wire: Wire, path: str) -> list[Any]:
    return list((await wire.get(f"{path}/context")).data)


async def test_each_switch_of_agent_is_a_message(wire: Wire, path: str) -> None:
    """API-115: whether it exists is not asked, and saying it again says it again."""
    for _ in range(2):
        assert (await wire.post(f"{path}/agent", {"agent": "whoever"})).status == 204

    messages = await context(wire, path)
    assert [(message["type"], message["agent"]) for message in messages] == [("agent-switched", "whoever")] * 2
    assert (await wire.get(path)).data["agent"] == "whoever"
    history = (await wire.get(f"{path}/history")).data
    assert [event["type"] for event in history] == ["session.next.agent.switched"] * 2


async def test_an_equal_model_switches_nothing(wire: Wire, path: str) -> None:
    """API-116: a missing variant is `default`."""
    for model in (ECHO, {**ECHO, "variant": "default"}, {**ECHO, "id": "other"}, {**ECHO, "id": "other"}):
        assert (await wire.post(f"{path}/model", {"model": model})).status == 204

    messages = await context(wire, path)
    assert [(message["type"], message["model"]["id"]) for message in messages] == [("model-switched", "other")]
    assert (await wire.get(path)).data["model"]["id"] == "other"


@pytest.mark.parametrize(
    ("tail", "payload"),
    [
        ("agent", {}),
        ("agent", {"agent": None}),
        ("model", {"model": {"id": "x"}}),
        ("model", {"model": {**ECHO, "variant": None}}),
        ("revert/stage", {"messageID": "nope"}),
        ("revert/stage", {"messageID": "msg_1", "files": "yes"}),
        ("rename", {"title": ""}),
        ("rename", {"title": "x" * 201}),
        ("archive", {"archived": "yes"}),
        ("move", {}),
        ("move", {"directory": "/not/there"}),
        ("recover", {"decision": "perhaps"}),
    ],
)
async def test_a_bad_payload_is_refused(memory: Wire, tail: str, payload: object) -> None:
    """API-009, API-023: on a known session; an unknown one comes first."""
    session = (await memory.create())["id"]

    assert (await memory.post(f"/api/session/{session}/{tail}", payload)).failure == INVALID
    assert (await memory.post(f"/api/session/{UNKNOWN}/{tail}", payload)).failure == (404, "SessionNotFoundError")


async def test_compaction_replaces_what_the_model_reads_and_can_be_undone(wire: Wire, path: str, session: str) -> None:
    """API-012, API-119, API-121: 204 when it is done; the checkpoint says what it stands for; undone, all is as before;
    once something followed, it is too late."""
    assert (await wire.post(f"{path}/compact")).failure == CONFLICT
    assert (await wire.get(f"{path}/checkpoint")).data is None
    for number in range(3):
        await wire.answer(session, f"prompt {number} " + "word " * 3_000)
    before = await context(wire, path)
    assert (await wire.post(f"{path}/compact")).status == 204

    after = await context(wire, path)
    assert [message["type"] for message in after] == ["compaction"]
    checkpoint = (await wire.get(f"{path}/checkpoint")).data
    assert checkpoint["messageID"] == after[0]["id"]
    assert checkpoint["replaced"] == [message["id"] for message in before]
    assert checkpoint["tokensBefore"] > checkpoint["tokensAfter"]
    assert (await wire.post(f"{path}/checkpoint/undo")).status == 204
    assert await context(wire, path) == before

    assert (await wire.post(f"{path}/compact")).status == 204
    await wire.prompt(session, "and on", resume=False)
    await wire.answer(session, "and on")
    undo = await wire.post(f"{path}/checkpoint/undo")
    assert undo.failure == CONFLICT
    assert undo.json["resource"].startswith("msg_")


async def test_a_compaction_without_a_model_is_unavailable(memory: Wire) -> None:
    """API-119: 503 for what is really unavailable, and the history stays."""
    session = (await memory.create())["id"]
    await memory.answer(session, "word " * 3_000)
    before = (await memory.get(f"/api/session/{session}/context")).data
    assert (
        await memory.post(f"/api/session/{session}/model", {"model": {"id": "x", "providerID": "no"}})
    ).status == 204
    answer = await memory.post(f"/api/session/{session}/compact")

    assert answer.failure == (503, "ServiceUnavailableError")
    assert answer.json["service"] == "model"
    assert (await memory.get(f"/api/session/{session}/context")).data[: len(before)] == before


@pytest.fixture
def repository(project: Path) -> Path:
    commands = (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first"])
    for command in commands:
        subprocess.run(["git", "-C", str(project), *command], check=True)
    return project


@pytest.fixture
async def model() -> ScriptedTransport:
    """Writes a file when told to."""

    def turn(body: dict[str, Any]) -> Turn:
        last = body["messages"][-1]
        if last["role"] == "user" and "write" in str(last["content"])[-40:]:
            return Turn(calls=(Call(tool="write", input={"path": "made.txt", "content": "made\n"}),))
        return Turn(text="done")

    return ScriptedTransport([turn] * 20)


async def test_a_revert_is_staged_cleared_and_committed(wire: Wire, repository: Path) -> None:
    """API-120: files go back and come back; committing removes what followed the message, which itself stays; events
    stay in history; doing either again is fine."""
    session = (await wire.create())["id"]
    path = f"/api/session/{session}"
    await wire.answer(session, "hello", id="msg_first")
    await wire.answer(session, "please write", id="msg_second")
    made = repository / "made.txt"
    assert made.exists()
    staged = (await wire.post(f"{path}/revert/stage", {"messageID": "msg_first"})).data

    assert staged["messageID"] == "msg_first"
    (file,) = staged["files"]
    assert (file["path"], file["status"], file["deletions"]) == ("made.txt", "deleted", 1)
    assert set(file) == {"path", "status", "additions", "deletions", "patch"}
    assert not made.exists()
    assert (await wire.get(path)).data["revert"] == staged
    assert [(await wire.post(f"{path}/revert/clear")).status for _ in range(2)] == [204, 204]
    assert made.exists()
    assert "revert" not in (await wire.get(path)).data

    assert (await wire.post(f"{path}/revert/stage", {"messageID": "msg_first", "files": False})).status == 200
    assert made.exists()
    assert [(await wire.post(f"{path}/revert/commit")).status for _ in range(2)] == [204, 204]
    assert [message["id"] for message in await context(wire, path)] == ["msg_first"]
    types = [event["type"] for event in (await wire.get(f"{path}/history?limit=100")).data]
    assert types.count("session.next.prompted") == 2
    assert types[-1] == "session.next.revert.committed"


async def test_a_revert_to_an_unknown_message_is_not_found(memory: Wire) -> None:
    """API-027, API-120: unknown, or another session's: the same answer."""
    one, two = (await memory.create())["id"], (await memory.create())["id"]
    await memory.answer(two, "hi", id="msg_of_two")
    answers = [
        await memory.post(f"/api/session/{one}/revert/stage", {"messageID": id}) for id in ("msg_of_two", "msg_nobody")
    ]

    assert [answer.failure for answer in answers] == [(404, "MessageNotFoundError")] * 2
    assert answers[0].body.replace(b"msg_of_two", b"msg_nobody") == answers[1].body


# -- extensions ------------------------------------------------------------------------------------------------------


async def test_pending_inputs_are_listed_and_withdrawn(wire: Wire, path: str, session: str) -> None:
    """API-012: oldest first; withdrawing again is fine, a promoted one is a conflict, an unknown one not found."""
    first = await wire.prompt(session, "one", id="msg_one", resume=False)
    second = await wire.prompt(session, "two", id="msg_two", delivery="queue", resume=False)

    assert (await wire.get(f"{path}/pending")).data == [first, second]
    assert [(await wire("DELETE", f"{path}/pending/msg_one")).status for _ in range(2)] == [204, 204]
    assert (await wire.get(f"{path}/pending")).data == [second]
    await wire.answer(session, "three")
    assert (await wire.get(f"{path}/pending")).data == []
    late = await wire("DELETE", f"{path}/pending/msg_two")
    assert (late.failure, late.json["resource"]) == (CONFLICT, "msg_two")
    assert (await wire("DELETE", f"{path}/pending/msg_none")).failure == (404, "MessageNotFoundError")
    other = (await wire.create())["id"]
    await wire.prompt(other, "theirs", id="msg_theirs", resume=False)
    assert (await wire("DELETE", f"{path}/pending/msg_theirs")).failure == (404, "MessageNotFoundError")


async def test_a_session_is_renamed_archived_and_deleted(wire: Wire, path: str, session: str) -> None:
    """API-012: the answer is the session as it is then; a deleted one is gone everywhere."""
    assert (await wire.post(f"{path}/rename", {"title": "A better name"})).data["title"] == "A better name"
    archived = (await wire.post(f"{path}/archive", {})).data
    assert archived["time"]["archived"] >= archived["time"]["created"]
    assert "archived" not in (await wire.post(f"{path}/archive", {"archived": False})).data["time"]
    assert (await wire.get(path)).data["title"] == "A better name"

    await wire.answer(session)
    assert (await wire("DELETE", path)).status == 204
    assert (await wire.get(path)).failure == (404, "SessionNotFoundError")
    assert (await wire("DELETE", path)).failure == (404, "SessionNotFoundError")
    assert (await wire.get("/api/session")).data == []


async def test_a_session_moves_within_its_project(memory: Wire, repository: Path, tmp_path: Path) -> None:
    """API-012: to an existing directory of the same project, and to no other."""
    (below := repository / "below").mkdir()
    session = (await memory.create())["id"]
    path = f"/api/session/{session}"
    assert (await memory.post(f"{path}/move", {"directory": str(below)})).status == 204

    moved = (await memory.get(path)).data
    assert (moved["location"], moved["subpath"]) == ({"directory": str(below)}, "below")
    (other := tmp_path / "other").mkdir()
    refused = await memory.post(f"{path}/move", {"directory": str(other)})
    assert (refused.failure, refused.json["field"]) == (INVALID, "directory")


async def test_the_server_says_what_a_session_waits_for(
    wire: Wire, path: str, session: str, model: ScriptedTransport
) -> None:
    """API-012: the provider, while a turn is held; nothing when idle."""
    assert (await wire.get(f"{path}/waits")).data == []
    model.hold(0)
    await wire.prompt(session)
    await model.seen(1)
    (wait,) = (await wire.get(f"{path}/waits")).data

    assert (wait["kind"], set(wait)) == ("provider", {"kind", "since", "what", "ends"})
    assert (await wire.post(f"{path}/interrupt")).status == 204
    assert (await wire.get(f"{path}/waits")).data == []


async def test_a_turn_that_broke_off_waits_for_a_decision(memory: Wire, runtime: Runtime) -> None:
    """API-012: listed with what is known of it; abandoned or continued, it leaves the list."""
    assert (await memory.get("/api/session/interrupted")).data == []
    for number, decision in enumerate(("abandon", "continue")):
        session = (await memory.create(id=f"ses_{number}"))["id"]
        await memory.answer(session)
        lost = TurnDispatched(
            timestamp=5,
            session_id=session,
            agent="build",
            model=ModelRef(id="echo", provider_id="demo"),
            attempt=1,
            baseline_seq=0,
            checkpoint_seq=-1,
            pruned_seq=-1,
            tools="t",
            system="s",
            controls="c",
            last_step=False,
        )
        await runtime.log.publish(lost, location=runtime.location)
        (turn,) = (await memory.get("/api/session/interrupted")).data
        known = {"sessionID": session, "agent": "build", "model": ECHO, "attempt": 1, "dispatched": 5}
        assert {key: turn[key] for key in known} == known
        assert (await memory.post(f"/api/session/{session}/recover", {"decision": decision})).status == 204
        assert (await memory.post(f"/api/session/{session}/wait")).status == 204
        assert (await memory.get("/api/session/interrupted")).data == []


async def test_the_request_context_is_shown(wire: Wire, path: str, session: str) -> None:
    """API-012, API-121: not initialized before the first turn; then the baseline and its sources, which `context`
    leaves out."""
    assert (await wire.get(f"{path}/request-context")).data == {"status": "not initialized"}
    await wire.answer(session)
    view = (await wire.get(f"{path}/request-context")).data

    assert (view["status"], type(view["baseline"])) == ("initialized", str)
    assert {"core/environment", "core/date"} <= {source["key"] for source in view["sources"]}
    assert all(source["state"] == {"type": "current"} for source in view["sources"])
    assert view["baseline"] not in json.dumps(await context(wire, path))


async def test_todos_and_metrics_are_read(wire: Wire, path: str, session: str, runtime: Runtime) -> None:
    """API-012: the list as the model keeps it; numbers only."""
    assert (await wire.get(f"{path}/todo")).data == []
    todo = Todo(content="mow", status="pending", priority="high")
    await runtime.todos.replace(session, [todo])
    assert (await wire.get(f"{path}/todo")).data == [{"content": "mow", "status": "pending", "priority": "high"}]

    await wire.answer(session)
    metrics = (await wire.get("/api/metrics")).data
    assert set(metrics["context.baseline.bytes"][""]) == {"times", "total", "largest"}
    assert all(
        isinstance(number, int | float) for keys in metrics.values() for row in keys.values() for number in row.values()
    )


async def test_a_static_segment_wins_over_a_session_id(memory: Wire) -> None:
    """API-113: also where it is ours."""
    assert (await memory.get("/api/session/active")).data == {}
    assert (await memory.get("/api/session/interrupted")).data == []


@pytest.mark.parametrize(
    "endpoint",
    [endpoint for endpoint in API if endpoint.scope.value == "session"],
    ids=lambda endpoint: f"{endpoint.method} {endpoint.path}",
)
async def test_every_session_route_knows_its_session(memory: Wire, endpoint: Any) -> None:
    """API-009, API-022, API-024: unknown is 404 and malformed is 400, before anything else is looked at."""

    def target(session: str) -> str:
        return (
            str(endpoint.path).replace("{sessionID}", session).replace("{messageID}", "no").replace("{requestID}", "no")
        )

    unknown = await memory(endpoint.method, target(UNKNOWN), body=b"{broken")
    malformed = await memory(endpoint.method, target("nope"), body=b"{broken")

    assert unknown.failure == (404, "SessionNotFoundError")
    assert (malformed.failure, malformed.json["field"]) == (INVALID, "sessionID")


async def test_another_process_sees_the_same(memory: Wire, tmp_path: Path, project: Path) -> None:
    """API-012: pending inputs are read from what is recorded."""
    session = (await memory.create())["id"]
    admitted = await memory.prompt(session, "wait for me", resume=False)
    async with Runtime(
        paths=Paths(tmp_path / "data"),
        directory=project,
        environment={"HOME": str(tmp_path)},
        options=HostOptions(titles=False),
    ) as other:
        (pending,) = await other.sessions.pending(session)

    assert json.loads(encode(pending)) == admitted
