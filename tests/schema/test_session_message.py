"""The records of a transcript: their names on the wire, and that nothing is lost there and back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.schema.conftest import examples, field_names

from holdfast.schema import session_message as m
from holdfast.schema.codec import decode_any, decode_message, decoder, encode
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Admission, AgentAttachment, FileAttachment, Prompt, Source
from holdfast.schema.session import CacheTokens, Revert, RevertFile, Session, SessionTime, Tokens

MESSAGE = {"id", "time"}
# Record: its tag, the fields it must have, the fields it may have.
SHAPES: list[tuple[type[msgspec.Struct], str | None, set[str], set[str]]] = [
    (m.UserMessage, "user", MESSAGE | {"text"}, {"metadata", "files", "agents", "skills", "options", "command"}),
    (m.SyntheticMessage, "synthetic", MESSAGE | {"sessionID", "text"}, {"metadata", "description"}),
    (m.SystemMessage, "system", MESSAGE | {"text"}, {"metadata"}),
    (m.ShellMessage, "shell", MESSAGE | {"callID", "command", "output"}, {"metadata", "exit"}),
    (m.AgentSwitchedMessage, "agent-switched", MESSAGE | {"agent"}, {"metadata"}),
    (m.ModelSwitchedMessage, "model-switched", MESSAGE | {"model"}, {"metadata"}),
    (m.CompactionMessage, "compaction", MESSAGE | {"reason", "summary", "recent"}, {"metadata"}),
    (
        m.AssistantMessage,
        "assistant",
        MESSAGE | {"agent", "model", "content"},
        {"metadata", "snapshot", "finish", "cost", "tokens", "error", "structured", "rejected"},
    ),
    (m.StepSnapshot, None, set(), {"start", "end", "files"}),
    (m.UnknownError, "unknown", {"message"}, {"code"}),
    (m.Time, None, {"created"}, {"completed"}),
    (m.TextPart, "text", {"id", "text"}, {"partial", "brokenOff"}),
    (m.ReasoningPart, "reasoning", {"id", "text"}, {"partial", "brokenOff", "providerMetadata", "time"}),
    (m.ToolPart, "tool", {"id", "name", "state", "time"}, {"provider"}),
    (m.ToolProvider, None, {"executed"}, {"metadata", "resultMetadata"}),
    (m.ToolTime, None, {"created"}, {"ran", "completed", "pruned"}),
    (m.ToolPending, "pending", {"input"}, {"partial"}),
    (m.ToolRunning, "running", {"input", "structured", "content"}, set()),
    (
        m.ToolCompleted,
        "completed",
        {"input", "structured", "content"},
        {"outputPaths", "attachments", "result"},
    ),
    (m.ToolError, "error", {"input", "structured", "content", "error"}, {"result"}),
    (m.TextContent, "text", {"text"}, set()),
    (m.FileContent, "file", {"uri", "mime"}, {"name"}),
    (ModelRef, None, {"id", "providerID"}, {"variant"}),
    (Tokens, None, {"input", "output", "reasoning", "cache"}, set()),
    (CacheTokens, None, {"read", "write"}, set()),
    (
        Prompt,
        None,
        {"text"},
        {"files", "agents", "skills", "metadata", "options", "command", "task", "notes", "description", "sent"},
    ),
    (FileAttachment, None, {"uri", "mime"}, {"name", "description", "source"}),
    (AgentAttachment, None, {"name"}, {"source"}),
    (Source, None, {"start", "end", "text"}, set()),
    (
        Admission,
        None,
        {"admittedSeq", "id", "sessionID", "prompt", "delivery", "timeCreated"},
        {"promotedSeq", "type"},
    ),
    (
        Session,
        None,
        {"id", "projectID", "cost", "tokens", "time", "title", "location"},
        {"parentID", "agent", "model", "subpath", "revert", "fork", "children"},
    ),
    (SessionTime, None, {"created", "updated"}, {"archived", "pinned"}),
    (Revert, None, {"messageID"}, {"partID", "snapshot", "diff", "files", "before"}),
    (RevertFile, None, {"path", "status", "additions", "deletions", "patch"}, set()),
]


@pytest.mark.parametrize(("kind", "tag", "required", "optional"), SHAPES, ids=[shape[0].__name__ for shape in SHAPES])
def test_messages_have_these_names_on_the_wire(
    kind: type[msgspec.Struct], tag: str | None, required: set[str], optional: set[str]
) -> None:
    """SES-191..201, SES-008, SES-034, SES-042: each name, and whether it is there always or only with a value."""
    assert field_names(kind) == (tag, required, optional)


@pytest.mark.parametrize("kind", [shape[0] for shape in SHAPES], ids=lambda kind: str(kind.__name__))
def test_every_message_survives_decoding_and_encoding(kind: type[msgspec.Struct]) -> None:
    """SES-191..201: every example survives decoding and encoding unchanged; equal values give equal bytes."""
    for wire in examples(kind):
        record = decoder(kind).decode(msgspec.json.encode(wire))
        again = decoder(kind).decode(encode(record))
        assert decode_any(encode(record)) == wire
        assert encode(again) == encode(record)


def test_the_kinds_of_messages_parts_and_states() -> None:
    """SES-191..200: a message is told apart by `type`, a part by `type`, a tool's state by `status`; no others."""

    def tags(union: Any) -> set[str]:
        return {member.__struct_config__.tag for member in union.__args__}

    assert tags(m.SessionMessage) == {
        "user",
        "synthetic",
        "system",
        "shell",
        "agent-switched",
        "model-switched",
        "compaction",
        "assistant",
    }
    assert tags(m.Part) == {"text", "reasoning", "tool"}
    assert tags(m.ToolState) == {"pending", "running", "completed", "error"}
    assert tags(m.ToolContent) == {"text", "file"}
    assert {member.__struct_config__.tag_field for member in m.ToolState.__args__} == {"status"}


