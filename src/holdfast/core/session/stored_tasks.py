"""Reads of tasks: the work that tool calls of a Session gave to child Sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.database.read import Read
from holdfast.core.session.activity import HELD
from holdfast.core.session.errors import SessionNotFound
from holdfast.core.session.stored_inputs import options_of
from holdfast.core.session.stored_sessions import SessionRow
from holdfast.schema.frozen import Frozen
from holdfast.schema.prompt import PromptTask  # noqa: TC001 - msgspec reads the annotations of rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.database import Reads
    from holdfast.core.database.unit import Value
    from holdfast.schema.prompt import PromptOptions
    from holdfast.schema.session import Session


class CallKey(NamedTuple):
    """A tool call of a Session."""

    session_id: str
    message_id: str
    call_id: str


class Task(Frozen):
    session_id: str
    """The Session whose call started it; the parent of the child."""
    message_id: str
    call_id: str
    child_id: str
    root_id: str
    """The Session at the top of the tree."""
    prompt_id: str
    result_id: str
    agent: str
    description: str
    background: bool
    delivered: bool
    """Whether the result of a background task was admitted to the parent's inbox."""
    started: int

    @property
    def call(self) -> CallKey:
        return CallKey(self.session_id, self.message_id, self.call_id)


class TaskState(Frozen):
    """How far the child came."""

    promoted_seq: int | None
    ended_seq: int | None
    withdrawn_seq: int | None
    wanted: bool
    """Whether a process was asked to begin with it."""
    blocked: str | None
    """Why the child could not begin."""

    @property
    def pending(self) -> bool:
        return self.promoted_seq is None and self.withdrawn_seq is None

    @property
    def over(self) -> bool:
        return self.withdrawn_seq is not None or self.ended_seq is not None


class TaskPrompt(Frozen):
    """A prompt whose text is to be given to a subagent."""

    id: str
    text: str
    task: PromptTask

    @property
    def call_id(self) -> str:
        """Of the call that does it; there is one for each prompt."""
        return f"call_{self.id[4:]}"


class Delegation(Frozen):
    """A call that gives a task."""

    begun: bool
    """Whether an earlier execution of the call started it."""
    ancestors: Sequence[str]
    """Of the Session that calls, from the parent up to the root."""
    options: PromptOptions | None
    """Of the newest prompt in the conversation that asks for an answer."""


class Giving(Frozen):
    """What a task needs that is about to be given."""

    parent: Session
    task: Task | None
    """What an earlier execution of the call started."""
    background: int
    """Background tasks of the tree that have not been delivered."""


class StoredTasks:
    def __init__(self, database: Reads) -> None:
        self._database = database

    async def task_of_call(self, call: CallKey) -> Task | None:
        rows = await self._database.fetch("task.of_call", call._asdict(), into=Task)
        return rows[0] if rows else None

    async def delegation(self, call: CallKey) -> Delegation:
        key = {"session_id": call.session_id}
        begun, ancestors, own, shared = await self._database.fetch_many(
            Read("task.of_call", call._asdict()),
            Read("task.ancestors", key),
            Read("inbox.options", key),
            Read("inbox.shared_options", key),
        )
        return Delegation(bool(begun), [str(row[0]) for row in ancestors], options_of(own, shared))

    async def giving(self, call: CallKey, root_id: str) -> Giving:
        """Raises SessionNotFound."""
        parent, task, background = await self._database.fetch_many(
            Read("session.get", {"id": call.session_id}, SessionRow),
            Read("task.of_call", call._asdict(), Task),
            Read("task.background_of_tree", {"root_id": root_id}),
        )
        if not parent:
            raise SessionNotFound(call.session_id)
        return Giving(parent[0].session(), task[0] if task else None, int(background[0][0]))

    async def open_tasks(self, session_id: str) -> list[Task]:
        """Tasks of a Session whose calls have no settlement, in the order of the calls."""
        return await self._database.fetch("task.open", {"session_id": session_id}, into=Task)

    async def tasks_left_behind(self, session_id: str) -> list[Task]:
        """Foreground tasks that go on, of the newest step that gave any, whose calls have ended."""
        return await self._database.fetch("task.left_behind", {"session_id": session_id}, into=Task)

    async def awaited_tasks(self, child_id: str) -> list[Task]:
        """What a child was given and its callers still wait for, oldest first."""
        return await self._database.fetch("task.of_child", {"child_id": child_id}, into=Task)

    async def task_prompts(self, session_id: str) -> list[TaskPrompt]:
        """Promoted prompts that are to be given to subagents, and were not."""
        return await self._database.fetch("task.of_prompts", {"session_id": session_id}, into=TaskPrompt)

    async def newest_tasks(self, session_id: str, limit: int) -> list[Task]:
        """The newest task of each child of a Session, newest first."""
        return await self._database.fetch("task.newest", {"session_id": session_id, "limit": limit}, into=Task)

    async def joined(self, task: Task, state: TaskState) -> bool:
        """Whether the child went on with a later background task in the same activity."""
        span = {"promoted_seq": state.promoted_seq, "ended_seq": state.ended_seq}
        key: dict[str, Value] = {"session_id": task.session_id, "child_id": task.child_id, **span}
        return bool(await self._database.fetch("task.joined", key))

    async def undelivered(self, limit: int) -> list[str]:
        """Children that work on background tasks, or have ended one whose result was not delivered."""
        return [str(row[0]) for row in await self._database.fetch("task.undelivered", {"held": HELD, "limit": limit})]

    async def undelivered_of(self, session_id: str) -> list[Task]:
        """Background tasks of a Session whose result was not delivered."""
        return await self._database.fetch("task.undelivered_of", {"session_id": session_id}, into=Task)

    async def background_tasks(self, root_id: str) -> int:
        """How many background tasks of a tree have not been delivered."""
        rows = await self._database.fetch("task.background_of_tree", {"root_id": root_id})
        return int(str(rows[0][0]))

    async def task_goes_on(self, task: Task) -> bool:
        """Whether a task was handed over and is not over. Cheaper than its state."""
        key = {"child_id": task.child_id, "prompt_id": task.prompt_id}
        return bool(await self._database.fetch("task.goes_on", key))

    async def task_state(self, task: Task) -> TaskState | None:
        """None if the task was not handed over, or if the child or its history is gone."""
        key = {"child_id": task.child_id, "prompt_id": task.prompt_id}
        rows = await self._database.fetch("task.state", key, into=TaskState)
        return rows[0] if rows else None

    async def call_runs(self, call: CallKey) -> bool:
        """Whether a call has begun and has no settlement."""
        return bool(await self._database.fetch("task.call_runs", call._asdict()))

    async def ancestors(self, session_id: str) -> list[str]:
        """From the parent up to the root."""
        return [str(row[0]) for row in await self._database.fetch("task.ancestors", {"session_id": session_id})]
