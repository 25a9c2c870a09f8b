"""What each durable event does to the Session row and to messages other than the assistant's."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.event.samples import ASSISTANT, SES, Story, raw, record
from tests.stores.stores import STORES

from holdfast.core.database.errors import Refused, StorageError
from holdfast.core.session.errors import SessionIdInUse, UnknownBoundary
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record
from holdfast.schema.session import CacheTokens, RecordTime, Revert, RevertFile, Tokens
from holdfast.schema.session_event import (
    AgentSwitched,
    CompactionEnded,
    CompactionFailed,
    ContextUpdated,
    ModelSwitched,
    Moved,
    Retried,
    RetryError,
    RevertCleared,
    RevertCommitted,
    RevertStaged,
    SessionCreated,
    SessionDeleted,
    SessionUpdated,
    ShellEnded,
    ShellStarted,
    Synthetic,
)
from holdfast.schema.session_message import (
    AgentSwitchedMessage,
    CompactionMessage,
    Message,
    ModelSwitchedMessage,
    ShellMessage,
    SyntheticMessage,
    SystemMessage,
    Time,
    UnknownError,
)

pytestmark = pytest.mark.anyio

REVERT = Revert(
    message_id="msg_1",
    part_id="prt_1",
    snapshot="abc",
    diff="d",
    files=(RevertFile(path="a", status="added", additions=1, deletions=0, patch="p"),),
)
FULL: dict[str, Any] = {
    "workspace_id": "wrk_1",
    "path": "sub/dir",
    "parent_id": "ses_parent",
    "summary": {"additions": 1, "deletions": 2, "files": 3, "diffs": [{"file": "a"}]},
    "cost": 1.5,
    "tokens": Tokens(input=1, output=2, reasoning=3, cache=CacheTokens(read=4, write=5)),
    "share": {"url": "https://share"},
    "agent": "plan",
    "model": ModelRef(id="m", provider_id="p", variant="high"),
    "metadata": {"k": "ü"},
    "time": RecordTime(created=1, updated=2, compacting=3, archived=4, pinned=5),
    "permission": [{"action": "deny"}],
    "revert": REVERT,
}
NULLABLE = """
    workspace_id parent_id path share_url summary_additions summary_deletions summary_files summary_diffs metadata
    revert permission agent model time_compacting time_archived time_pinned newest_assistant fork
    instructions_seq
