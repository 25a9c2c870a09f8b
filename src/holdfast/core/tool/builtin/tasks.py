"""The `tasks` tool: what the model can do about the subagents that it has called."""

from typing import Annotated, Any, Literal, Protocol

import msgspec

from holdfast.core.agent.callable_agents import ACTION
from holdfast.core.session.stored_tasks import Task
from holdfast.core.session.task_result import TaskEnd
from holdfast.core.tool.builtin.subagent import GRACE_SECONDS, SubagentInput, Subagents
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

DEFAULT_SECONDS = 60
MOST_SECONDS = 300
NONE = "You have called no subagents."
SENT = "Sent. Its result will come as a message by itself."
STOPPED = "Interrupted. What it had done comes as a message."
NOT_RUNNING = "It is not running."


class TasksInput(msgspec.Struct, frozen=True, rename={"session_id": "sessionID"}):
    action: Literal["list", "wait", "send", "interrupt"]
    session_id: Annotated[str, msgspec.Meta(description="The subagent's. Needed to send and to interrupt")] | None = (
        None
    )
    prompt: Annotated[str, msgspec.Meta(min_length=1, description="What to send")] | None = None
    seconds: Annotated[
        int, msgspec.Meta(ge=1, le=MOST_SECONDS, description=f"How long to wait; {DEFAULT_SECONDS} by default")
    ] = DEFAULT_SECONDS


class TaskInfo(Record):
    session_id: str
    agent: str
    description: str
    state: Literal["running", "completed", "error", "cancelled"]


class TasksResult(Record):
    text: str
    tasks: tuple[TaskInfo, ...] = ()


class Watches(Protocol):
    async def children(self, session_id: str) -> list[tuple[Task, TaskEnd | None]]:
        """The newest task of each child of a Session, newest first, and how it ended."""

    async def wait(self, session_id: str, child_id: str | None, seconds: float) -> None:
        """Wait until a child has ended its task, or input for the Session arrives."""

    async def stop(self, task: Task) -> TaskEnd:
        """Interrupt the child, with everything below it."""


class ChildTasks:
    def __init__(self, tasks: Watches, subagents: Subagents) -> None:
        self._tasks = tasks
        self._subagents = subagents

    async def execute(self, given: TasksInput, context: ToolContext) -> TasksResult:
        match given.action:
            case "list":
                return await self._list(context.session_id)
            case "wait":
                if given.session_id is not None:
                    await self._newest(given, context)
                await self._tasks.wait(context.session_id, given.session_id, given.seconds)
                return await self._list(context.session_id)
            case "send":
                return await self._send(given, context)
            case "interrupt":
                task, end = await self._newest(given, context)
                if end is not None:
                    return TasksResult(text=NOT_RUNNING)
                await self._tasks.stop(task)
                return TasksResult(text=STOPPED)

    async def _list(self, session_id: str) -> TasksResult:
        tasks = tuple(_info(task, end) for task, end in await self._tasks.children(session_id))
        lines = (f"{task.session_id} {task.state}: {task.agent}, {task.description}" for task in tasks)
        return TasksResult(text="\n".join(lines) or NONE, tasks=tasks)

    async def _send(self, given: TasksInput, context: ToolContext) -> TasksResult:
        """A further task of the same child, so that its answer comes back whether the child was running or not."""
        if given.prompt is None:
            raise ToolFailure("Give the `prompt` to send.")
        task, _ = await self._newest(given, context)
        await self._subagents.execute(
            SubagentInput(
                agent=task.agent,
                description=task.description,
                prompt=given.prompt,
                session_id=task.child_id,
                background=True,
            ),
            context,
        )
        return TasksResult(text=SENT)

    async def _newest(self, given: TasksInput, context: ToolContext) -> tuple[Task, TaskEnd | None]:
        """The newest task of the child that is named."""
        if given.session_id is None:
            raise ToolFailure("Give the `sessionID` of the subagent.")
        for task, end in await self._tasks.children(context.session_id):
            if task.child_id == given.session_id:
                return task, end
        raise ToolFailure(f"{given.session_id[:200]} is not a subagent of this Session")


def tasks_tool(tasks: Watches, subagents: Subagents) -> Tool[TasksInput, TasksResult]:
    return Tool(
        description=DESCRIPTION,
        input=TasksInput,
        output=TasksResult,
        execute=ChildTasks(tasks, subagents).execute,
        content=lambda given, value: (TextContent(text=value["text"]),),
        structured=_structured,
        action=ACTION,
        read_only=True,
        grace=GRACE_SECONDS,
    )


def _info(task: Task, end: TaskEnd | None) -> TaskInfo:
    state = end.status if end is not None else "running"
    return TaskInfo(session_id=task.child_id, agent=task.agent, description=task.description, state=state)


def _structured(given: TasksInput, value: dict[str, Any]) -> dict[str, Any]:
    return {"tasks": value.get("tasks", [])}


DESCRIPTION = (
    "Look after subagents that you have called: `list` them with their states, `wait` until one has ended or a message "
    "arrives, `send` a prompt to one, `interrupt` one. Results come as messages by themselves; wait only if you have "
    "nothing else to do."
)
