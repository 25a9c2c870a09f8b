"""Asks what becomes of work that a process left unfinished and that cannot go on by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.tui.dialog import Choice, sentence_lines
from holdfast.tui.request_answers import Recover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.insight import InterruptedActivity
    from holdfast.tui.lines import Line


class RecoveryDialog:
    entry: str | None = None
    problem = ""

    def __init__(self, activity: InterruptedActivity) -> None:
        self._activity = activity

    @property
    def title(self) -> str:
        return "Unfinished work"

    def body(self, width: int) -> list[Line]:
        return sentence_lines(self._activity.what, width) + sentence_lines(self._activity.next, width, "class:dim")

    def choices(self) -> Sequence[Choice]:
        return [Choice("c", "continue; what was under way may be done again"), Choice("b", "abandon it")]

    def key(self, key: str) -> Recover | None:
        if key == "c":
            return Recover(self._activity.session_id, "continue")
        return Recover(self._activity.session_id, "abandon") if key == "b" else None

    def enter(self, text: str) -> None:
        return None

    def leave_entry(self) -> bool:
        return False