"""
FULL_ROW = {
    "id": SES,
    "project_id": "prj_1",
    "workspace_id": "wrk_1",
    "parent_id": "ses_parent",
    "slug": "quiet-kelp",
    "directory": "/w/here",
    "path": "sub/dir",
    "title": "A title",
    "version": "1.2.3",
    "share_url": "https://share",
    "summary_additions": 1,
    "summary_deletions": 2,
    "summary_files": 3,
    "summary_diffs": '[{"file":"a"}]',
    "metadata": '{"k":"ü"}',
    "cost": 1.5,
    "tokens_input": 1,
    "tokens_output": 2,
    "tokens_reasoning": 3,
    "tokens_cache_read": 4,
    "tokens_cache_write": 5,
    "permission": '[{"action":"deny"}]',
    "agent": "plan",
    "model": '{"id":"m","providerID":"p","variant":"high"}',
    "time_created": 1,
    "time_updated": 2,
    "time_compacting": 3,
    "time_archived": 4,
    "time_pinned": 5,
    "newest_assistant": None,
    "fork": None,
    "instructions_seq": None,
    "turns": 0,
}


async def test_session_created_inserts_the_whole_record(story: Story) -> None:
    """EVT-047, EVT-048, EVT-051: every field of the record has its column; absent ones are null or zero."""
    other = Story(story.database, story.log, "ses_full")
    await other.begin(**FULL)
    row = _row(story, "ses_full")
    assert row.pop("revert") is not None
    assert row == FULL_ROW | {"id": "ses_full"}
    assert (await other.session()).revert == REVERT
    plain = _row(story)
    absent = {name for name, value in plain.items() if value is None}
    assert absent == set(NULLABLE.split())
    assert (plain["cost"], plain["tokens_input"], plain["tokens_cache_write"]) == (0.0, 0, 0)


async def test_session_created_twice_is_a_failure_of_its_own(story: Story) -> None:
    """EVT-048: told apart from every other failure by its class."""
    with pytest.raises(SessionIdInUse):
        await story.log.publish(SessionCreated(session_id=SES, info=record(title="again")))
    assert (await story.session()).title == "A title"
    with pytest.raises(StorageError) as other:
        await story.log.publish(SessionCreated(session_id="ses_x", info=record("ses_x", project_id="prj_unknown")))
    assert not isinstance(other.value, Refused)


async def test_session_updated_overwrites_the_row(story: Story) -> None:
    """EVT-047, EVT-048: from the record alone; what the record leaves out is cleared."""
    await story.log.publish(SessionUpdated(session_id=SES, info=record(**FULL)))
    row = _row(story)
    row.pop("revert")
    assert row == FULL_ROW
    await story.log.publish(SessionUpdated(session_id=SES, info=record(title="new")))
    session = await story.session()
    assert (session.title, session.agent, session.model, session.revert) == ("new", None, None, None)
    assert session.cost == 0


async def test_session_deleted_takes_everything_with_it(story: Story) -> None:
    """EVT-048, EVT-052, EVT-053, EVT-054, EVT-055: messages, parts, inbox, epoch and todos; not the events."""
    await story.step()
    await story.epoch()
    raw(story.database.path, "insert into todo values ('ses_one', 0, 'c', 's', 'p', 1, 1, 1)")
    raw(
        story.database.path,
        "insert into session_input values ('ses_one', 9, 'msg_i', '{}', 'steer', null, null, 1, 'user', 0, null, null)",
    )
    raw(story.database.path, "insert into session_message_part values ('ses_one', 1, 0, 'text', 't', null, '{}')")
    other = Story(story.database, story.log, "ses_two")
    await other.begin()
    await other.note(1)
    await story.log.publish(SessionDeleted(session_id=SES, info=record()))
    assert set(map(len, (await story.projections()).values())) == {0}
    assert await story.epochs() == 0
    assert await story.log.latest(SES) == 2
    assert await other.message_ids() == ["msg_ses_two_1"]


SIMPLE: list[tuple[type[Record], dict[str, Any], type[Message], dict[str, Any]]] = [
    (AgentSwitched, {"agent": "plan"}, AgentSwitchedMessage, {"agent": "plan"}),
    (
        ModelSwitched,
        {"model": ModelRef(id="m", provider_id="p", variant="v")},
        ModelSwitchedMessage,
        {"model": ModelRef(id="m", provider_id="p", variant="v")},
    ),
    (ContextUpdated, {"text": "now: ü"}, SystemMessage, {"text": "now: ü"}),
    (Synthetic, {"text": "s"}, SyntheticMessage, {"text": "s", "session_id": SES}),
    (
        ShellStarted,
        {"call_id": "c", "command": "ls"},
        ShellMessage,
        {"call_id": "c", "command": "ls", "output": ""},
    ),
    (
        CompactionEnded,
        {"reason": "auto", "text": "summary", "recent": "recent"},
        CompactionMessage,
        {"reason": "auto", "summary": "summary", "recent": "recent"},
    ),
]


@pytest.mark.parametrize(("kind", "fields", "message", "content"), SIMPLE, ids=[item[0].__name__ for item in SIMPLE])
async def test_events_that_append_a_message(
    story: Story, kind: type[Record], fields: dict[str, Any], message: type[Message], content: dict[str, Any]
) -> None:
    """EVT-046, EVT-052: one message with the event's id, time and sequence; `data` is without `id` and `type`."""
    committed = await story.tell(kind, at=77, message_id="msg_1", **fields)
    assert await story.message("msg_1") == message(id="msg_1", time=Time(created=77), **content)
    ((seq, created, updated, stored),) = raw(
        story.database.path, "select seq, time_created, time_updated, data from session_message"
    )
    assert (seq, created, updated) == (committed.last, 77, 77)
    assert '"id":"msg_1"' not in stored
    assert '"type"' not in stored


async def test_switches_change_the_session_too(story: Story) -> None:
    """EVT-046: agent, model and updated time of the Session, each by its own event."""
    await story.tell(AgentSwitched, at=50, message_id="msg_1", agent="plan")
    session = await story.session()
    assert (session.agent, session.model, session.time.updated, session.time.created) == ("plan", None, 50, 10)
    await story.tell(ModelSwitched, at=60, message_id="msg_2", model=ModelRef(id="m", provider_id="p", variant="v"))
    session = await story.session()
    assert (session.agent, session.time.updated) == ("plan", 60)
    assert session.model == ModelRef(id="m", provider_id="p", variant="v")


async def test_a_move_changes_the_place_and_clears_the_epoch(story: Story) -> None:
    """EVT-046, SES-149: directory, workspace, path and updated time; a later move without them clears them."""
    await story.epoch()
    await story.tell(Moved, at=50, location=Location(directory="/new", workspace_id="wrk_2"), subdirectory="packages/a")
    session = await story.session()
    assert session.location == Location(directory="/new", workspace_id="wrk_2")
    assert (session.subpath, session.time.updated) == ("packages/a", 50)
    assert await story.epochs() == 0
    await story.tell(Moved, at=51, location=Location(directory="/w"))
    session = await story.session()
    assert (session.location, session.subpath) == (Location(directory="/w"), None)
    assert await story.message_ids() == []


