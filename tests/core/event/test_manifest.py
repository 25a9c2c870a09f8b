"""Which events exist, under which version, with which fields, and what the registries refuse."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.core.event.samples import opened, seqs

from holdfast.core.database.unit import Statement
from holdfast.core.event.errors import InvalidDurableEvent
from holdfast.core.event.projection import Projected, Projectors
from holdfast.schema.event import Definition, SerializedEvent
from holdfast.schema.manifest import MANIFEST, Manifest
from holdfast.schema.record import Record
from holdfast.schema.session import SessionRecord
from holdfast.schema.session_event import RetryError, SessionCreated
from holdfast.schema.session_message import UnknownError

STEP = "assistantMessageID "
# Payload fields besides timestamp and sessionID; `?` marks optional ones.
PUBLIC = {
    "agent.switched.1": "messageID agent",
    "model.switched.1": "messageID model",
    "moved.1": "location subdirectory?",
    "prompt.admitted.1": "messageID prompt delivery type?",
    "prompted.1": "messageID prompt delivery",
    "context.updated.1": "messageID text",
    "synthetic.1": "messageID text description? metadata? delivery?",
    "shell.started.1": "messageID callID command",
    "shell.ended.1": "callID output exit?",
    "step.started.1": STEP + "agent model snapshot?",
    "step.ended.2": STEP + "finish cost tokens snapshot? files? structured? rejected? saved?",
    "step.failed.2": STEP + "error cost? tokens?",
    "text.started.1": STEP + "textID",
    "text.ended.1": STEP + "textID text brokenOff?",
    "reasoning.started.1": STEP + "reasoningID providerMetadata?",
    "reasoning.ended.1": STEP + "reasoningID text providerMetadata? brokenOff?",
    "tool.input.started.1": STEP + "callID name",
    "tool.input.ended.1": STEP + "callID text",
    "tool.called.1": STEP + "callID tool input provider",
    "tool.progress.1": STEP + "callID structured content",
    "tool.success.1": STEP + "callID structured content outputPaths? result? provider",
    "tool.failed.1": STEP + "callID error result? provider",
    "retried.1": "attempt error",
    "compaction.started.1": "messageID reason",
    "compaction.ended.2": "messageID reason text recent",
    "revert.staged.1": "revert",
    "revert.cleared.1": "",
    "revert.committed.1": "messageID before?",
    "compaction.failed.1": "messageID error",
}
SESSION_RECORD = """
    id slug projectID workspaceID? directory path? parentID? summary? cost? tokens? share? title agent? model? version
    metadata? time permission? revert? fork?
