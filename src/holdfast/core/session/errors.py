"""What a Session operation can answer instead of a result.

SessionError
├── SessionNotFound         no such Session
├── SessionDeleted          that id belonged to a Session that was deleted
├── MessageNotFound         no such message in that Session, whoever else may own it
├── MessageUndecodable      a stored message that this version cannot read
├── PromptConflict          that message id already stands for something else
├── PromptWithdrawn         that message id stood for a prompt that was withdrawn
├── AttachmentRefused       a file of a prompt that is missing, broken, empty or too large
├── PromptTooLarge          a prompt beyond a limit
├── InputExceedsWindow      open input that the model cannot take, even without older history
├── InvalidCursor           a page cursor that was not made for this request
├── LifecycleConflict       an input cannot be promoted as asked (internal)
├── …                       no model to take a turn with (core/catalog/errors.py)
├── AgentUnavailable        the chosen agent has no record here
├── InboxFull               too many inputs wait already
├── InputNotPending         that input was promoted, or never was one
├── RepeatedCalls           the model made the same call again and again
├── TurnLimitReached        the safety cap on turns without a person
├── NothingToCompact        there is no older history to summarise
├── UnfinishedWork          something has to be finished or given up first
├── CompactionFailed        the summary could not be made
├── CompactionInUse         a checkpoint that something already followed
├── DestinationMismatch     a move into another project
├── ChangesNotMoved         capturing, applying or discarding changes failed
└── Interrupted             the execution that was waited for was interrupted
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.errors import SessionError as SessionError

if TYPE_CHECKING:
    from holdfast.schema.insight import InterruptedActivity


class SessionNotFound(SessionError):
    """No such Session."""

    tag = "Session.NotFoundError"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session not found: {session_id}")
        self.session_id = session_id


class SessionDeleted(SessionError):
    """An id that belonged to a deleted Session is not given to another one."""

    tag = "Session.DeletedError"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} was deleted; its id cannot be used again. Create one with another id.")
        self.session_id = session_id


class MessageNotFound(SessionError):
    """No such message in that Session."""

    tag = "Session.MessageNotFoundError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Message not found: {message_id}")
        self.session_id = session_id
        self.message_id = message_id


class MessageUndecodable(SessionError):
    """A stored message that this version cannot read. What is wrong with it is the cause, for the operator's log."""

    tag = "Session.MessageDecodeError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Message {message_id} cannot be read")
        self.session_id = session_id
        self.message_id = message_id


class PromptConflict(SessionError):
    """That message id was already used for something else."""

    tag = "Session.PromptConflictError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Message id {message_id} already belongs to another prompt or message")
        self.session_id = session_id
        self.message_id = message_id


class PromptWithdrawn(SessionError):
    """A withdrawn prompt is never run, so its id gives no receipt any more."""

    tag = "Session.PromptWithdrawnError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"The prompt {message_id} was withdrawn and will not run. Send it again with another id.")
        self.session_id = session_id
        self.message_id = message_id


class AttachmentRefused(SessionError):
    """A file that cannot be attached; the whole prompt was refused and nothing was admitted."""

    tag = "Session.AttachmentRefusedError"

    def __init__(self, session_id: str, index: int, name: str, reason: str) -> None:
        super().__init__(f"{name[:200]} cannot be attached: {reason}. The prompt was not admitted.")
        self.session_id = session_id
        self.index = index


class PromptTooLarge(SessionError):
    """Nothing was admitted."""

    tag = "Session.PromptTooLargeError"

    def __init__(self, session_id: str, field: str, part: str, limit: int, *, unit: str = "bytes") -> None:
        super().__init__(f"The prompt is too large and was not admitted: {part} may have at most {limit} {unit}")
        self.session_id = session_id
        self.field = field
        self.limit = limit


class InputExceedsWindow(SessionError):
    """The newest input does not fit the model, even with nothing older beside it. It stays in the conversation."""

    tag = "Session.InputExceedsWindowError"

    def __init__(self, session_id: str, *, asked: int, room: int, model: str) -> None:
        super().__init__(
            f"The newest input is too large: with system text and tools it needs about {asked:,} tokens, and {model} "
            f"takes {room:,} tokens. Nothing was sent. Switch the Session to a model with a larger window and prompt "
            "again to have it answered, or revert it."
        )
        self.session_id = session_id
        self.asked = asked
        self.room = room
        self.model = model


