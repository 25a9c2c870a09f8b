"""Permission requests and questions over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import PATIENCE, UNKNOWN, Wire

from holdfast.llm.offline import Call, ScriptedTransport, Turn

pytestmark = pytest.mark.anyio

QUESTION = {
    "question": "Proceed?",
    "header": "Go",
    "options": [{"label": "Yes", "description": "go on"}, {"label": "No", "description": "stop"}],
}
INVALID = (400, "InvalidRequestError")
NO_PERMISSION = (404, "PermissionNotFoundError")
NO_QUESTION = (404, "QuestionNotFoundError")


def turn(body: dict[str, Any]) -> Turn:
    last = body["messages"][-1]
    asks = last["role"] == "user" and "ask me" in str(last["content"])
    return Turn(calls=(Call(tool="question", input={"questions": [QUESTION]}),)) if asks else Turn(text="on we go")


@pytest.fixture
async def model() -> ScriptedTransport:
    """Asks a question when it is told to."""
    return ScriptedTransport([turn] * 5)


@pytest.fixture(autouse=True)
def rules(project: Path) -> None:
    """Deploying is asked about, everything else is allowed, and launching is forbidden."""
    config = {"permission": {"*": "allow", "deploy": "ask", "launch": "deny"}}
    (project / "opencode.json").write_text(json.dumps(config), encoding="utf-8")


async def ask(wire: Wire, session: str, **fields: object) -> Any:
    wish = {"action": "deploy", "resources": ["site/1"], **fields}
    return (await wire.post(f"/api/session/{session}/permission", wish)).data


async def waiting(wire: Wire, path: str) -> list[Any]:
    """What a session waits for, once it does."""
    async with asyncio.timeout(PATIENCE):
        while not (found := (await wire.get(path)).data):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return list(found)


async def test_only_an_ask_leaves_a_request(wire: Wire) -> None:
    """API-130, API-132, API-133: three effects; the request has every field that was given and no other."""
    session = (await wire.create())["id"]
    source = {"type": "tool", "messageID": "msg_x", "callID": "call_x"}
    given = {"save": ["site/*"], "metadata": {"k": 1}, "source": source}
    allowed = await ask(wire, session, action="look")
    denied = await ask(wire, session, action="launch")
    asked = await ask(wire, session, id="per_mine", **given)
    plain = await ask(wire, session)

    assert [item["effect"] for item in (allowed, denied, asked, plain)] == ["allow", "deny", "ask", "ask"]
    assert all(item["id"].startswith("per") and set(item) == {"id", "effect"} for item in (allowed, denied, plain))
    whole = {"id": "per_mine", "sessionID": session, "action": "deploy", "resources": ["site/1"], **given}
    bare = {"id": plain["id"], "sessionID": session, "action": "deploy", "resources": ["site/1"]}
    assert (await wire.get(f"/api/session/{session}/permission")).data == [whole, bare]
    assert (await wire.get(f"/api/session/{session}/permission/per_mine")).data == whole
    listed = (await wire.get("/api/permission/request")).json
    assert set(listed) == {"location", "data"}
    assert listed["data"] == [whole, bare]


async def test_the_agent_decides_which_rules_count(memory: Wire, project: Path) -> None:
    """API-132: the named agent, else the Session's own; an unknown one is denied everything."""
    agents = {"careful": {"mode": "primary", "permission": {"*": "deny"}}}
    (project / "opencode.json").write_text(json.dumps({"agent": agents}), encoding="utf-8")
    plain, careful = (await memory.create())["id"], (await memory.create(agent="careful"))["id"]

    assert (await ask(memory, careful))["effect"] == "deny"
    assert (await ask(memory, plain, agent="careful"))["effect"] == "deny"
    assert (await ask(memory, plain, agent="nobody"))["effect"] == "deny"