"""
RETRY_ERROR = "message statusCode? isRetryable responseHeaders? responseBody? metadata?"
LIVE = {
    "session.next.text.delta": "timestamp sessionID assistantMessageID textID delta",
    "session.next.reasoning.delta": "timestamp sessionID assistantMessageID reasoningID delta",
    "session.next.tool.input.delta": "timestamp sessionID assistantMessageID callID delta",
    "session.next.compaction.delta": "timestamp sessionID messageID text",
    "session.next.shell.delta": "timestamp sessionID callID delta",
    "todo.updated": "sessionID todos",
    "session.status": "sessionID status",
    "session.idle": "sessionID",
    "session.compacted": "sessionID",
    "session.error": "sessionID? error?",
}


@pytest.mark.parametrize(("stored", "fields"), PUBLIC.items(), ids=PUBLIC)
def test_public_durable_events_have_the_version_and_fields_of_the_contract(stored: str, fields: str) -> None:
    """EVT-004, EVT-046: the stored type, its payload fields and its aggregate field."""
    definition = MANIFEST.stored[f"session.next.{stored}"]
    assert definition.public
    assert definition.durable
    assert definition.aggregate == "session_id"
    assert _fields(definition.payload) == {"timestamp", "sessionID", *fields.split()}
    assert MANIFEST.latest[definition.type] is definition, "this version is the one that is written"


def test_the_public_set_is_exactly_that_of_the_contract() -> None:
    """EVT-022, EVT-061: nothing else is public, but for the first version of a completed compaction."""
    assert MANIFEST.public_types == {f"session.next.{name}" for name in (*PUBLIC, "compaction.ended.1")}


def test_session_records_are_private_durable_events() -> None:
    """EVT-047: three private types with the full record."""
    for name in ("created", "updated", "deleted"):
        definition = MANIFEST.stored[f"session.{name}.1"]
        assert not definition.public
        assert _fields(definition.payload) == {"sessionID", "info"}
    assert _fields(SessionRecord) == set(SESSION_RECORD.split())
    assert SessionCreated.__struct_fields__ == ("session_id", "info")


def test_details_inside_payloads_have_the_fields_of_the_contract() -> None:
    """EVT-046: the error of a retry and of a step."""
    assert _fields(RetryError) == set(RETRY_ERROR.split())
    assert msgspec.json.encode(UnknownError(message="m")) == b'{"type":"unknown","message":"m"}'


@pytest.mark.parametrize(("type_", "fields"), LIVE.items(), ids=LIVE)
def test_live_only_events_are_never_stored(type_: str, fields: str) -> None:
    """EVT-004, EVT-049: known for publishing, with these fields, and without a version."""
    definition = MANIFEST.latest[type_]
    assert not definition.durable
    assert _fields(definition.payload) == set(fields.split())
    assert not any(stored.startswith(f"{type_}.") for stored in MANIFEST.stored)


# -- registries ------------------------------------------------------------------------------------------------------


class NoteV1(Record):
    book: str
    words: str


class NoteV2(Record):
    book: str
    title: str
    text: str


class NoteV3(Record):
    book: str
    lines: tuple[str, ...]


def note(version: int, payload: type[Record], **more: Any) -> Definition:
    return Definition(type="note.added", payload=payload, version=version, aggregate="book", **more)


def _versions(order: tuple[Definition, ...]) -> str:
    return "-".join(str(definition.version) for definition in order)


V1, V2, V3 = note(1, NoteV1), note(2, NoteV2), note(3, NoteV3)


@pytest.mark.parametrize("order", list(itertools.permutations([V1, V2, V3])), ids=_versions)
def test_the_highest_version_is_published_whatever_the_order_of_declaration(order: tuple[Definition, ...]) -> None:
    """EVT-007: decoding knows every version, publishing only the highest."""
    manifest = Manifest(order)
    assert manifest.stored == {"note.added.1": V1, "note.added.2": V2, "note.added.3": V3}
    assert manifest.latest == {"note.added": V3}
    assert manifest.of_payload == {NoteV3: V3}


@pytest.mark.parametrize(
    "definitions",
    [
        (V1, note(1, NoteV2)),
        (V1, V1),
        (note(1, NoteV1, written=False), note(1, NoteV2, written=False)),
        (Definition(type="live", payload=NoteV1), Definition(type="live", payload=NoteV2)),
        (note(0, NoteV1),),
        (note(-1, NoteV1),),
        (Definition(type="half", payload=NoteV1, version=1),),
        (Definition(type="half", payload=NoteV1, aggregate="book"),),
    ],
    ids=[
        "two definitions",
        "one twice",
        "two that are only read",
        "two live ones",
        "version 0",
        "version -1",
        "no aggregate",
        "no version",
    ],
)
def test_an_ambiguous_registry_is_an_error_at_start_up(definitions: tuple[Definition, ...]) -> None:
    """EVT-004, EVT-007: one definition per type and version; a version is positive and comes with an aggregate."""
    with pytest.raises(ValueError):
        Manifest(definitions)


def test_equal_versions_of_different_types_do_not_collide() -> None:
    """EVT-007: the registry key is type and version together."""
    other = Definition(type="note.removed", payload=NoteV2, version=1, aggregate="book")
    assert set(Manifest((V1, other)).stored) == {"note.added.1", "note.removed.1"}


@pytest.mark.anyio
@pytest.mark.parametrize("versions", [(V1, V3), (V3, V1)], ids=["old first", "new first"])
async def test_an_older_version_is_not_published_any_more(tmp_path: Path, versions: tuple[Definition, ...]) -> None:
    """EVT-007: only the highest version is written; an older payload is not silently stored beside it."""
    async with opened(tmp_path / "h.db", manifest=Manifest(versions), projectors={}) as (_, log):
        await log.publish(NoteV3(book="b", lines=("x",)))
        with pytest.raises(InvalidDurableEvent):
            await log.publish(NoteV1(book="b", words="old"))
        assert [event.type for event in await log.serialized("b")] == ["note.added.3"]


@pytest.mark.anyio
async def test_a_changed_payload_keeps_its_decoder_and_is_upcast_for_projection(tmp_path: Path) -> None:
    """EVT-009: what version 1 stored is read as version 1, replayed and rebuilt through the upcaster, and still
    delivered under its own version; version 3 is projected by its own projector."""
    projected: list[Record] = []

    def project(event: Projected) -> tuple[Statement, ...]:
        projected.append(event.data)
        return ()

    def upcast(old: NoteV1) -> Record:
        return NoteV3(book=old.book, lines=tuple(old.words.split()))

    projectors: Projectors = {NoteV1: project, NoteV3: project}
    path = tmp_path / "h.db"
    async with opened(path, manifest=Manifest((V1,)), projectors=projectors) as (_, old_log):
        await old_log.publish(NoteV1(book="b", words="one two"))
    assert projected == [NoteV1(book="b", words="one two")]
    projected.clear()

    newer = Manifest((note(1, NoteV1, upcast=upcast), V3))
    async with opened(path, manifest=newer, projectors=projectors) as (_, log):
        assert await log.rebuild("b") == 1
        await log.publish(NoteV3(book="b", lines=("three",)))
        foreign = SerializedEvent(
            id="evt_x", type="note.added.1", seq=2, aggregate_id="b", data=msgspec.Raw(b'{"book":"b","words":"four"}')
        )
        assert await log.replay(foreign)
        page = await log.page("b")
    assert projected == [NoteV3(book="b", lines=lines) for lines in (("one", "two"), ("three",), ("four",))]
    assert [(event.type, event.durable.version) for event in page.events if event.durable] == [
        ("note.added", 1),
        ("note.added", 3),
        ("note.added", 1),
    ]
    assert seqs(page.events) == [0, 1, 2]
    assert bytes(page.events[0].data) == b'{"book":"b","words":"one two"}', "the stored form is not rewritten"


def _fields(payload: type[msgspec.Struct]) -> set[str]:
    return {
        field.encode_name if field.required else f"{field.encode_name}?" for field in msgspec.structs.fields(payload)
    }