class InvalidCursor(SessionError):
    """A page cursor that does not fit this request."""

    tag = "InvalidCursorError"

    def __init__(self, message: str = "Invalid cursor") -> None:
        super().__init__(message)


class LifecycleConflict(SessionError):
    """An input whose record says something else than its promotion."""

    tag = "SessionInput.LifecycleConflict"

    def __init__(self, id: str) -> None:
        super().__init__(f"Input {id} cannot be promoted: its record differs")
        self.id = id


class AgentUnavailable(SessionError):
    """The chosen agent does not exist here; nothing runs without its rules."""

    tag = "AgentUnavailableError"

    def __init__(self, session_id: str, agent: str) -> None:
        super().__init__(f"Agent {agent} is not available: no configuration defines it")
        self.session_id = session_id
        self.agent = agent


class InboxFull(SessionError):
    """Too many inputs wait already."""

    tag = "Session.InboxFullError"

    def __init__(self, session_id: str, limit: int) -> None:
        super().__init__(f"The Session already has {limit} pending inputs; wait, or withdraw some")
        self.session_id = session_id
        self.limit = limit


class InputNotPending(SessionError):
    """An input that can no longer be withdrawn, or never existed."""

    tag = "Session.InputNotPendingError"

    def __init__(self, session_id: str, message_id: str, *, known: bool) -> None:
        super().__init__(
            f"Input {message_id} was already promoted" if known else f"No such input in this Session: {message_id}"
        )
        self.session_id = session_id
        self.message_id = message_id
        self.known = known


class RepeatedCalls(SessionError):
    """A loop that no further turn would end."""

    tag = "Session.RepeatedCallsError"

    def __init__(self, tool: str, times: int) -> None:
        super().__init__(f"Stopped: the model called {tool} {times} times in a row with the same input")
        self.tool = tool
        self.times = times


class TurnLimitReached(SessionError):
    """The configured cap on turns since the last input."""

    tag = "Session.TurnLimitError"

    def __init__(self, session_id: str, limit: int) -> None:
        super().__init__(f"Stopped after {limit} turns without new input, as configured; there was more to do")
        self.session_id = session_id
        self.limit = limit


class UnfinishedWork(SessionError):
    """Work of an earlier process is unfinished, and what was asked for would end it unnoticed."""

    tag = "Session.UnfinishedWorkError"

    def __init__(self, session_id: str, left: InterruptedActivity) -> None:
        super().__init__(f"Session {session_id} has unfinished work: {left.what}; {left.next}")
        self.session_id = session_id
        self.left = left


class NothingToCompact(SessionError):
    """There is no history that a summary could stand for."""

    tag = "Session.NothingToCompactError"

    def __init__(self, session_id: str) -> None:
        super().__init__("There is nothing to compact yet")
        self.session_id = session_id


class CompactionFailed(SessionError):
    """The history stays as it was."""

    tag = "Session.CompactionFailedError"

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(f"Compaction failed, the history is unchanged: {reason}")
        self.session_id = session_id


class CompactionInUse(SessionError):
    """A checkpoint can be undone only while nothing followed it."""

    tag = "Session.CompactionInUseError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Checkpoint {message_id} cannot be undone: it is not the newest thing in the conversation")
        self.session_id = session_id
        self.message_id = message_id


class DestinationMismatch(SessionError):
    """A Session stays in its project."""

    tag = "MoveSession.DestinationProjectMismatchError"

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(f"The destination belongs to project {actual}, the Session to {expected}")
        self.expected = expected
        self.actual = actual


class ChangesNotMoved(SessionError):
    """`step` says how far it came: before `reset` nothing has moved; at `reset` the changes exist in both places."""

    def __init__(self, step: str, directory: str, reason: str) -> None:
        super().__init__(f"Moving the changes failed ({step}, {directory}): {reason}")
        self.step = step
        self.directory = directory

    @property
    def tag(self) -> str:  # type: ignore[override]
        names = {"capture": "CaptureChanges", "apply": "ApplyChanges", "reset": "ResetSourceChanges"}
        return f"MoveSession.{names[self.step]}Error"


class Interrupted(SessionError):
    """The execution was interrupted."""

    tag = "Session.Interrupted"

    def __init__(self) -> None:
        super().__init__("The execution was interrupted")
