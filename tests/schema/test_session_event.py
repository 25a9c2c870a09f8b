"""The Session's events: types, stored versions, payload fields."""

from __future__ import annotations

import msgspec
import pytest
from tests.schema.conftest import examples, field_names

from holdfast.schema import live_event as live
from holdfast.schema.codec import decode_any, decoder, encode
from holdfast.schema.event import Definition
from holdfast.schema.manifest import LIVE_DEFINITIONS, MANIFEST, SESSION_DEFINITIONS

STAMP = {"timestamp", "sessionID"}
STEP = STAMP | {"assistantMessageID"}
# Type: stored version, what the payload must have, what it may have.
DURABLE: dict[str, tuple[int, set[str], set[str]]] = {
    "session.created": (1, {"sessionID", "info"}, set()),
    "session.updated": (1, {"sessionID", "info"}, set()),
    "session.deleted": (1, {"sessionID", "info"}, set()),
    "session.next.agent.switched": (1, STAMP | {"messageID", "agent"}, set()),
    "session.next.model.switched": (1, STAMP | {"messageID", "model"}, set()),
    "session.next.moved": (1, STAMP | {"location"}, {"subdirectory"}),
    "session.next.prompt.admitted": (1, STAMP | {"messageID", "prompt", "delivery"}, {"type"}),
    "session.next.prompted": (1, STAMP | {"messageID", "prompt", "delivery"}, set()),
    "session.next.context.updated": (1, STAMP | {"messageID", "text"}, set()),
    "session.next.synthetic": (1, STAMP | {"messageID", "text"}, {"description", "metadata", "delivery"}),
    "session.next.shell.started": (1, STAMP | {"messageID", "callID", "command"}, set()),
    "session.next.shell.ended": (1, STAMP | {"callID", "output"}, {"exit"}),
    "session.next.step.started": (1, STEP | {"agent", "model"}, {"snapshot"}),
    "session.next.step.ended": (
        2,
        STEP | {"finish", "cost", "tokens"},
        {"snapshot", "files", "structured", "rejected", "saved"},
    ),
    "session.next.step.failed": (2, STEP | {"error"}, {"cost", "tokens"}),
    "session.next.text.started": (1, STEP | {"textID"}, set()),
    "session.next.text.ended": (1, STEP | {"textID", "text"}, {"brokenOff"}),
    "session.next.reasoning.started": (1, STEP | {"reasoningID"}, {"providerMetadata"}),
    "session.next.reasoning.ended": (1, STEP | {"reasoningID", "text"}, {"providerMetadata", "brokenOff"}),
    "session.next.tool.input.started": (1, STEP | {"callID", "name"}, set()),
    "session.next.tool.input.ended": (1, STEP | {"callID", "text"}, set()),
    "session.next.tool.called": (1, STEP | {"callID", "tool", "input", "provider"}, set()),
    "session.next.tool.progress": (1, STEP | {"callID", "structured", "content"}, set()),
    "session.next.tool.success": (
        1,
        STEP | {"callID", "structured", "content", "provider"},
        {"outputPaths", "result"},
    ),
    "session.next.tool.failed": (1, STEP | {"callID", "error", "provider"}, {"result"}),
    "session.next.retried": (1, STAMP | {"attempt", "error"}, set()),
    "session.next.compaction.started": (1, STAMP | {"messageID", "reason"}, set()),
    "session.next.compaction.ended": (2, STAMP | {"messageID", "reason", "text", "recent"}, set()),
    "session.next.compaction.failed": (1, STAMP | {"messageID", "error"}, set()),
    "session.next.revert.staged": (1, STAMP | {"revert"}, set()),
    "session.next.revert.cleared": (1, STAMP, set()),
    "session.next.revert.committed": (1, STAMP | {"messageID"}, set()),
}
LIVE: dict[str, tuple[set[str], set[str]]] = {
    "session.next.text.delta": (STEP | {"textID", "delta"}, set()),
    "session.next.reasoning.delta": (STEP | {"reasoningID", "delta"}, set()),
    "session.next.tool.input.delta": (STEP | {"callID", "delta"}, set()),
    "session.next.compaction.delta": (STAMP | {"messageID", "text"}, set()),
    "session.next.shell.delta": (STAMP | {"callID", "delta"}, set()),
    "todo.updated": ({"sessionID", "todos"}, set()),
    "session.status": ({"sessionID", "status"}, set()),
    "session.idle": ({"sessionID"}, set()),
    "session.compacted": ({"sessionID"}, set()),
    "session.error": (set(), {"sessionID", "error"}),
    "server.connected": (set(), set()),
    "global.disposed": (set(), set()),
}
PRIVATE = {
    f"session.next.{name}"
    for name in (
        "forked",
        "lineage.shortened",
        "input.withdrawn",
        "input.delivery.changed",
        "attachment.stored",
        "budget.set",
        "instruction.discovered",
        "instruction.entry.put",
        "instruction.entry.removed",
        "turn.dispatched",
        "turn.answered",
        "turn.abandoned",
        "recovery.decided",
        "activity.ended",
        "activity.suspended",
        "request.taken",
        "snapshot.captured",
        "compaction.undone",
        "usage.recorded",
        "todos.replaced",
        "task.started",
        "task.moved",
        "permission.asked",
        "permission.replied",
        "question.asked",
        "question.replied",
        "question.rejected",
        "form.asked",
        "form.replied",
        "form.cancelled",
    )
}
ALL = (*SESSION_DEFINITIONS, *LIVE_DEFINITIONS)


