"""What a call asks of a child, and the ids that follow from the call."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.session.stored_tasks import CallKey
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import Prompt


class CallSettled(HoldfastError):
    """A call that has its settlement starts nothing any more."""

    def __init__(self, call_id: str) -> None:
        super().__init__(f"the call {call_id} is settled")


class TooManyTasks(HoldfastError):
    """The tree has as many tasks under way as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} tasks are under way already. Wait until some of them have ended.")


class Work(Frozen):
    """What a call asks for."""

    root_id: str
    """The Session at the top of the tree."""
    caller: str
    agent: str
    description: str
    prompt: Prompt
    background: bool
    most: int
    """How many tasks of the tree may be under way."""
    model: ModelRef | None = None
    """Of a new child."""
    child_id: str | None = None
    """The child that goes on with its conversation; None is a new one."""


def derived(prefix: str, call: CallKey, purpose: str = "") -> str:
    """An id that whoever executes the call again derives again."""
    digest = hashlib.sha256("\0".join((*call, purpose)).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{prefix}_{digest[:26]}"
