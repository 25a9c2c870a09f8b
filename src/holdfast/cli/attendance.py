"""Who answers the requests of a run: the person at the terminal, or a policy in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.cli.terminal import Terminal, present
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.cli import dialogue
    from holdfast.cli.dialogue import Decision
    from holdfast.schema.permission import PermissionRequest
    from holdfast.schema.question import Answer, QuestionRequest
else:
    dialogue = deferred("holdfast.cli.dialogue")

SANDBOX_ESCAPE = "sandbox_escape"
NO_PERMISSION = "Nobody is at a terminal to allow this; `holdfast run --yes` allows it"
NO_ESCAPE = "Nobody is at a terminal to allow this outside the sandbox"
NO_ANSWER = "Nobody is here to answer; go on with what you know, and say what you assumed"


class Attendance(Frozen):
    terminal: Terminal | None
    """None: no person can be asked."""
    allow: bool
    """Whether permission requests are allowed without asking, as `--yes` says. That does not cover leaving the sandbox,
    which the person chose."""

    @classmethod
    def of_process(cls, *, yes: bool) -> Attendance:
        return cls(Terminal() if present() else None, yes)

    @property
    def unattended(self) -> Literal["wait", "allow", "deny"]:
        """The policy for a runtime in this process. Without a person it answers by itself, and does not offer the model
        tools that need one."""
        if self.terminal is not None:
            return "wait"
        return "allow" if self.allow else "deny"

    def decide(self, request: PermissionRequest) -> Decision | None:
        """The answer to a request of a server; None if the person has to be asked."""
        escape = request.action == SANDBOX_ESCAPE
        if self.allow and not escape:
            return dialogue.Decision("once")
        if self.terminal is None:
            return dialogue.Decision("reject", NO_ESCAPE if escape else NO_PERMISSION)
        return None

    def answers(self, request: QuestionRequest) -> tuple[Answer, ...] | None:
        """The answers in place of a person; None if only given options can be chosen, so that nothing fits."""
        if any(question.custom is False for question in request.questions):
            return None
        return tuple((NO_ANSWER,) for _ in request.questions)
