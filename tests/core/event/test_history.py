"""Finite pages of an aggregate's public events."""

from __future__ import annotations

import pytest
from tests.core.event.samples import SES, Story, record, seqs

from holdfast.core.event.log import EventLog
from holdfast.schema.event import EventEnvelope
from holdfast.schema.session_event import SessionUpdated

pytestmark = pytest.mark.anyio


@pytest.fixture
async def mixed(story: Story) -> list[int]:
    """Public and private events in turn; the sequences of the public ones."""
    public = []
    for number in range(12):
        if number % 3 == 0:
            await story.log.publish(SessionUpdated(session_id=SES, info=record()))
        else:
            public.append((await story.note(number)).last)
    return public


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 9, 100])
async def test_pages_are_filtered_before_they_are_cut(story: Story, mixed: list[int], limit: int) -> None:
    """EVT-028, EVT-029: each page is full while more exists, whatever private rows lie between; `hasMore` is exact."""
    assert await _pages(story.log, limit) == [mixed[start : start + limit] for start in range(0, len(mixed), limit)]


async def test_a_full_last_page_says_that_nothing_follows(story: Story, mixed: list[int]) -> None:
    """EVT-028: exactly as many as the limit is not "more"; one fewer is; a private row behind the last counts not."""
    await story.log.publish(SessionUpdated(session_id=SES, info=record()))
    assert [more for _, more in [await story.log.history(SES, limit=len(mixed))]] == [False]
    events, more = await story.log.history(SES, limit=len(mixed) - 1)
    assert (seqs(events), more) == (mixed[:-1], True)
    assert await story.log.history(SES, after=mixed[-1]) == ([], False)


async def test_the_head_moves_between_pages(story: Story, mixed: list[int]) -> None:
    """EVT-029: what is committed after the first page appears in a later one; sequences increase and are unique."""
    first, more = await story.log.history(SES, limit=len(mixed))
    assert not more
    late = [(await story.note(number)).last for number in (100, 101)]
    second, more = await story.log.history(SES, after=seqs(first)[-1])
    assert (seqs(second), more) == (late, False)
    everything = seqs(first) + seqs(second)
    assert everything == sorted(set(everything))


async def test_an_aggregate_without_events_is_an_empty_exhausted_page(story: Story) -> None:
    """EVT-029: nothing stored, only claimed, or only private rows: empty and at its end."""
    assert await story.log.history("ses_unknown") == ([], False)
    await story.log.claim("ses_claimed", "somebody")
    assert await story.log.history("ses_claimed") == ([], False)
    assert await story.log.history(SES) == ([], False)


async def test_history_gives_the_same_events_as_the_tail(story: Story, mixed: list[int]) -> None:
    """EVT-028: the same envelopes, so that a client may switch from one to the other at any sequence."""
    events, _ = await story.log.history(SES, limit=100)
    assert events == (await story.log.page(SES)).events
    assert seqs(events) == mixed


async def _pages(log: EventLog, limit: int) -> list[list[int]]:
    pages: list[list[int]] = []
    events: list[EventEnvelope]
    after, more = -1, True
    while more:
        events, more = await log.history(SES, after=after, limit=limit)
        pages.append(seqs(events))
        after = pages[-1][-1]
    return pages
