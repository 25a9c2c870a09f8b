"""Replay owners: who may replay into an aggregate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.core.event.samples import SES, Opened, Story, follow, opened, raw, seqs

from holdfast.core.event.errors import InvalidDurableEvent
from holdfast.schema.event import SerializedEvent

pytestmark = pytest.mark.anyio


@pytest.fixture
async def events(story: Story) -> list[SerializedEvent]:
    for number in (1, 2, 3):
        await story.note(number)
    return await story.log.serialized(SES)


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Opened]:
    async with opened(tmp_path / "other.db", project=True) as other:
        yield other


async def test_a_claim_overwrites_the_owner(story: Story) -> None:
    """EVT-001, EVT-040: the last claim counts, on a known aggregate and on one without events; no event is made."""
    for owner in ("a", "b"):
        await story.log.claim(SES, owner)
        assert _owner(story) == (0, owner)
    await story.log.claim("ses_new", "c")
    assert await story.log.latest("ses_new") == -1
    assert len(await story.log.serialized(SES)) == 1


async def test_replay_with_an_owner_claims_what_nobody_owns(events: list[SerializedEvent], other: Opened) -> None:
    """EVT-040: the first replay with an owner claims; replay without one on an unowned aggregate claims nothing."""
    assert await other.log.replay(events[0])
    assert _owner(other) == (0, None)
    assert await other.log.replay(events[1], owner="a")
    assert _owner(other) == (1, "a")
    assert await other.log.replay(events[2], owner="a", strict=True)


async def test_an_exact_repeat_claims_too(events: list[SerializedEvent], other: Opened) -> None:
    """EVT-040: although it changes nothing else."""
    await other.log.replay_all(events)
    assert await other.log.replay(events[1], owner="a") is False
    assert _owner(other) == (3, "a")


async def test_a_refused_replay_claims_nothing(events: list[SerializedEvent], other: Opened) -> None:
    """EVT-010, EVT-040: a claim is part of the transaction that fails."""
    await other.log.replay(events[0])
    for wrong in (events[2], msgspec.structs.replace(events[0], id="evt_other")):
        with pytest.raises(InvalidDurableEvent):
            await other.log.replay(wrong, owner="a")
    assert _owner(other) == (0, None)


@pytest.mark.parametrize("owner", ["b", None])
async def test_another_owner_is_skipped_silently(
    events: list[SerializedEvent], other: Opened, owner: str | None
) -> None:
    """EVT-040: also replay without an owner; nothing is stored, nobody is told, the owner stays."""
    await other.log.replay_all(events[:2], owner="a")
    with other.log.bus.subscribe() as live:
        async with follow(other.log, after=1) as follower:
            await follower.start()
            assert await other.log.replay(events[2], owner=owner, publish=True) is False
            assert await other.log.replay(events[0], owner=owner, publish=True) is False
            assert _owner(other) == (1, "a")
            assert await other.log.replay(events[2], owner="a", publish=True)
            assert seqs(await follower.take(1)) == [2]
        assert [item.id for item in await live.next()] == [events[2].id]


@pytest.mark.parametrize("owner", ["b", None])
@pytest.mark.parametrize("index", [0, 2])
async def test_another_owner_is_refused_when_strict(
    events: list[SerializedEvent], other: Opened, owner: str | None, index: int
) -> None:
    """EVT-016, EVT-040: strict is checked for new events and for exact repeats alike."""
    await other.log.replay_all(events[:2], owner="a")
    with pytest.raises(InvalidDurableEvent, match="Replay owner mismatch"):
        await other.log.replay(events[index], owner=owner, strict=True)
    assert _owner(other) == (1, "a")


async def test_a_claim_moves_the_right_to_replay(events: list[SerializedEvent], other: Opened) -> None:
    """EVT-040: after a new claim the old owner is skipped and the new one goes on."""
    await other.log.replay_all(events[:2], owner="a", strict=True)
    await other.log.claim(SES, "b")
    assert await other.log.replay(events[2], owner="a") is False
    assert await other.log.replay(events[2], owner="b", strict=True)
    assert await other.log.serialized(SES) == events[:3]


async def test_an_owner_fences_replay_and_not_publishing(events: list[SerializedEvent], other: Opened) -> None:
    """EVT-040, EVT-042: local publishing does not ask whose aggregate it is, and does not change it."""
    await other.log.replay_all(events[:2], owner="a")
    assert (await Story(other.database, other.log).note(9)).last == 2
    assert _owner(other) == (2, "a")


def _owner(opened: Opened | Story) -> tuple[int, str | None]:
    (row,) = raw(opened.database.path, "select seq, owner_id from event_sequence where aggregate_id = ?", (SES,))
    return row[0], row[1]
