"""What refusals teach about a model's window, and for how long."""

from __future__ import annotations

from tests.conftest import ManualClock

from holdfast.core.runner.budget import Window
from holdfast.core.runner.learned import BELIEVED_MS, LearnedLimits
from holdfast.llm.event import ProviderError
from holdfast.schema.model import ModelRef
from holdfast.schema.turn_event import LearnedLimit

MODEL = ModelRef(id="m", provider_id="p")
UNNAMED = ProviderError(message="prompt is too long")


def named(tokens: int) -> ProviderError:
    return ProviderError(message=f"maximum context length is {tokens} tokens")


def tokens(limits: LearnedLimits) -> int | None:
    known = limits.of(MODEL)
    return known.tokens if known is not None else None


def test_the_newest_named_window_counts_and_an_estimate_only_lowers_it() -> None:
    """CMP-059: measured by the estimate, by which later requests are measured too."""
    limits = LearnedLimits(ManualClock(1_000))
    limits.refused(MODEL, named(8_000), 9_000)
    assert limits.of(MODEL) == LearnedLimit(tokens=8_000, stated=True, time=1_000)
    assert limits.of(ModelRef(id="other", provider_id="p")) is None
    limits.refused(MODEL, UNNAMED, 9_000)
    assert tokens(limits) == 8_000
    limits.refused(MODEL, UNNAMED, 7_000)
    assert limits.of(MODEL) == LearnedLimit(tokens=7_000, stated=False, time=1_000)
    limits.refused(MODEL, named(16_000), 20_000)
    assert tokens(limits) == 16_000
    limits.refused(MODEL, named(16_000), 5_000)
    assert limits.of(MODEL) == LearnedLimit(tokens=5_000, stated=False, time=1_000)


def test_a_refusal_about_bytes_teaches_nothing() -> None:
    """CMP-059"""
    limits = LearnedLimits(ManualClock(1_000))
    limits.refused(MODEL, ProviderError(message="413 Request Entity Too Large"), 9_000)
    assert limits.of(MODEL) is None


def test_a_learned_limit_is_believed_for_a_day() -> None:
    """CMP-061"""
    clock = ManualClock(1_000)
    limits = LearnedLimits(clock)
    limits.refused(MODEL, named(8_000), 9_000)
    clock.advance(BELIEVED_MS)
    assert tokens(limits) == 8_000
    clock.advance(1)
    assert limits.of(MODEL) is None


def test_the_smaller_of_configured_and_learned_budget_counts() -> None:
    """CMP-060, CMP-003: of a named window at most a quarter is reserved; below a refused estimate nothing is."""
    stated = LearnedLimit(tokens=8_000, stated=True, time=0)
    refused = LearnedLimit(tokens=8_000, stated=False, time=0)
    assert Window(0, 0, 20_000).room is None
    assert Window(0, 0, 20_000, stated).room == 6_000
    assert Window(0, 500, 100, stated).room == 7_500
    assert Window(0, 0, 20_000, refused).room == 7_999
    assert Window(100_000, 0, 20_000, stated).room == 6_000
    assert Window(5_000, 0, 1_000, stated).room == 4_000
    assert [Window(context, 0, 0, stated).known for context in (0, 5_000, 100_000)] == [8_000, 5_000, 8_000]
