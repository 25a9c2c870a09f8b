"""Our records against OpenCode's published schemas: what we send is what its clients were generated for."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import SHARED
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

pytestmark = [pytest.mark.anyio, pytest.mark.shared]

CONTRACT = SHARED / "contract" / "opencode-v2-openapi.json"
OURS_ALONE = {"session.next.compaction.failed"}
"""Public events of Holdfast that the contract does not know."""
SHARED_DURABLE = [item for item in SESSION_DEFINITIONS if item.public and item.type not in OURS_ALONE]
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


@functools.cache
def schemas() -> dict[str, Any]:
    document: dict[str, Any] = decode_any(Path(CONTRACT).read_bytes())
    found: dict[str, Any] = document["components"]["schemas"]
    return found


def problems(value: Any, schema: dict[str, Any], at: str = "$") -> Iterator[str]:
    """What a value lacks, has too much, or has of the wrong type. Patterns and bounds are not looked at."""
    if "$ref" in schema:
        yield from problems(value, schemas()[schema["$ref"].rpartition("/")[2]], at)
    elif alternatives := schema.get("anyOf") or schema.get("oneOf"):
        found = [list(problems(value, alternative, at)) for alternative in alternatives]
        if all(found):
            nearest = min(found, key=lambda faults: (f"{at}.type:" in faults[0], len(faults)))
            yield f"{at}: fits none of {len(found)}; nearest: {nearest}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    elif "type" in schema and not is_a(value, schema["type"]):
        yield f"{at}: {value!r} is no {schema['type']}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), f"{at}[{index}]")
    elif isinstance(value, dict):
        yield from object_problems(value, schema, at)


def object_problems(value: dict[str, Any], schema: dict[str, Any], at: str) -> Iterator[str]:
    known, further = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{at}: lacks {name}" for name in schema.get("required", ()) if name not in value)
    for name, item in value.items():
        if name in known:
            yield from problems(item, known[name], f"{at}.{name}")
        elif further is False:
            yield f"{at}: has unknown {name}"
        elif isinstance(further, dict):
            yield from problems(item, further, f"{at}.{name}")


def is_a(value: Any, kind: str) -> bool:
    kinds: dict[str, type | tuple[type, ...]] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    return isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool))


def check(wire: Any, schema: str) -> None:
    found = list(problems(wire, {"$ref": schema}))
    assert not found, f"{schema}: {wire}: {found}"


def wired(definition: Definition, payload: Any) -> Any:
    """A payload inside its envelope, after a round through our own records."""
    record = decoder(definition.payload).decode(msgspec.json.encode(payload))
    position = DurablePosition(aggregate_id="ses_1", seq=3, version=definition.version) if definition.version else None
    event = EventEnvelope(id="evt_1", type=definition.type, durable=position, data=msgspec.Raw(encode(record)))
    return decode_any(encode(event))


def test_the_checker_sees_faults() -> None:
    """What the other tests rely on."""
    good: dict[str, Any] = {"id": "msg_1", "type": "system", "text": "x", "time": {"created": 1}}
    check(good, "SessionMessage")
    for bad in (
        {**good, "extra": 1},
        {**good, "text": 7},
        {**good, "type": "systemic"},
        {**good, "time": {"created": True}},
        {**good, "time": {}},
        {key: value for key, value in good.items() if key != "id"},
    ):
        assert list(problems(bad, {"$ref": "SessionMessage"})), bad


def test_messages_fit_the_contract() -> None:
    """SES-191..201: every kind of message, part and state in every form that a record can take."""
    for wire in examples(SessionMessage):
        if wire["type"] not in ("assistant", "shell"):
            wire = {**wire, "time": {"created": 7}}  # our record of a time is shared; only those two ever end
        check(decode_any(encode(decode_message(msgspec.json.encode(wire)))), "SessionMessage")


@pytest.mark.parametrize(
    ("kind", "schema"),
    [(Session, "SessionV2Info"), (Admission, "SessionInputAdmitted"), (SessionActive, "SessionActive")],
)
def test_records_fit_the_contract(kind: type[msgspec.Struct], schema: str) -> None:
    """SES-008, SES-034, SES-073: in every form that a record can take."""
    for wire in examples(kind):
        check(decode_any(encode(decoder(kind).decode(msgspec.json.encode(wire)))), schema)


@pytest.mark.parametrize("definition", SHARED_DURABLE, ids=lambda item: item.type)
def test_durable_events_fit_the_contract(definition: Definition) -> None:
    """EVT-046: each public durable event, whole."""
    for payload in examples(definition.payload):
        check(wired(definition, payload), "SessionDurableEvent")


@pytest.mark.parametrize("definition", LIVE_DEFINITIONS, ids=lambda item: item.type)
def test_live_events_fit_the_contract(definition: Definition) -> None:
    """EVT-049, SES-076: each event that is announced and never stored."""
    for payload in FREE_FORM.get(definition.type) or examples(definition.payload):
        check(wired(definition, payload), "V2Event")


async def test_what_a_real_session_says_fits_the_contract(runtime: Runtime, model: ScriptedTransport) -> None:
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
    check(decode_any(encode(session)), "SessionV2Info")
    for text in ("one", "two"):
        receipt = await runtime.sessions.prompt(session.id, Prompt(text=text))
        check(decode_any(encode(receipt)), "SessionInputAdmitted")
        await runtime.sessions.wait(session.id)
    for message in await runtime.sessions.messages(session.id, order="asc", limit=50):
        check(decode_any(message.wire), "SessionMessage")
    events, _ = await runtime.sessions.history(session.id, limit=100)
    for event in events:
        check(decode_any(encode(event)), "SessionDurableEvent")
    faults = [fault for item in heard for fault in problems(decode_any(item.wire), {"$ref": "V2Event"})]
    assert faults == []
    assert {"session.created", "session.status", "session.error", "session.next.step.failed"} <= {
        item.type for item in heard
    }
