"""What lives as long as one drain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.runner.allowance import Allowance
from holdfast.core.runner.budget import Estimate
from holdfast.core.runner.structured import ActiveFormat
from holdfast.core.runner.turn_options import NO_OPTIONS
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.context.epoch import Epoch
    from holdfast.core.database.unit import Row
    from holdfast.core.runner.history import History
    from holdfast.core.runner.outbox import Outbox
    from holdfast.core.runner.session_cache import SessionCache
    from holdfast.core.runner.spending import Spending
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.ownership import Lease
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session_message import AssistantMessage


class DrainState:
    """What a drain carries from one turn to the next."""

    def __init__(self) -> None:
        self.allowance = Allowance(None)
        self.turns = 0
        """Since input was last promoted."""
        self.options = NO_OPTIONS
        """Of the newest prompt in the conversation that asks for an answer."""
        self.task_prompts = True
        """Whether there may be prompts in the conversation that are to be given to subagents."""
        self.estimate = Estimate()
        self.output = ActiveFormat()
        self.epoch: Epoch | None = None
        self.stored_epoch: Row | None = None
        """The epoch as it was stored when the drain began."""
        self.checkpoint_seq = -1
        self.pruned_seq = -1
        self.media_refused_by: ModelRef | None = None
        """The model whose provider refused a request with media."""
        self.answer: AssistantMessage | None = None
        """Of the turn that has just ended; its last events may still be on their way to disk."""
        self.sampled: tuple[str, ModelRef] | None = None
        """The agent and the model of the turn that is being prepared."""


class DrainScope(Frozen):
    session_id: str
    lease: Lease
    interrupt: Interrupt
    outbox: Outbox
    cache: SessionCache
    history: History
    spending: Spending
    state: DrainState
