"""The payloads of durable events about tasks: work that a tool call of a Session gives to a child Session. Private."""

from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.session_event import StepPayload


class TaskStarted(StepPayload):
    """Written before anything of the child exists. All ids follow from the Session, the message and the call, so that
    whoever repeats a step of the hand-over repeats it under the same ids."""

    call_id: str
    child_id: SessionIDField
    root_id: SessionIDField
    """The Session at the top of the tree."""
    prompt_id: MessageIDField
    """The input of the child."""
    result_id: MessageIDField
    """The synthetic input that brings the result of a background task."""
    caller: str
    """The agent that made the call."""
    agent: str
    """The agent of the child."""
    description: str
    background: bool


class TaskMoved(StepPayload):
    """A task goes on in the background. Written with the settlement of its call, so that its result comes once: with
    the call, or as an input."""

    call_id: str