async def test_always_saves_what_was_offered_and_releases_the_rest(wire: Wire) -> None:
    """API-131, API-133: one saved approval per pattern, which then allows; what it covers waits no longer."""
    session = (await wire.create())["id"]
    project = (await wire.get("/api/location")).json["project"]["id"]
    first = await ask(wire, session, save=["site/*"])
    await ask(wire, session, resources=["site/2"])
    path = f"/api/session/{session}/permission"
    assert (await wire.post(f"{path}/{first['id']}/reply", {"reply": "always"})).status == 204

    assert (await wire.get(path)).data == []
    (saved,) = (await wire.get("/api/permission/saved")).data
    assert saved == {"id": saved["id"], "projectID": project, "action": "deploy", "resource": "site/*"}
    assert saved["id"].startswith("psv_")
    assert (await wire.get(f"/api/permission/saved?projectID={project}")).data == [saved]
    assert (await wire.get("/api/permission/saved?projectID=other")).data == []
    assert (await ask(wire, session, resources=["site/3"]))["effect"] == "allow"

    assert (await wire("DELETE", f"/api/permission/saved/{saved['id']}")).status == 204
    assert (await wire("DELETE", f"/api/permission/saved/{saved['id']}")).status == 204
    assert (await wire.get("/api/permission/saved")).data == []
    assert (await ask(wire, session, resources=["site/3"]))["effect"] == "ask"


async def test_a_reply_may_choose_what_to_save(memory: Wire) -> None:
    """API-133: only among the offered patterns; a wrong choice leaves the request waiting."""
    session = (await memory.create())["id"]
    request = (await ask(memory, session, save=["site/1", "site/*"]))["id"]
    path = f"/api/session/{session}/permission/{request}"
    refused = await memory.post(f"{path}/reply", {"reply": "always", "save": ["*"]})

    assert refused.failure == INVALID
    assert refused.json["field"] == "save"
    assert (await memory.get(path)).status == 200
    assert (await memory.post(f"{path}/reply", {"reply": "always", "save": ["site/1"]})).status == 204
    assert [item["resource"] for item in (await memory.get("/api/permission/saved")).data] == ["site/1"]


async def test_a_rejection_takes_the_sessions_others_along(memory: Wire) -> None:
    """API-133: those of another session stay."""
    one, two = (await memory.create())["id"], (await memory.create())["id"]
    first, other = await ask(memory, one), await ask(memory, two)
    await ask(memory, one, resources=["site/2"])
    reply = {"reply": "reject", "message": "not today"}
    assert (await memory.post(f"/api/session/{one}/permission/{first['id']}/reply", reply)).status == 204

    assert [item["id"] for item in (await memory.get("/api/permission/request")).data] == [other["id"]]


async def test_a_request_is_answered_once_and_by_its_own_session(memory: Wire) -> None:
    """API-027, API-133: another session's, an unknown and an answered one are the same 404."""
    mine, other = (await memory.create())["id"], (await memory.create())["id"]
    request = (await ask(memory, mine))["id"]
    foreign = await memory.get(f"/api/session/{other}/permission/{request}")
    unknown = await memory.get(f"/api/session/{other}/permission/per_unknown")

    assert foreign.failure == unknown.failure == NO_PERMISSION
    assert foreign.body.replace(request.encode(), b"per_unknown") == unknown.body
    assert set(foreign.json) == {"_tag", "requestID", "message"}
    once = {"reply": "once"}
    assert (await memory.post(f"/api/session/{other}/permission/{request}/reply", once)).failure == NO_PERMISSION
    assert (await memory.post(f"/api/session/{mine}/permission/{request}/reply", once)).status == 204
    assert (await memory.post(f"/api/session/{mine}/permission/{request}/reply", once)).failure == NO_PERMISSION


async def test_an_id_that_is_taken_is_a_conflict(memory: Wire) -> None:
    """API-020, API-132: nothing is asked twice under one name."""
    session = (await memory.create())["id"]
    await ask(memory, session, id="per_mine")
    again = {"id": "per_mine", "action": "deploy", "resources": ["x"]}
    answer = await memory.post(f"/api/session/{session}/permission", again)

    assert answer.failure == (409, "ConflictError")
    assert answer.json["resource"] == "per_mine"


@pytest.mark.parametrize(
    ("tail", "payload"),
    [
        ("permission", {"action": "x"}),
        ("permission", {"resources": ["x"]}),
        ("permission", {"action": "x", "resources": []}),
        ("permission", {"action": "x", "resources": "x"}),
        ("permission", {"action": "x", "resources": [1]}),
        ("permission", {"action": "x", "resources": ["x"], "id": "nope"}),
        ("permission", {"action": "x", "resources": ["x"], "source": {"type": "person"}}),
        ("permission/per_x/reply", {}),
        ("permission/per_x/reply", {"reply": "maybe"}),
        ("question/que_x/reply", {}),
        ("question/que_x/reply", {"answers": ["yes"]}),
        ("question/que_x/reply", {"answers": [[1]]}),
    ],
)
async def test_a_bad_payload_is_refused(memory: Wire, tail: str, payload: object) -> None:
    """API-009, API-023: kind Payload on a known session; an unknown one comes first."""
    session = (await memory.create())["id"]
    answer = await memory.post(f"/api/session/{session}/{tail}", payload)

    assert answer.failure == INVALID
    assert answer.json["kind"] == "Payload"
    assert (await memory.post(f"/api/session/{UNKNOWN}/{tail}", payload)).failure == (404, "SessionNotFoundError")