async def test_a_shell_command_ends_in_its_newest_message(story: Story) -> None:
    """EVT-046: output and completion go to the newest shell message with that call id, of this Session."""
    other = Story(story.database, story.log, "ses_two")
    await other.begin()
    await other.tell(ShellStarted, message_id="msg_other", call_id="c", command="a")
    for number, call in enumerate(("c", "c", "d")):
        await story.tell(ShellStarted, at=number, message_id=f"msg_{number}", call_id=call, command="ls")
    await story.tell(ShellEnded, at=9, call_id="c", output='"ü"\n\x00')
    outputs = [await story.message(f"msg_{number}") for number in range(3)]
    assert outputs[1] == ShellMessage(
        id="msg_1", time=Time(created=1, completed=9), call_id="c", command="ls", output='"ü"\n\x00'
    )
    assert all(isinstance(item, ShellMessage) and not item.output for item in (outputs[0], outputs[2]))
    assert (await other.message("msg_other")).time == Time(created=1_000)


NO_EFFECT: list[tuple[type[Record], dict[str, Any]]] = [
    (Retried, {"attempt": 1, "error": RetryError(message="m", is_retryable=True)}),
    (CompactionFailed, {"message_id": "msg_c", "error": UnknownError(message="m")}),
]


@pytest.mark.parametrize(("kind", "fields"), NO_EFFECT, ids=[item[0].__name__ for item in NO_EFFECT])
async def test_an_event_without_a_projection_is_stored_and_changes_no_row(
    story: Story, kind: type[Record], fields: dict[str, Any]
) -> None:
    """EVT-046: stored and delivered, no row changes."""
    await story.step()
    before = await story.projections()
    committed = await story.tell(kind, **fields)
    assert await story.projections() == before
    assert (await story.log.page(SES, after=committed.last - 1)).events[0].data is not None


async def test_a_completed_compaction_of_either_version_replays(story: Story) -> None:
    """EVT-080: version 2 is written, version 1 is decoded, projected and delivered alike."""
    await story.tell(CompactionEnded, message_id="msg_1", reason="auto", text="s", recent="r")
    (first,) = await story.log.serialized(SES, after=0)
    assert first.type == "session.next.compaction.ended.2"
    content = bytes(first.data).replace(b"msg_1", b"msg_2")
    second = type(first)(
        id="evt_2", type="session.next.compaction.ended.1", seq=2, aggregate_id=SES, data=type(first.data)(content)
    )
    assert await story.log.replay(second)
    assert [event.type for event in (await story.log.page(SES)).events] == ["session.next.compaction.ended"] * 2
    one, two = await story.message("msg_1"), await story.message("msg_2")
    assert isinstance(one, CompactionMessage)
    assert isinstance(two, CompactionMessage)
    assert (one.summary, one.recent) == (two.summary, two.recent)


async def test_a_revert_is_staged_and_cleared(story: Story) -> None:
    """EVT-046: the whole state and the updated time on the Session; messages stay."""
    await story.note(1)
    await story.tell(RevertStaged, at=50, revert=REVERT)
    session = await story.session()
    assert (session.revert, session.time.updated) == (REVERT, 50)
    await story.tell(RevertCleared, at=60)
    session = await story.session()
    assert (session.revert, session.time.updated) == (None, 60)
    assert len(await story.message_ids()) == 1


async def test_a_committed_revert_removes_what_came_after(story: Story) -> None:
    """EVT-046, SES-171: the boundary message stays; events stay; an unknown boundary rolls back."""
    await story.note(1)
    await story.step()
    await story.note(2)
    await story.tell(RevertStaged, at=50, revert=REVERT)
    other = Story(story.database, story.log, "ses_two")
    await other.begin()
    await other.note(1)
    with pytest.raises(UnknownBoundary):
        await story.tell(RevertCommitted, message_id="msg_ses_two_1")
    assert await story.log.latest(SES) == 4
    await story.tell(RevertCommitted, at=70, message_id="msg_ses_one_1")
    assert await story.message_ids() == ["msg_ses_one_1"]
    assert ASSISTANT not in await story.message_ids()
    session = await story.session()
    assert (session.revert, session.time.updated) == (None, 70)
    assert await other.message_ids() == ["msg_ses_two_1"]
    assert await story.log.latest(SES) == 5


def _row(story: Story, session_id: str = SES) -> dict[str, Any]:
    names = STORES.columns(story.database.path, "session")
    (row,) = raw(story.database.path, f"select {', '.join(names)} from session where id = ?", (session_id,))
    return dict(zip(names, row, strict=True))
