"""Prompting, waiting, interrupting, and reading what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.core.conftest import new_session
from tests.server.conftest import PATIENCE, Wire, in_memory

from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import Call, OfflineResponse, ScriptedTransport, Turn
from holdfast.llm.route.transport import HttpRequest
from holdfast.schema.prompt import Prompt
from holdfast.server.app import App

pytestmark = pytest.mark.anyio
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class PausingTransport(ScriptedTransport):
    """Can also stop in the middle of an answer."""

    pause_at: int | None = None
    paused: asyncio.Event

    async def send(self, request: HttpRequest) -> OfflineResponse:
        response = await super().send(request)
        return OfflineResponse(response.status, self._until_paused(response.chunks()))

    async def _until_paused(self, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        index = 0
        async for frame in frames:
            if index == self.pause_at:
                self.paused.set()
                await asyncio.Event().wait()
            index += 1
            yield frame


@pytest.fixture
async def model() -> PausingTransport:
    model = PausingTransport([Turn(text="Reading it.", calls=(Call(tool="read", input={"path": "hello.txt"}),))])
    model.paused = asyncio.Event()
    return model


@pytest.fixture
async def path(wire: Wire) -> str:
    """Of a session without messages."""
    return f"/api/session/{(await wire.create(id='ses_one'))['id']}"


async def test_a_prompt_is_admitted_before_anything_runs(wire: Wire, path: str, model: ScriptedTransport) -> None:
    """API-002, API-117, API-118: the answer comes while the model still thinks; `steer` unless asked otherwise."""
    gate = model.hold(0)
    answer = await wire.post(f"{path}/prompt", {"prompt": {"text": "hi"}})
    admission = answer.data
    await model.seen(1)
    gate.set()

    created, made = admission.pop("timeCreated"), admission.pop("id")
    assert isinstance(created, int)
    assert made.startswith("msg_")
    assert admission == {"admittedSeq": 1, "sessionID": "ses_one", "prompt": {"text": "hi"}, "delivery": "steer"}


async def test_files_get_their_media_type(wire: Wire, path: str, tmp_path: Path) -> None:
    """API-117: of an image and a directory what they are, otherwise by extension; the rest stays as given."""
    (tmp_path / "a.html").write_text("<p>")
    source: dict[str, Any] = {"start": 0, "end": 2, "text": "@a"}
    files: list[dict[str, Any]] = [
        {"uri": f"data:image/png;base64,{DOT}"},
        {"uri": f"{tmp_path.as_uri()}/"},
        {"uri": (tmp_path / "a.html").as_uri(), "name": "a", "description": "page", "source": source},
    ]
    agents = [{"name": "plan", "source": source}, {"name": "build"}]
    sent = {"prompt": {"text": "see", "files": files, "agents": agents}, "delivery": "queue", "resume": False}
    admission = (await wire.post(f"{path}/prompt", sent)).data

    mimes = ["image/png", "application/x-directory", "text/html"]
    assert admission["prompt"].pop("sent")  # agents are looked up
    assert admission["prompt"] == {
        "text": "see",
        "files": [{**file, "mime": mime} for file, mime in zip(files, mimes, strict=True)],
        "agents": agents,
    }
    assert admission["delivery"] == "queue"


async def test_the_same_prompt_again_gives_the_same_receipt(wire: Wire, path: str, model: ScriptedTransport) -> None:
    """API-118: same id, prompt, delivery and session; it wakes the session again."""
    prompt = {"text": "x", "files": [{"uri": "data:text/html,hi"}]}
    sent: dict[str, Any] = {"id": "msg_mine", "prompt": prompt, "resume": False}
    first = (await wire.post(f"{path}/prompt", sent)).data
    assert (await wire.get("/api/session/active")).data == {}
    again = (await wire.post(f"{path}/prompt", {**sent, "delivery": "steer", "resume": None})).data
    await wire.post(f"{path}/wait")

    assert again == first
    assert len(model.requests) == 2
    seen = (await wire.post(f"{path}/prompt", sent)).data
    assert isinstance(seen.pop("promotedSeq"), int)
    assert seen == first


@pytest.mark.parametrize(
    ("session", "fields"),
    [
        ("ses_one", {"prompt": {"text": "other"}}),
        ("ses_one", {"delivery": "queue"}),
        ("ses_one", {"prompt": {"text": "x", "agents": [{"name": "plan"}]}}),
        ("ses_two", {}),
    ],
    ids=["text", "delivery", "agents", "session"],
)
async def test_another_prompt_with_a_used_id_is_a_conflict(memory: Wire, session: str, fields: dict[str, Any]) -> None:
    """API-020, API-027, API-118: any difference; the resource is the message id, and nothing says whose it is."""
    await memory.create(id="ses_one")
    await memory.create(id="ses_two")
    sent = {"id": "msg_mine", "prompt": {"text": "x"}, "resume": False}
    await memory.post("/api/session/ses_one/prompt", sent)
    answer = await memory.post(f"/api/session/{session}/prompt", {**sent, **fields})

    assert answer.failure == (409, "ConflictError")
    assert set(answer.json) == {"_tag", "message", "resource"}
    assert answer.json["resource"] == "msg_mine"
    assert session == "ses_one" or b"ses_one" not in answer.body


async def test_concurrent_retries_admit_once(wire: Wire, path: str) -> None:
    """API-118: eight senders of one prompt hold one receipt."""
    sent = {"id": "msg_mine", "prompt": {"text": "x"}, "resume": False}
    answers = await asyncio.gather(*(wire.post(f"{path}/prompt", sent) for _ in range(8)))

    assert len({answer.body for answer in answers}) == 1
    assert len((await wire.get(f"{path}/history")).data) == 1


async def test_waiting_returns_when_the_session_is_idle(wire: Wire, path: str, model: ScriptedTransport) -> None:
    """API-002, API-119: 204 without a body; at once on an idle session, not before the end of a drain."""
    assert (await wire.post(f"{path}/wait")).body == b""
    gate = model.hold(0)
    await wire.prompt("ses_one")
    await model.seen(1)
    waiting = asyncio.create_task(wire.post(f"{path}/wait"))
    assert (await wire.get("/api/health")).status == 200
    assert not waiting.done()
    gate.set()

    assert (await waiting).status == 204
    assert (await wire.get(f"{path}/message?limit=1")).data[0]["finish"] == "stop"


async def test_interrupting_an_idle_session_does_nothing(wire: Wire, path: str) -> None:
    """API-124: 204 and no event."""
    answer = await wire.post(f"{path}/interrupt")

    assert (answer.status, answer.body) == (204, b"")
    assert (await wire.get(f"{path}/history")).json == {"data": [], "hasMore": False}


async def test_interrupt_returns_after_settlement(wire: Wire, path: str, model: ScriptedTransport) -> None:
    """API-113, API-124, API-127: not listed any more, `step.failed` durable, and what was pending stays pending."""
    model.hold(1)
    await wire.prompt("ses_one", "first")
    await model.seen(2)
    await wire.prompt("ses_one", "later", id="msg_later", delivery="queue")
    assert (await wire.post(f"{path}/interrupt")).status == 204

    assert (await wire.get("/api/session/active")).data == {}
    events = (await wire.get(f"{path}/history")).data
    assert events[-1]["type"] == "session.next.step.failed"
    assert events[-1]["data"]["error"] == {"type": "unknown", "message": "Provider turn interrupted"}
    last = (await wire.get(f"{path}/message?limit=1")).data[0]
    assert (last["type"], last["finish"], last["error"]) == ("assistant", "error", events[-1]["data"]["error"])
    assert (await wire.get(f"{path}/message/msg_later")).failure == (404, "MessageNotFoundError")
    assert (await wire.post(f"{path}/interrupt")).status == 204
    assert len(model.requests) == 2


async def test_interrupt_closes_the_text_that_was_streaming(wire: Wire, path: str, model: PausingTransport) -> None:
    """API-124: what was said so far is kept, its block is closed, then the step fails."""
    model.pause_at = 2
    await wire.prompt("ses_one")
    await model.paused.wait()
    await wire.post(f"{path}/interrupt")

    types = [event["type"].removeprefix("session.next.") for event in (await wire.get(f"{path}/history")).data]
    assert types[-3:] == ["text.started", "text.ended", "step.failed"]
    (last,) = (await wire.get(f"{path}/message?limit=1")).data
    assert [(part["type"], part["text"]) for part in last["content"]] == [("text", "Reading ")]


async def test_messages_have_the_shape_of_their_type(wire: Wire, path: str) -> None:
    """API-004, API-121, API-125, API-127: context is oldest first and without system text; one message reads the same
    alone."""
    await wire.answer("ses_one", "read it", id="msg_user")
    user, called, answered = (await wire.get(f"{path}/context")).data

    assert user == {"id": "msg_user", "type": "user", "text": "read it", "time": {"created": user["time"]["created"]}}
    assert called["type"] == "assistant"
    assert {"agent": called["agent"], "model": called["model"]["providerID"]} == {"agent": "build", "model": "demo"}
    assert called["finish"] == "tool-calls"
    text, tool = called["content"]
    assert (text["type"], text["text"]) == ("text", "Reading it.")
    assert (tool["type"], tool["name"], tool["state"]["status"]) == ("tool", "read", "completed")
    assert answered["finish"] == "stop"
    assert answered["time"]["completed"] >= answered["time"]["created"]
    assert set(answered["tokens"]) == {"input", "output", "reasoning", "cache"}
    for message in (user, called, answered):
        assert (await wire.get(f"{path}/message/{message['id']}")).data == message


async def test_a_pending_input_is_not_a_message_yet(wire: Wire, path: str) -> None:
    """API-020, API-121, API-125: admitted only; the body names both ids."""
    await wire.prompt("ses_one", id="msg_pending", resume=False)
    answer = await wire.get(f"{path}/message/msg_pending")

    assert answer.failure == (404, "MessageNotFoundError")
    assert {key: answer.json[key] for key in ("sessionID", "messageID")} == {
        "sessionID": "ses_one",
        "messageID": "msg_pending",
    }
    assert (await wire.get(f"{path}/context")).data == []
    assert (await wire.get(f"{path}/message")).json == {"data": [], "cursor": {"previous": None, "next": None}}


async def test_a_message_of_another_session_is_as_unknown_as_any(wire: Wire, path: str) -> None:
    """API-027: but for the ids that were asked for, the bodies are the same."""
    await wire.create(id="ses_two")
    await wire.answer("ses_two", id="msg_theirs")
    theirs = await wire.get(f"{path}/message/msg_theirs")
    nobodys = await wire.get(f"{path}/message/msg_nobody")

    assert theirs.failure == (404, "MessageNotFoundError")
    assert theirs.body.replace(b"msg_theirs", b"msg_nobody") == nobodys.body


async def test_history_is_paged_by_sequence(wire: Wire, path: str) -> None:
    """API-003, API-122, API-201, API-215: from 1, private events leave gaps, `after` is exclusive, no deltas, no
    location on stored events."""
    await wire.answer("ses_one")
    whole = (await wire.get(f"{path}/history?limit=100")).json
    events = whole["data"]

    assert whole["hasMore"] is False
    sequences = [event["durable"]["seq"] for event in events]
    assert sequences[0] == 1
    assert sequences == sorted(set(sequences))
    assert sequences[-1] > len(sequences)
    assert (await wire.get(f"{path}/history?after=0")).json == whole
    page = f"{path}/history?limit=2&after={sequences[1]}"
    assert (await wire.get(page)).json == {"data": events[2:4], "hasMore": True}
    assert (await wire.get(f"{path}/history?after={sequences[-1]}")).json == {"data": [], "hasMore": False}
    assert (await wire.get(f"{path}/history?after=9999")).json == {"data": [], "hasMore": False}
    for event in events:
        assert set(event) == {"id", "type", "durable", "data"}
        assert set(event["durable"]) == {"aggregateID", "seq", "version"}
        assert event["durable"]["version"] == (2 if event["type"].startswith("session.next.step.e") else 1)
        assert not event["type"].endswith("delta")


async def test_history_has_fifty_events_unless_asked_otherwise(memory: Wire) -> None:
    """API-122: default and largest page."""
    path = f"/api/session/{(await memory.create(id='ses_long'))['id']}/history"
    for number in range(101):
        await memory.prompt("ses_long", f"{number}", resume=False)

    assert [len((await memory.get(path + query)).data) for query in ("", "?limit=100")] == [50, 100]


async def test_totals_of_a_session_add_up(wire: Wire, path: str, runtime: Runtime) -> None:
    """API-112: trap 22: tokens and time of the last change, which the reference forgets."""
    before = (await wire.get(path)).data
    await wire.answer("ses_one")
    after = (await wire.get(path)).data
    messages = (await wire.get(f"{path}/context")).data

    assert after["tokens"]["output"] == sum(message["tokens"]["output"] for message in messages[1:]) > 0
    assert after["time"]["updated"] >= before["time"]["updated"]
    assert after["time"]["created"] == before["time"]["created"]


STRANGE = ('"quoted"', "\\", "line\nbreak", "😀", "with/slash", "%2F", "?#", '","text":"injected","x":"')


@pytest.mark.parametrize("rest", STRANGE)
async def test_an_id_that_an_earlier_version_accepted_stays_usable(memory: Wire, runtime: Runtime, rest: str) -> None:
    """SES-488, API-007, API-111, API-125: it survives storage and paths. Nobody can choose such an id any more."""
    session, message = f"ses_{rest}", f"msg_{rest}"
    refused = await memory.post("/api/session", {"id": session})
    assert (refused.status, refused.json["field"]) == (400, "id")
    await new_session(runtime, id=session)
    await runtime.sessions.prompt(session, Prompt(text="hi"), id=message)
    path = f"/api/session/{quote(session, safe='')}"
    assert (await memory.post(f"{path}/wait")).status == 204

    user, *answers = (await memory.get(f"{path}/context")).data
    assert (user["id"], user["text"]) == (message, "hi")
    assert answers
    assert (await memory.get(f"{path}/message/{quote(message, safe='')}")).data == user


async def test_a_server_that_stops_ends_the_wait_for_a_permission(app: App, tmp_path: Path) -> None:
    """API-474: the caller is told, nothing is admitted, and the server closes."""
    outside = tmp_path / "outside.txt"
    outside.write_text("x")
    async with in_memory(app) as wire:
        session = (await wire.create())["id"]
        payload = {"prompt": {"text": f"@{outside}"}, "resolve": True}
        async with wire.stream(f"/api/session/{session}/event?live=true&replay=false") as stream:
            await stream.frame()
            prompting = asyncio.create_task(wire.post(f"/api/session/{session}/prompt", payload))
            await stream.until("permission.v2.asked")
        app.stop()
        answer = await asyncio.wait_for(prompting, PATIENCE)
        assert answer.failure == (503, "ServiceUnavailableError")
        assert (await wire.get(f"/api/session/{session}/pending")).data == []
