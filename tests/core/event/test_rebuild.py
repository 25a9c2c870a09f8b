"""Rebuilding projections from the log, and telling where they differ from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.core.event.samples import SES, Story, raw, record

from holdfast.core.database.unit import NewEvent, Row, Unit, Value
from holdfast.schema.location import Location
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_event import (
    AgentSwitched,
    Moved,
    PromptAdmitted,
    Prompted,
    RevertCommitted,
    SessionDeleted,
    TextEnded,
    TextStarted,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def busy(story: Story) -> Story:
    """A Session with something in every projection."""
    prompt = Prompt(text="hello")
    await story.tell(AgentSwitched, message_id="msg_0", agent="plan")
    await story.tell(PromptAdmitted, at=1, message_id="msg_1", prompt=prompt, delivery="steer")
    await story.tell(PromptAdmitted, at=2, message_id="msg_2", prompt=prompt, delivery="queue")
    await story.tell(Prompted, at=1, message_id="msg_1", prompt=prompt, delivery="steer")
    await story.step()
    await story.say(TextStarted, text_id="t")
    await story.say(TextEnded, text_id="t", text="words")
    await story.call("c", {})
    return story


DAMAGE = {
    "session": "update session set title = 'forged', agent = null",
    "messages": "update session_message set data = json_set(data, '$.text', 'forged') where type = 'user'",
    "parts": "update session_message_part set data = json_set(data, '$.text', 'forged') where kind = 'text'",
    "inbox": "update session_input set promoted_seq = null",
    "messages lost": "delete from session_message_part; delete from session_message where type = 'user'",
    "parts lost": "delete from session_message_part",
    "inbox lost": "delete from session_input",
    "parts invented": "insert into session_message_part values ('ses_one', 5, 9, 'text', 'x', null, '{}')",
    "inbox invented": """insert into session_input
        values ('ses_one', 99, 'msg_x', '{}', 'steer', null, null, 1, 'user', 0, null, null)""",
}


async def test_a_healthy_session_verifies_and_a_rebuild_changes_nothing(busy: Story) -> None:
    """EVT-044: row for row the same; how many events were projected; no event is added and nobody is told."""
    before = await busy.projections()
    assert all(before[table] for table in ("session", "messages", "parts", "inbox"))
    assert [found async for found in busy.log.verify([SES])] == []
    with busy.log.bus.subscribe() as live:
        assert await busy.log.rebuild(SES) == 10
        assert await busy.projections() == before
        await busy.note(1)
        assert len(await live.next()) == 1
    assert await busy.log.latest(SES) == 10


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_is_found_and_repaired(busy: Story, damage: str) -> None:
    """EVT-044: the verifier names the table and both rows and writes nothing; the rebuild restores every row."""
    before = await busy.projections()
    raw(busy.database.path, DAMAGE[damage])
    damaged = await busy.projections()
    table = damage.split()[0]
    found = [found async for found in busy.log.verify([SES])]
    assert table in {mismatch.table for mismatch in found}
    assert {mismatch.table for mismatch in found} <= {"parts", table}
    for mismatch in found:
        assert mismatch.aggregate_id == SES
        assert mismatch.stored != mismatch.rebuilt
        assert mismatch.stored is None or mismatch.stored in damaged[mismatch.table]
        assert mismatch.rebuilt is None or mismatch.rebuilt in before[mismatch.table]
    assert await busy.projections() == damaged
    await busy.log.rebuild(SES)
    assert await busy.projections() == before
    assert [found async for found in busy.log.verify([SES])] == []


async def test_a_lost_session_row_comes_back_with_everything_below_it(busy: Story) -> None:
    """EVT-044: even when the cascade took messages, parts and inbox with it."""
    before = await busy.projections()
    for table in ("session_message_part", "session_message", "session_input", "session"):
        raw(busy.database.path, f"delete from {table}")
    assert (await busy.projections())["inbox"] == []
    assert [found async for found in busy.log.verify([SES])] != []
    await busy.log.rebuild(SES)
    assert await busy.projections() == before


async def test_a_rebuild_leaves_other_sessions_alone(busy: Story) -> None:
    """EVT-044: a rebuild drops and replays one aggregate."""
    other = Story(busy.database, busy.log, "ses_two")
    await other.begin(parent_id=SES)
    await other.note(1)
    raw(busy.database.path, "update session set title = 'forged'")
    await busy.log.rebuild(SES)
    assert (await busy.session()).title == "A title"
    assert (await other.session()).title == "forged"
    assert await other.message_ids() == ["msg_ses_two_1"]


async def test_a_rebuild_that_fails_leaves_the_projections_as_they_were(busy: Story) -> None:
    """EVT-044: one transaction; a log that cannot be projected (here: a message twice) changes nothing."""
    clash = '{"timestamp":1,"sessionID":"ses_one","messageID":"msg_1","text":"x"}'
    await busy.database.submit(Unit(SES, events=(NewEvent("evt_x", "session.next.synthetic.1", clash, None, ()),)))
    before = await busy.projections()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await busy.log.rebuild(SES)
    assert await busy.projections() == before


async def test_a_commit_after_the_log_was_read_is_not_lost_in_a_rebuild(busy: Story) -> None:
    """EVT-044: what lands between reading the log and replacing the projections is projected too."""
    read = busy.database.fetch_large
    meanwhile = iter([1, 2])

    async def then_commit(name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        rows = await read(name, params, into)
        if name == "event.page" and (number := next(meanwhile, None)) is not None:
            await busy.note(number)
        return rows

    busy.database.fetch_large = then_commit  # type: ignore[method-assign]
    assert await busy.log.rebuild(SES) == 12
    assert (await busy.message_ids())[-2:] == ["msg_ses_one_1", "msg_ses_one_2"]
    assert [found async for found in busy.log.verify([SES])] == []


async def test_unknown_stored_types_do_not_stop_a_rebuild(busy: Story) -> None:
    """EVT-027, EVT-044: what this build cannot project stays in the log and is passed over."""
    before = await busy.projections()
    await busy.database.submit(Unit(SES, events=(NewEvent("evt_x", "session.next.invented.1", "{}", None, ()),)))
    assert [found async for found in busy.log.verify([SES])] == []
    assert await busy.log.rebuild(SES) == 11
    assert await busy.projections() == before


@pytest.mark.parametrize("how", ["verify", "rebuild"])
async def test_messages_removed_by_a_revert_stay_removed_after_a_rebuild(busy: Story, how: str) -> None:
    """EVT-044, EVT-046: messages after the boundary and their contents, in the tables and for the verifier."""
    await busy.tell(RevertCommitted, message_id="msg_1")
    before = await busy.projections()
    assert before["parts"] == []
    await _check(busy, how)
    assert await busy.projections() == before


@pytest.mark.parametrize("how", ["verify", "rebuild"])
async def test_a_deleted_session_stays_deleted(busy: Story, how: str) -> None:
    """EVT-044, EVT-048: its log remains, its projection is nothing, in the tables and for the verifier."""
    await busy.log.publish(SessionDeleted(session_id=SES, info=record()))
    nothing: dict[str, list[Row]] = {table: [] for table in await busy.projections()}
    assert await busy.projections() == nothing
    await _check(busy, how)
    assert await busy.projections() == nothing


@pytest.mark.parametrize("has_moved", [False, True])
async def test_a_rebuild_does_not_touch_the_context_epoch(busy: Story, has_moved: bool) -> None:
    """EVT-044, EVT-054: it is operational state, not a projection; rebuilding what is projected leaves it alone."""
    if has_moved:
        await busy.tell(Moved, location=Location(directory="/elsewhere"))
    await busy.epoch()
    await busy.log.rebuild(SES)
    assert await busy.epochs() == 1


async def _check(story: Story, how: str) -> None:
    if how == "verify":
        assert [found async for found in story.log.verify([SES])] == []
    else:
        await story.log.rebuild(SES)


@pytest.mark.store("sqlite", reason="removes a row of the log by hand; the check is the same code on both stores")
async def test_a_hole_in_the_log_is_told(busy: Story) -> None:
    """EVT-044: by the first sequence that is missing; the others are not judged by what is left."""
    raw(busy.database.path, "delete from event where seq = 4")
    (found,) = [mismatch async for mismatch in busy.log.verify([SES])]
    assert (found.table, found.stored, found.rebuilt) == ("event", None, (4,))


@pytest.mark.store("sqlite", reason="removes rows of the log by hand; the check is the same code on both stores")
async def test_a_lost_end_of_the_log_is_told(busy: Story) -> None:
    """EVT-044: what is left has no gap, but the log has counted further."""
    last = await busy.log.latest(SES)
    raw(busy.database.path, f"delete from event where seq > {last - 3}")
    (found,) = [mismatch async for mismatch in busy.log.verify([SES])]
    assert (found.table, found.rebuilt) == ("event", (last - 2,))


async def test_a_log_of_several_pages_is_compared_with_its_rows(busy: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """EVT-044: also one that ends with a full page."""
    for size in (1, 2, 3, 10, 11):
        monkeypatch.setattr("holdfast.core.event.rebuild.PAGE", size)
        assert [found async for found in busy.log.verify([SES])] == []
        assert await busy.log.rebuild(SES) == await busy.log.latest(SES) + 1
