"""Our records against published schemas, ours and OpenCode's: what we send is what clients were generated for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.contract import either_contract, problems, schemas
from tests.schema.conftest import examples

from holdfast.core.event.bus import Announcement
from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.codec import decode_any, decode_message, decoder, encode
from holdfast.schema.event import Definition, DurablePosition, EventEnvelope
from holdfast.schema.manifest import LIVE_DEFINITIONS, SESSION_DEFINITIONS
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Admission, Prompt
from holdfast.schema.session import Session, SessionActive
from holdfast.schema.session_message import SessionMessage

pytestmark = pytest.mark.anyio

OURS_ALONE = {
    *("session.next.compaction.failed", "session.next.shell.delta", "session.tree.connected"),
    *("form.created", "form.replied", "form.cancelled"),
    *("mcp.status.changed", "mcp.resources.changed"),
}
"""Public events of Holdfast that the recorded contract does not know."""
COMMON_DURABLE = [item for item in SESSION_DEFINITIONS if item.public and item.type not in OURS_ALONE]
COMMON_LIVE = [item for item in LIVE_DEFINITIONS if item.type not in OURS_ALONE]
FREE_FORM: dict[str, list[dict[str, Any]]] = {
    # Payloads with fields whose own shape our records leave open: written out here.
    "session.error": [{}, {"sessionID": "ses_1", "error": {"name": "UnknownError", "data": {"message": "x"}}}],
    "session.status": [
        {"sessionID": "ses_1", "status": {"type": "idle"}},
        {"sessionID": "ses_1", "status": {"type": "busy"}},
        {
            "sessionID": "ses_1",
            "status": {
                "type": "retry",
                "attempt": 1,
                "message": "later",
                "next": 5,
                "action": {"reason": "r", "provider": "p", "title": "t", "message": "m", "label": "l"},
            },
        },
    ],
}


NEXT_GENERATION = {"skills", "metadata", "options", "command", "task", "notes", "description", "sent"}
"""Fields of a prompt that the recorded contract does not have."""
IN_MESSAGES = {"user": {"skills", "options", "command"}, "synthetic": {"description"}, "shell": {"exit"}}
IN_EVENTS = {
    "session.next.prompt.admitted": {"type"},
    "session.next.synthetic": {"description", "metadata", "delivery"},
    "session.next.shell.ended": {"exit"},
    "session.next.text.ended": {"brokenOff"},
    "session.next.reasoning.ended": {"brokenOff"},
    "session.next.revert.committed": {"before"},
}
"""The same of messages and of the data of events, by type."""
IN_PARTS = {"partial", "brokenOff"}
"""The same of the parts of an answer, and of the states of calls."""


def recorded(wire: Any) -> Any:
    """Without the fields that the recorded contract does not have."""
    if not isinstance(wire, dict):
        return wire
    kind = wire.get("type", "")
    dropped = {"type"} if "admittedSeq" in wire else IN_MESSAGES.get(kind, set())
    kept = {name: value for name, value in wire.items() if name not in dropped}
    if isinstance(revert := kept.get("revert"), dict):
        kept["revert"] = {name: value for name, value in revert.items() if name != "before"}
    if isinstance(prompt := kept.get("prompt"), dict):
        kept["prompt"] = {name: value for name, value in prompt.items() if name not in NEXT_GENERATION}
    if kind == "assistant":
        kept["content"] = [recorded_part(part) for part in kept["content"]]
    if isinstance(data := kept.get("data"), dict):
        kept["data"] = recorded({name: data[name] for name in data if name not in IN_EVENTS.get(kind, set())})
    return kept


def recorded_part(part: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in part.items() if name not in IN_PARTS}
    return {**kept, "state": recorded_part(kept["state"])} if "state" in kept else kept


def check(contract: str, wire: Any, schema: str) -> None:
    wire = recorded(wire) if contract == "opencode" else wire
    found = list(problems(schemas(contract), wire, {"$ref": schema}))
    assert not found, f"{schema}: {wire}: {found}"


def wired(definition: Definition, payload: Any) -> Any:
    """A payload inside its envelope, after a round through our own records."""
    record = decoder(definition.payload).decode(msgspec.json.encode(payload))
    position = DurablePosition(aggregate_id="ses_1", seq=3, version=definition.version) if definition.version else None
    event = EventEnvelope(id="evt_1", type=definition.type, durable=position, data=msgspec.Raw(encode(record)))
    return decode_any(encode(event))


def test_the_schema_checker_finds_faults() -> None:
    """What the other tests rely on."""
    time = {"type": "object", "properties": {"created": {"type": "number"}}, "required": ["created"]}
    fields = {
        "id": {"type": "string"},
        "type": {"enum": ["system"]},
        "text": {"type": "string"},
        "time": {"$ref": "Time"},
    }
    message = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    known = {"Time": time, "Message": {"anyOf": [{"type": "null"}, message]}}
    good: dict[str, Any] = {"id": "msg_1", "type": "system", "text": "x", "time": {"created": 1}}
    assert list(problems(known, good, {"$ref": "Message"})) == []
    for bad in (
        {**good, "extra": 1},
        {**good, "text": 7},
        {**good, "type": "systemic"},
        {**good, "time": {"created": True}},
        {**good, "time": {}},
        {key: value for key, value in good.items() if key != "id"},
    ):
        assert list(problems(known, bad, {"$ref": "Message"})), bad


@either_contract
def test_messages_fit_the_contract(contract: str) -> None:
    """SES-191..201: every kind of message, part and state in every form that a record can take."""
    for wire in examples(SessionMessage):
        if wire["type"] not in ("assistant", "shell"):
            wire = {**wire, "time": {"created": 7}}  # our record of a time is shared; only those two ever end
        check(contract, decode_any(encode(decode_message(msgspec.json.encode(wire)))), "SessionMessage")


@either_contract
@pytest.mark.parametrize(
    ("kind", "schema"),
    [(Session, "SessionV2Info"), (Admission, "SessionInputAdmitted"), (SessionActive, "SessionActive")],
)
def test_records_fit_the_contract(contract: str, kind: type[msgspec.Struct], schema: str) -> None:
    """SES-008, SES-034, SES-073: in every form that a record can take."""
    for wire in examples(kind):
        record = decode_any(encode(decoder(kind).decode(msgspec.json.encode(wire))))
        if kind is Session and contract == "opencode":
            record.pop("fork", None)  # SES-320: of the next generation
            record.pop("children", None)  # API-565: only in lists
        check(contract, record, schema)


@either_contract
@pytest.mark.parametrize("definition", COMMON_DURABLE, ids=lambda item: item.type)
def test_durable_events_fit_the_contract(contract: str, definition: Definition) -> None:
    """EVT-046: each public durable event, whole."""
    for payload in examples(definition.payload):
        check(contract, wired(definition, payload), "SessionDurableEvent")


@either_contract
@pytest.mark.parametrize("definition", COMMON_LIVE, ids=lambda item: item.type)
def test_live_events_fit_the_contract(contract: str, definition: Definition) -> None:
    """EVT-049, SES-076: each event that is announced and never stored."""
    for payload in FREE_FORM.get(definition.type) or examples(definition.payload):
        event = wired(definition, payload)
        if contract == "opencode":
            event["data"].pop("ancestors", None)  # API-540: only in requests of child Sessions
        check(contract, event, "V2Event")


@either_contract
async def test_everything_that_a_session_announces_and_stores_fits_the_contract(
    contract: str, runtime: Runtime, model: ScriptedTransport
) -> None:
    """EVT-046, EVT-049, SES-076, SES-197: everything announced and stored by two prompts, one of which fails."""
    heard: list[Announcement] = []
    runtime.log.bus.listen(heard.append)
    model._turns[:] = [
        Turn(text="Reading.", calls=(Call(tool="read", input={"path": "hello.txt"}),)),
        Turn(text="Done."),
        Turn(fail=400),
    ]
    session = await runtime.sessions.create(
        location=runtime.location,
        project=await runtime.project(runtime.location),
        model=ModelRef(id="echo", provider_id="demo"),
    )
    check(contract, decode_any(encode(session)), "SessionV2Info")
    for text in ("one", "two"):
        receipt = await runtime.sessions.prompt(session.id, Prompt(text=text))
        check(contract, decode_any(encode(receipt)), "SessionInputAdmitted")
        await runtime.sessions.wait(session.id)
    for message in await runtime.sessions.messages(session.id, order="asc", limit=50):
        check(contract, decode_any(message.wire), "SessionMessage")
    events, _ = await runtime.sessions.history(session.id, limit=100)
    for event in events:
        check(contract, decode_any(encode(event)), "SessionDurableEvent")
    private = {item.type for item in SESSION_DEFINITIONS if not item.public and contract == "published"}
    announced = [decode_any(item.wire) for item in heard if item.type not in private]
    for event in announced:
        check(contract, event, "V2Event")
    assert {"session.created", "session.status", "session.error", "session.next.step.failed"} <= {
        item.type for item in heard
    }