@pytest.mark.parametrize("tail", ["permission/nope", "question/nope/reject"])
async def test_a_malformed_request_id_is_a_bad_parameter(memory: Wire, tail: str) -> None:
    """API-007, API-024: kind Params."""
    session = (await memory.create())["id"]
    answer = await memory("POST" if "reject" in tail else "GET", f"/api/session/{session}/{tail}")

    assert answer.failure == INVALID
    assert answer.json["kind"] == "Params"


async def test_a_question_is_answered_over_http(wire: Wire) -> None:
    """API-134: listed by session and by Location, answered once, by its own session; the answer reaches the model."""
    session, other = (await wire.create())["id"], (await wire.create())["id"]
    await wire.prompt(session, "ask me")
    path = f"/api/session/{session}/question"
    (asked,) = await waiting(wire, path)

    assert (asked["sessionID"], asked["questions"]) == (session, [QUESTION])
    assert set(asked["tool"]) == {"messageID", "callID"}
    listed = (await wire.get("/api/question/request")).json
    assert (set(listed), listed["data"]) == ({"location", "data"}, [asked])
    assert (await wire.get(f"/api/session/{other}/question")).data == []

    answers = {"answers": [["Yes"]]}
    for wrong in ({"answers": [["Yes", "No"]]}, {"answers": [["x" * 5_000]]}, {"answers": [["Yes"], ["Yes"]]}):
        refused = await wire.post(f"{path}/{asked['id']}/reply", wrong)
        assert refused.failure == INVALID
        assert refused.json["field"] == "answers"
    assert (await wire.post(f"/api/session/{other}/question/{asked['id']}/reply", answers)).failure == NO_QUESTION
    assert (await wire.post(f"{path}/{asked['id']}/reply", answers)).status == 204
    assert (await wire.post(f"{path}/{asked['id']}/reply", answers)).failure == NO_QUESTION
    assert (await wire.post(f"/api/session/{session}/wait")).status == 204
    assert (await wire.get(path)).data == []
    tool = (await wire.get(f"/api/session/{session}/context")).data[1]["content"][0]
    assert tool["state"]["structured"] == {"answers": [["Yes"]]}


async def test_a_dismissed_question_stops_the_turn(memory: Wire, model: ScriptedTransport) -> None:
    """API-134: 204 once, then 404; the model is not asked again."""
    session = (await memory.create())["id"]
    await memory.prompt(session, "ask me")
    path = f"/api/session/{session}/question"
    (asked,) = await waiting(memory, path)

    assert (await memory.post(f"{path}/{asked['id']}/reject")).status == 204
    assert (await memory.post(f"{path}/{asked['id']}/reject")).failure == NO_QUESTION
    assert (await memory.post(f"/api/session/{session}/wait")).status == 204
    assert len(model.requests) == 1


async def test_observers_hear_of_requests_and_replies_and_of_nothing_private(memory: Wire) -> None:
    """API-214: `permission.v2.asked` and `.replied`; the durable records behind them stay inside."""
    session = (await memory.create())["id"]
    async with memory.stream("/api/event") as stream:
        await stream.event()
        request = (await ask(memory, session, save=["site/*"]))["id"]
        await memory.post(f"/api/session/{session}/permission/{request}/reply", {"reply": "reject", "message": "psst"})
        await memory.prompt(session, resume=False)
        events = await stream.until("session.next.prompt.admitted")

    types = [event["type"] for event in events]
    assert types == ["permission.v2.asked", "permission.v2.replied", "session.next.prompt.admitted"]
    assert events[0]["data"]["id"] == request
    assert events[1]["data"] == {"sessionID": session, "requestID": request, "reply": "reject"}
    assert "psst" not in json.dumps(events)
