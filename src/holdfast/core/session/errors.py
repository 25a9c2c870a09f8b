"""The errors of Session operations; those of inputs are in input_errors.py. Nothing happened when one is raised, unless
its text says otherwise.

NotFound
├── SessionNotFound         no such Session
└── MessageNotFound         no such message in that Session
Conflict
├── SessionDeleted          the id belonged to a Session that was deleted
├── PurgeRefused            the Session cannot be removed for good without others
├── TooManyInstructions     the Session has too many instruction entries
├── InputExceedsWindow      the open input does not fit the model, even without older history
├── NothingToCompact        there is no older history to summarise
├── UnfinishedWork          work of an earlier process has to be finished or given up first
├── CompactionInUse         other messages follow the checkpoint
├── BudgetReached           a budget of the Session or an ancestor has nothing left
├── ChangesNotMoved         capturing, applying or discarding changes failed
└── Interrupted             the execution was interrupted
InvalidRequest
├── InvalidShellCommand     a command of a person cannot be run as it was sent
├── EmptySession            there is nothing to fork
└── DestinationMismatch     a Session cannot move to another project
InvalidCursor               a page cursor was not made for this request
InstructionTooLarge         the value of an instruction entry is too large
Forbidden
└── ShellRefused            rules or a person deny the command of a shell message
ServiceUnavailable
├── GenerationFailed        a one-shot answer could not be generated
├── AgentUnavailable        no configuration defines the chosen agent
├── CompactionFailed        the summary could not be made
└── …                       no model is available (core/catalog/errors.py)
Refused (core/database/errors.py): for internal use, each handled where the commit was made
├── SessionIdInUse          the log already has events of that Session
├── UnknownBoundary         the message is not a boundary of that Session
├── AlreadyAnswered         the request has an answer
├── AlreadyTaken            the answer was already taken by whoever asked
└── LeaseLost               another owner took the lease first
HoldfastError
├── MessageUndecodable      this version cannot read a stored message
├── RepeatedCalls           the model made the same call again and again
├── StructuredOutputError   the model gave no answer in the requested form
└── TurnLimitReached        the configured limit on turns without new input
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.errors import Refused
from holdfast.schema.budget import BUDGET_REACHED
from holdfast.schema.exceptions import Conflict, Forbidden, HoldfastError, InvalidRequest, ServiceUnavailable
from holdfast.schema.exceptions import InstructionTooLarge as InstructionTooLarge
from holdfast.schema.exceptions import InvalidCursor as InvalidCursor
from holdfast.schema.exceptions import MessageNotFound as MessageNotFound
from holdfast.schema.exceptions import SessionNotFound as SessionNotFound
from holdfast.schema.insight import STRUCTURED_OUTPUT

if TYPE_CHECKING:
    from holdfast.schema.insight import InterruptedActivity


class SessionDeleted(Conflict):
    """The id of a deleted Session cannot be used for another one."""

    code = "Session.DeletedError"

    def __init__(self, session_id: str) -> None:
        message = f"Session {session_id} was deleted; its id cannot be used again. Create one with another id."
        super().__init__(message, resource=session_id)
        self.session_id = session_id


class SessionHasChildren(Conflict):
    """A Session with children cannot be deleted alone."""

    code = "Session.HasChildrenError"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} gets new children all the time; try again.", resource=session_id)


class PurgeRefused(Conflict):
    """A Session cannot be removed for good: others are part of it or show its messages, or it is written to."""

    code = "Session.PurgeRefusedError"


class SessionUsed(Conflict):
    """A Session that was chosen to be removed was used or pinned meanwhile."""

    code = "Session.UsedError"


class TooManyInstructions(Conflict):
    """The Session has as many instruction entries as it may have."""

    code = "Session.TooManyInstructionsError"

    def __init__(self, session_id: str, limit: int) -> None:
        message = f"The Session already has {limit} instruction entries; remove one first, or change one"
        super().__init__(message, resource=session_id)
        self.session_id = session_id
        self.limit = limit


class InputExceedsWindow(Conflict):
    """What has no answer yet does not fit the model, even without older history. It stays until it is taken back."""

    code = "Session.InputExceedsWindowError"

    def __init__(self, session_id: str, *, asked: int, room: int, model: str) -> None:
        super().__init__(
            f"What has no answer yet is too large: with system text and tools it needs about {asked:,} tokens, and "
            f"{model} takes {room:,} tokens. Nothing was sent. Take it back (`holdfast sessions undo {session_id}`), "
            "or switch the Session to a model with a larger window and prompt again.",
            resource=session_id,
        )
        self.session_id = session_id
        self.asked = asked
        self.room = room
        self.model = model


class NothingToCompact(Conflict):
    """There is no older history to summarise."""

    code = "Session.NothingToCompactError"

    def __init__(self, session_id: str) -> None:
        super().__init__("There is nothing to compact yet", resource=session_id)
        self.session_id = session_id


class UnfinishedWork(Conflict):
    """Work of an earlier process is unfinished, and the operation would end it unnoticed."""

    code = "Session.UnfinishedWorkError"

    def __init__(self, session_id: str, left: InterruptedActivity) -> None:
        message = f"Session {session_id} has unfinished work: {left.what}; {left.next}"
        super().__init__(message, resource=session_id)
        self.session_id = session_id
        self.left = left


class BackgroundOff(Conflict):
    """The configuration does not let tasks go on in the background."""

    code = "Session.BackgroundOffError"

    def __init__(self, session_id: str) -> None:
        message = (
            "Background tasks are switched off here (`holdfast.subagents.background`). Switch them on, or interrupt "
            f"Session {session_id}."
        )
        super().__init__(message, resource=session_id)
        self.session_id = session_id


class CompactionInUse(Conflict):
    """A checkpoint can be undone only while nothing follows it."""

    code = "Session.CompactionInUseError"

    def __init__(self, session_id: str, message_id: str) -> None:
        message = f"Checkpoint {message_id} cannot be undone: it is not the newest thing in the conversation"
        super().__init__(message, resource=message_id)
        self.session_id = session_id
        self.message_id = message_id


class ChangesNotMoved(Conflict):
    """Moving the changes failed. Before `reset` nothing has moved; at `reset` the changes exist in both places."""

    def __init__(self, step: str, directory: str, reason: str) -> None:
        super().__init__(f"Moving the changes failed ({step}, {directory}): {reason}", resource=directory)
        names = {"capture": "CaptureChanges", "apply": "ApplyChanges", "reset": "ResetSourceChanges"}
        self.code = f"MoveSession.{names[step]}Error"
        self.step = step
        self.directory = directory


class Interrupted(Conflict):
    """The execution was interrupted."""

    code = "Session.Interrupted"

    def __init__(self) -> None:
        super().__init__("The execution was interrupted")


class EmptySession(InvalidRequest):
    """The Session has no complete message that a fork could begin with."""

    code = "Session.EmptySessionError"

    def __init__(self, session_id: str) -> None:
        message = (
            f"Session {session_id} has no complete message yet, so there is nothing to fork. Create a Session instead."
        )
        super().__init__(message, kind="empty_session", field="boundary")
        self.session_id = session_id


class InvalidShellCommand(InvalidRequest):
    """A command that no shell can run."""

    code = "Session.InvalidShellCommandError"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The command was not run: {reason}", kind="Payload", field="command")


class ShellRefused(Forbidden):
    """Rules or a person deny the command; nothing was run or recorded."""

    code = "Session.ShellRefusedError"

    def __init__(self, reason: str) -> None:
        super().__init__(f"The command was not run: {reason}")


class DestinationMismatch(InvalidRequest):
    """A Session cannot move to another project."""

    code = "MoveSession.DestinationProjectMismatchError"

    def __init__(self, expected: str, actual: str) -> None:
        message = f"The destination belongs to project {actual}, the Session to {expected}"
        super().__init__(message, kind="Payload", field="directory")
        self.expected = expected
        self.actual = actual


class AgentUnavailable(ServiceUnavailable):
    """No configuration defines the chosen agent; nothing runs without its rules."""

    code = "AgentUnavailableError"

    def __init__(self, session_id: str, agent: str) -> None:
        super().__init__(f"Agent {agent} is not available: no configuration defines it", service="agent")
        self.session_id = session_id
        self.agent = agent


class BudgetReached(Conflict):
    """A budget has nothing left for another request."""

    code = BUDGET_REACHED

    def __init__(self, session_id: str, budget_id: str, used: str) -> None:
        whose = "this session" if budget_id == session_id else budget_id
        super().__init__(f"The budget of {whose} is used up: {used}", resource=session_id)
        self.budget_id = budget_id


class GenerationFailed(ServiceUnavailable):
    """The model gave no one-shot answer. Nothing was added to the conversation."""

    code = "Session.GenerationFailedError"

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(f"The answer could not be generated: {reason}", service="session.generate")
        self.session_id = session_id


class CompactionFailed(ServiceUnavailable):
    """The summary could not be made; the history is unchanged."""

    code = "Session.CompactionFailedError"

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(f"Compaction failed, the history is unchanged: {reason}", service="session.compact")
        self.session_id = session_id


class SessionIdInUse(Refused):
    """The log already has events of that Session."""


class UnknownBoundary(Refused):
    """The message is not a boundary of that Session."""


class AlreadyAnswered(Refused):
    """The request has an answer."""


class AlreadyDecided(Refused):
    """Somebody decided about the work that was left, or continues it."""


class AlreadyTaken(Refused):
    """The answer was already taken by whoever asked."""


class LeaseLost(Refused):
    """Another owner took the lease first."""


class MessageUndecodable(HoldfastError):
    """This version cannot read a stored message. The cause has the details, for the operator's log."""

    code = "Session.MessageDecodeError"

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(f"Message {message_id} cannot be read")
        self.session_id = session_id
        self.message_id = message_id


class RepeatedCalls(HoldfastError):
    """The model repeats the same call; another turn would not end that."""

    code = "Session.RepeatedCallsError"

    def __init__(self, tool: str, times: int) -> None:
        super().__init__(f"Stopped: the model called {tool} {times} times in a row with the same input")
        self.tool = tool
        self.times = times


class StructuredOutputError(HoldfastError):
    """The model gave no answer in the form that the prompt asked for."""

    code = STRUCTURED_OUTPUT

    def __init__(self, attempts: int, problem: str, *, last_step: bool) -> None:
        tried = "1 answer" if attempts == 1 else f"{attempts} answers"
        ended = "; the step limit was reached" if last_step else ""
        super().__init__(f"The model gave no answer in the requested form ({tried}{ended}). The last one: {problem}")
        self.attempts = attempts
        self.problem = problem


class TurnLimitReached(HoldfastError):
    """The configured limit on turns since the last input."""

    code = "Session.TurnLimitError"

    def __init__(self, session_id: str, limit: int) -> None:
        super().__init__(f"Stopped after {limit} turns without new input, as configured; there was more to do")
        self.session_id = session_id
        self.limit = limit