def test_the_durable_events_and_their_payloads() -> None:
    """EVT-046, EVT-047: exactly these types, in these versions, with these fields."""
    written = {item.type: item for item in SESSION_DEFINITIONS if item.written and item.type not in PRIVATE}
    shapes = {name: (item.version, *field_names(item.payload)[1:]) for name, item in written.items()}
    assert shapes == DURABLE


def test_the_live_events_and_their_payloads() -> None:
    """EVT-049: these, and none of them can be stored."""
    shapes = {item.type: field_names(item.payload)[1:] for item in LIVE_DEFINITIONS}
    assert {name: shapes[name] for name in LIVE} == LIVE
    assert not any(item.durable for item in LIVE_DEFINITIONS)


def test_both_versions_of_a_finished_compaction_are_read() -> None:
    """EVT-080: version 2 is written, version 1 still decodes, into the same payload."""
    name = "session.next.compaction.ended"
    assert MANIFEST.latest[name].version == 2
    assert MANIFEST.stored[f"{name}.1"].payload is MANIFEST.stored[f"{name}.2"].payload


def test_records_of_the_whole_session_stay_private() -> None:
    """EVT-022, EVT-047."""
    private = {item.type for item in SESSION_DEFINITIONS if not item.public}
    assert private == {"session.created", "session.updated", "session.deleted", *PRIVATE}


def test_events_that_the_contract_does_not_know_are_private() -> None:
    """EVT-061: stored and replayed under names of the same style, and absent from the public stream; only the failed
    compaction is public, because its start is."""
    assert all(not MANIFEST.latest[name].public and name.startswith("session.next.") for name in PRIVATE)
    assert MANIFEST.latest["session.next.compaction.failed"].public


@pytest.mark.parametrize("definition", ALL, ids=[f"{item.type}.{item.version}" for item in ALL])
def test_every_event_payload_survives_decoding_and_encoding(definition: Definition) -> None:
    """EVT-008, EVT-046, EVT-049: every example of a payload survives decoding and encoding."""
    reading = decoder(definition.payload)
    for wire in examples(definition.payload):
        assert decode_any(encode(reading.decode(msgspec.json.encode(wire)))) == wire


def test_the_three_kinds_of_status() -> None:
    """SES-076: busy, idle, and a retry with its attempt, message, time and perhaps an action."""
    assert [field_names(kind) for kind in (live.Busy, live.Idle, live.Retry)] == [
        ("busy", set(), set()),
        ("idle", set(), set()),
        ("retry", {"attempt", "message", "next"}, {"action"}),
    ]
