"""Folding dispatches into requests: numbers of turns, how each ended, and what a broken prefix cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.inspect.ledger import ledger_entries, unread_tokens, with_extra
from holdfast.core.inspect.turn_numbers import TurnCount, TurnMark
from holdfast.core.inspect.window import ModelRoom, shared_out, window_of
from holdfast.schema.catalog import CacheCost, ModelCost
from holdfast.schema.ledger import LedgerEntry, RequestBytes
from holdfast.schema.model import ModelRef
from holdfast.schema.session import CacheTokens, Tokens
from holdfast.schema.session_event import Retried, RetryError, StepEnded, StepFailed, StepStarted, UsageRecorded
from holdfast.schema.session_message import UnknownError
from holdfast.schema.turn_event import LearnedLimit, TurnAbandoned, TurnAnswered, TurnDispatched

MODEL = ModelRef(id="m", provider_id="p")
PRICES = (ModelCost(input=3.0, output=15.0, cache=CacheCost(read=0.3, write=3.75)),)
SENT, ABANDONED, PROMPTED = (f"session.next.{name}.1" for name in ("turn.dispatched", "turn.abandoned", "prompted"))


def used(input: int, read: int = 0, write: int = 0) -> Tokens:
    return Tokens(input=input, output=1, reasoning=0, cache=CacheTokens(read=read, write=write))


def stamp(time: int) -> dict[str, Any]:
    return {"timestamp": time, "session_id": "ses_1"}


def dispatched(time: int, attempt: int = 1, **more: Any) -> TurnDispatched:
    seqs: dict[str, Any] = {"baseline_seq": 0, "checkpoint_seq": -1, "pruned_seq": -1}
    marks: dict[str, Any] = {"tools": "t", "system": "s", "controls": "c", "last_step": False}
    return TurnDispatched(**stamp(time), agent="build", model=MODEL, attempt=attempt, **seqs, **marks, **more)


def marks(*types: str) -> dict[int, int]:
    attempts = {"sent": 1, "silent": 0}
    names = {"sent": SENT, "silent": SENT, "abandoned": ABANDONED, "prompted": PROMPTED}
    given = [TurnMark(seq, names[name], attempts.get(name)) for seq, name in enumerate(types)]
    whole, in_parts = TurnCount(), TurnCount()
    whole.add(given)
    for end in range(len(given) + 1):
        in_parts.add(given[:end])  # what was counted already comes again
    assert in_parts.numbers == whole.numbers
    return whole.numbers


def test_attempts_at_one_turn_share_its_number() -> None:
    """WEB-203: an abandoned request is followed by another attempt, unless something new was asked."""
    assert marks("sent", "sent", "abandoned", "sent", "sent") == {0: 1, 1: 2, 3: 2, 4: 3}
    assert marks("sent", "abandoned", "prompted", "sent") == {0: 1, 3: 2}
    assert marks("silent", "sent", "silent", "sent") == {1: 1, 3: 2}
    assert marks("abandoned", "sent") == {1: 1}


def test_a_request_without_an_end_is_open_and_one_that_was_followed_is_not() -> None:
    """WEB-202."""
    events = [(1, dispatched(10)), (2, dispatched(20)), (3, dispatched(30))]
    assert [entry.status for entry in ledger_entries(events, {})] == ["abandoned", "abandoned", "open"]


def test_each_end_of_a_request_is_told() -> None:
    """WEB-202."""
    step: dict[str, Any] = {"assistant_message_id": "msg_1"}
    error = RetryError(message="busy", is_retryable=True)
    events: list[tuple[int, Any]] = [
        (1, dispatched(10)),
        (2, Retried(**stamp(11), attempt=1, error=error)),
        (3, StepStarted(**stamp(12), **step, agent="build", model=MODEL)),
        (4, TurnAnswered(**stamp(13), cost=0.5, tokens=used(7))),
        (5, StepFailed(**stamp(14), **step, error=UnknownError(message="gone"))),
        (6, dispatched(20)),
        (7, TurnAbandoned(**stamp(21), reason="refused")),
        (8, UsageRecorded(**stamp(22), purpose="title", cost=0.1, tokens=used(3))),
        (9, dispatched(30, attempt=0)),
        (10, StepStarted(**stamp(31), **step, agent="build", model=MODEL)),
        (11, StepEnded(**stamp(32), **step, finish="stop", cost=9.0, tokens=used(9))),
    ]
    failed, abandoned, title = ledger_entries(events, {1: 1, 6: 2})
    assert (failed.status, failed.attempts, failed.first, failed.ended) == ("failed", 2, 12, 14)
    assert (failed.cost, failed.tokens, failed.error, failed.message_id) == (0.5, used(7), "gone", "msg_1")
    assert (abandoned.status, abandoned.error, abandoned.tokens) == ("abandoned", "refused", None)
    assert (title.purpose, title.turn, title.seq, title.cost, title.model) == ("title", None, 8, 0.1, None)


def entry(tokens: Tokens | None, causes: tuple[str, ...] = (), size: RequestBytes | None = None) -> LedgerEntry:
    turn: dict[str, Any] = {"seq": 1, "turn": 1, "purpose": "turn", "status": "ended", "time": 1}
    return LedgerEntry(**turn, model=MODEL, tokens=tokens, causes=causes, bytes=size)


def size(total: int, same: int = 0, system: int = 0, tools: int = 0, baseline: int = 0) -> RequestBytes:
    return RequestBytes(total=total, same=same, system=system, tools=tools, baseline=baseline)


def test_what_could_have_been_read_from_the_cache() -> None:
    """WEB-204: what the provider had counted before, but not more than the request holds; after a compaction only the
    beginning that both share."""
    switch = ("agent switch",)
    assert unread_tokens(entry(used(1000)), entry(used(1200), switch)) == 1000
    assert unread_tokens(entry(used(1000)), entry(used(300), ("revert",))) == 300
    assert unread_tokens(entry(used(1000)), entry(used(200, read=1100), switch)) == 0
    assert unread_tokens(entry(used(1000)), entry(used(800), ("compaction",), size(400, same=100))) == 200
    assert unread_tokens(entry(used(1000)), entry(used(800), ("compaction",))) is None
    assert unread_tokens(entry(None, (), size(100)), entry(used(800), switch, size(200))) == 400
    assert unread_tokens(entry(None), entry(used(800), switch)) is None
    assert unread_tokens(entry(used(10)), entry(None, switch)) is None


def test_the_price_of_a_break() -> None:
    """WEB-204: written tokens cost more than others; nothing is said without a price, or without a break."""
    both = [entry(used(1000)), entry(used(500, write=700), ("hook",))]
    extra = with_extra(both, lambda model: PRICES)[1].extra
    assert extra == pytest.approx((300 * 3.0 + 700 * 3.75 - 1000 * 0.3) / 1_000_000)
    assert with_extra(both, lambda model: ())[1].extra is None
    free = (ModelCost(input=3.0, output=1.0, cache=CacheCost(read=0.0, write=0.0)),)
    assert with_extra(both, lambda model: free)[1].extra is None
    assert [item.extra for item in with_extra(both[1:], lambda model: PRICES)] == [None]
    assert [item.extra for item in with_extra([both[0], both[0]], lambda model: PRICES)] == [None, None]


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**7), max_size=6))
def test_parts_add_up_and_are_never_negative(whole: int, sizes: list[int]) -> None:
    """WEB-205."""
    parts = shared_out(whole, {str(place): part for place, part in enumerate(sizes)})
    assert all(part >= 0 for part in parts.values())
    assert sum(parts.values()) == (whole if any(sizes) else 0)


def test_a_learned_limit_counts_and_an_unknown_model_has_none() -> None:
    """WEB-205."""
    now = entry(used(100), (), size(400, system=100, tools=100, baseline=50))
    learned = LearnedLimit(tokens=8_000, stated=True, time=1)
    window = window_of(now, None, ModelRoom(10_000, 1_000, 2_000), learned, 30)
    assert (window.limit, window.reserve, window.used, window.estimated) == (8_000, 2_000, 100, False)
    assert [(part.name, part.tokens, part.bytes) for part in window.parts] == [
        ("agent", 12, 50),
        ("tools", 25, 100),
        ("baseline", 13, 50),
        ("checkpoint", 7, 30),
        ("messages", 43, 170),
    ]
    unknown = window_of(now, None, ModelRoom(), None, 0)
    assert (unknown.limit, unknown.reserve) == (None, None)
    silent = window_of(now, None, ModelRoom(10_000, 1_000, 2_000, compacts=False), None, 0)
    assert (silent.limit, silent.reserve) == (10_000, None)


def test_an_estimate_goes_on_from_what_was_counted() -> None:
    """WEB-205: and a request of an earlier version has no parts."""
    before = entry(used(1000), (), size(4_000))
    grown = window_of(entry(None, (), size(4_400, same=3_900)), before, ModelRoom(), None, 0)
    assert (grown.used, grown.estimated) == (1_100, True)
    other = window_of(entry(None, ("model switch",), size(4_400)), before, ModelRoom(), None, 0)
    assert other.used == 1_100
    assert window_of(entry(None), None, ModelRoom(), None, 0).parts == ()
