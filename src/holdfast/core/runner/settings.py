"""What configuration says about running Sessions."""

from __future__ import annotations

from typing import Literal

from holdfast.core.runner.turn import Limits
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.schema.frozen import Frozen

RecoveryPolicy = Literal["ask", "continue", "abandon"]


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
    recovery: RecoveryPolicy = "ask"
    turns: int | None = None
    """The safety cap on turns since the last input; None is none."""
