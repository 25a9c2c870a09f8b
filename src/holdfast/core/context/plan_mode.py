"""`core/plan-mode`: tells the model to plan and to change nothing, while the Session's agent is `plan`.

Entering and leaving plan mode is a change of this source, so the model is told once, after the input that follows the
switch. System parts and tools of `plan` and `build` are the same: the switch keeps the request prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.context.source import JsonCodec, Source, constant
from holdfast.core.context.system_context import EMPTY, make
from holdfast.core.permission.rules import evaluate

if TYPE_CHECKING:
    from holdfast.core.context.system_context import SystemContext
    from holdfast.schema.agent import Agent

KEY = "core/plan-mode"
PLAN = "plan"
ACTIVE = """\
Plan mode is active. Work out a plan now; it is carried out later, after the user has left plan mode.

- Change nothing: do not edit, create or delete files, do not commit, and run no command that changes the project, the \
machine or a remote service. Reading, searching and commands that only look are fine. The one exception is a plan file \
`.opencode/plans/<name>.md`, when the user wants the plan kept.
- Treat a request to implement something as a request to plan it, also if it was made earlier in this conversation.
- Read the code that the change concerns and check your assumptions before you decide. Ask the user about decisions \
that are theirs.
- End with the plan: the goal, the files to change and how, in order, how to verify the result, and open questions. \
Then stop. The user decides whether it is carried out, and leaves plan mode for that."""
ENDED = (
    "Plan mode has ended. You may change files and run commands again, as far as your tools and permissions allow. "
    "Follow the user's latest request; where it asks to carry out a plan of this conversation, carry it out."
)


def plan_mode(agent: Agent) -> SystemContext:
    """Empty for other agents, and for a `plan` whose configured rules allow edits."""
    if agent.id != PLAN or evaluate(agent.permissions, "edit", "*", agent.fences) != "deny":
        return EMPTY
    return _ACTIVE


_ACTIVE = make(
    Source(
        key=KEY,
        codec=JsonCodec(bool),
        load=constant(True),
        baseline=lambda _: ACTIVE,
        update=lambda _, __: ACTIVE,
        removed=lambda _: ENDED,
        immediate=True,
    )
)
