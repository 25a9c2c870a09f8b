"""How a task ended: its status, and what the parent's model reads about it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Literal

from holdfast.core.session.answer_outcome import outcome_of_answer
from holdfast.schema.frozen import Frozen
from holdfast.schema.prompt import SyntheticInput
from holdfast.schema.session_message import AssistantMessage, TextPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_tasks import Task, TaskState

Status = Literal["completed", "error", "cancelled"]

INPUT_CHARACTERS = 50_000
"""Of a result that arrives as an input. The Session of the child has all of it."""
NO_TEXT = "The subagent ended without a text."
GONE = "its Session, or the part of its history, was deleted"
WITHDRAWN = "its prompt was withdrawn before it began"
STOPPED = "it was interrupted"
JOINED = "The subagent went on with a later message before it had ended this task. The result of that is for both."


class TaskEnd(Frozen):
    status: Status
    text: str
    """The answer, or what went wrong and what the child had done."""
    changes: str = ""
    """What the child changed in its isolated copy, if it has one."""

    @property
    def whole(self) -> str:
        return f"{self.text}\n\n{self.changes}" if self.changes else self.text


async def no_changes(child_id: str) -> str:
    return ""


async def result_of(database: Database, store: SessionStore, task: Task, state: TaskState) -> TaskEnd:
    """Of a task that is over."""
    if state.withdrawn_seq is not None:
        if state.blocked is not None:
            return TaskEnd("error", f"Subagent {task.child_id} could not begin: {state.blocked}")
        return cancelled(task, (), because=WITHDRAWN)
    span: Mapping[str, Value] = {
        "child_id": task.child_id,
        "promoted_seq": state.promoted_seq,
        "ended_seq": state.ended_seq,
    }
    rows = await database.fetch("task.answer", span)
    message = (await store.message(task.child_id, str(rows[0][0]))).decode() if rows else None
    if not isinstance(message, AssistantMessage):
        return cancelled(task, ())
    texts = [part for part in message.content if isinstance(part, TextPart) and not part.broken_off]
    text = "\n\n".join(part.text for part in texts if part.text)
    outcome = outcome_of_answer(message)
    if outcome.type == "completed":
        return TaskEnd("completed", text or NO_TEXT)
    done = [(str(name), int(str(count))) for name, count in await database.fetch("task.calls", span)]
    if outcome.type == "interrupted":
        return cancelled(task, done, text)
    return TaskEnd("error", f"Subagent {task.child_id} failed: {outcome.error}{_done(done, text)}")


def cancelled(task: Task, calls: Iterable[tuple[str, int]], text: str = "", *, because: str = STOPPED) -> TaskEnd:
    return TaskEnd("cancelled", f"Subagent {task.child_id} did not finish: {because}.{_done(calls, text)}")


def element(task: Task, state: str, text: str, *, described: bool = False) -> str:
    """What the model reads. The text cannot end the element early."""
    about = f' description="{escape(task.description)}"' if described else ""
    body = text.replace("</subagent", "&lt;/subagent")
    return f'<subagent sessionID="{task.child_id}" state="{state}"{about}>\n{body}\n</subagent>'


def delivered_input(task: Task, end: TaskEnd) -> SyntheticInput:
    """The result of a background task, as an input of the parent."""
    if len(end.text) > INPUT_CHARACTERS:
        end = end.replace(text=f"{end.text[:INPUT_CHARACTERS]}\n[The rest is in Session {task.child_id}.]")
    return SyntheticInput(
        text=element(task, end.status, end.whole, described=True),
        description=task.description,
        metadata={"source": "subagent", "childID": task.child_id, "agent": task.agent, "state": end.status},
    )


def _done(calls: Iterable[tuple[str, int]], text: str) -> str:
    """What the child had done until then."""
    names = ", ".join(f"{name} ({count}×)" if count > 1 else name for name, count in calls)
    done = f" It had called: {names}." if names else ""
    return f"{done}\nIts last text:\n{text}" if text else done
