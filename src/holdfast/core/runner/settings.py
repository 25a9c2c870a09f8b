"""What configuration says about running Sessions."""

from __future__ import annotations

from holdfast.core.session.activity import RecoveryPolicy  # noqa: TC001 - msgspec reads the annotations
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.route.retry import RetryLimits
from holdfast.schema.budget import Budget  # noqa: TC001 - msgspec reads the annotations
from holdfast.schema.frozen import Frozen


class Limits(Frozen):
    running_calls: int = 32
    """Of one turn at once; further ones wait in order."""
    calls: int = 500
    """Of one turn; what is over is recorded and fails."""
    repeated_calls: int = 100
    """The same call in a row; then the drain stops."""
    retry: RetryLimits = RetryLimits()


class CompactionSettings(Frozen):
    auto: bool = True
    prune: bool = False
    keep_tokens: int = 8_000
    buffer: int = 20_000


class SessionSettings(Frozen):
    compaction: CompactionSettings = CompactionSettings()
    limits: Limits = Limits()
    answer: AnswerLimits = DEFAULT_LIMITS
    snapshots: bool = True
    titles: bool = True
    recovery: RecoveryPolicy = "safe"
    turns: int | None = None
    """The safety cap on turns since the last input; None is none."""
    budget: Budget | None = None
    """Of new Sessions without a parent."""
