"""How far the answer to a prompt has come, from the Session's events."""

from __future__ import annotations

from collections import Counter
from typing import Any


class Answer:
    """The steps from the promotion of one prompt to the step that ends its work; later steps belong to others."""

    def __init__(self) -> None:
        self._prompt_id: str | None = None
        self._promoted = True
        self._steps = 0
        self._finish: str | None = None
        self._error: str | None = None
        self.message_id: str | None = None
        """The newest step of the answer."""
        self.cost = 0.0
        self.tokens: Counter[str] = Counter()
        """Of all steps: input, output, reasoning; read from and written to the cache."""

    def expect(self, prompt_id: str) -> None:
        """Count only steps after the promotion of this prompt; without a prompt every step counts."""
        self._prompt_id = prompt_id
        self._promoted = False

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Take notice of an event of the Session."""
        kind = kind.removeprefix("session.next.")
        if kind in ("prompted", "synthetic") and data["messageID"] == self._prompt_id:
            self._promoted = True
        if not self._promoted or self._ended:
            return
        match kind:
            case "step.started":
                self._steps += 1
                self._finish = None
                self.message_id = data["assistantMessageID"]
            case "step.ended":
                self._finish = data["finish"] if "rejected" not in data else None
                self._count(data)
            case "step.failed" if self._steps:  # an earlier one is of a turn that broke off before
                self._error = data["error"]["message"]
                if "tokens" in data:
                    self._count(data)

    def _count(self, data: dict[str, Any]) -> None:
        tokens = data["tokens"]
        self.cost += data["cost"]
        self.tokens.update({name: tokens[name] for name in ("input", "output", "reasoning")})
        self.tokens.update(tokens["cache"])

    @property
    def failed(self) -> bool:
        """Whether a step failed, other than by an interruption."""
        return self._error is not None

    @property
    def problem(self) -> str | None:
        """Why there is no complete answer; None if there is one."""
        if self._error is not None:
            return self._error
        if not self._steps:
            return "The prompt is stored but was not answered. `holdfast run --session` continues the session."
        if not self._ended:
            return "The turn stopped before the answer was complete. `holdfast run --session` continues the session."
        return None

    @property
    def _ended(self) -> bool:
        return self._error is not None or self._finish not in (None, "tool-calls")