def test_every_example_of_a_message_decodes_by_its_type() -> None:
    """SES-191..197."""
    seen = set()
    for wire in examples(m.SessionMessage):
        message = decode_message(msgspec.json.encode(wire))
        assert decode_any(encode(message)) == wire
        seen.add(type(message).__name__)
    assert len(seen) == 8


GOOD: dict[str, Any] = {"id": "msg_1", "type": "user", "text": "x", "time": {"created": 1}}
TOOL: dict[str, Any] = {"type": "tool", "id": "c", "name": "n", "time": {"created": 1}}
ASSISTANT: dict[str, Any] = {
    "id": "msg_1",
    "type": "assistant",
    "agent": "a",
    "model": {"id": "m", "providerID": "p"},
    "time": {"created": 1},
}


@pytest.mark.parametrize(
    "wire",
    [
        {**GOOD, "type": "tool"},
        {key: value for key, value in GOOD.items() if key != "type"},
        {key: value for key, value in GOOD.items() if key != "text"},
        {**GOOD, "id": "message_1"},
        {**GOOD, "text": None},
        {**GOOD, "time": {"created": "yesterday"}},
        {**GOOD, "files": [{"uri": "a"}]},
        {**GOOD, "type": "compaction", "reason": "because", "summary": "", "recent": ""},
        {**ASSISTANT, "content": [{"type": "image", "id": "x"}]},
        {**ASSISTANT, "content": [{**TOOL, "state": {"status": "cancelled", "input": {}}}]},
        {**ASSISTANT, "content": [{**TOOL, "state": {"status": "pending", "input": {}}}]},
        {**ASSISTANT, "content": [{**TOOL, "state": {"status": "running", "input": "{}"}}]},
        {**ASSISTANT, "content": [], "error": {"type": "fatal", "message": "x"}},
        {**ASSISTANT},
        [],
        "user",
    ],
)
def test_a_malformed_message_is_refused(wire: Any) -> None:
    """SES-191, SES-196, SES-197, SES-200: an unknown kind, part or state, a missing or mistyped field."""
    with pytest.raises(msgspec.ValidationError):
        decode_message(msgspec.json.encode(wire))


def test_a_field_from_a_newer_version_is_passed_over() -> None:
    """SES-191: unknown fields do not make a transcript unreadable."""
    assert decode_message(msgspec.json.encode({**GOOD, "newer": {"thing": 1}})) == decode_message(encode(GOOD))


def test_a_raw_result_survives_byte_for_byte() -> None:
    """SES-200: what a provider's own tool returned is not re-encoded."""
    raw = b'{"b":1.0,"a":[1e3,"\\u00e9"]}'
    wire = b'{"status":"completed","input":{},"structured":{},"content":[],"result":%s}' % raw
    state = decoder(m.ToolState).decode(wire)
    assert isinstance(state, m.ToolCompleted)
    assert state.result == msgspec.Raw(raw)
    assert raw in encode(state)
