"""How long a drain may go on without a person: the agent's steps, a safety cap, and the same call again and again.

Promoting any input opens a new window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.codec import encode

if TYPE_CHECKING:
    from holdfast.llm.event import ToolCall

ASK_FROM = 4


class Allowance:
    """One window."""

    def __init__(self, steps: int | None) -> None:
        self.steps = steps
        self.step = 1
        self._repeated: bytes | None = None
        self._times = 0

    @property
    def last_step(self) -> bool:
        return self.steps is not None and self.step >= self.steps

    def renew(self) -> None:
        """New input was promoted: this is the first turn again."""
        self.step = 1
        self._repeated, self._times = None, 0

    def times(self, call: ToolCall) -> int:
        """How often this very call has now come in a row."""
        identity = encode([call.name, _sorted(call.input)])
        self._times = self._times + 1 if identity == self._repeated else 1
        self._repeated = identity
        return self._times


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
