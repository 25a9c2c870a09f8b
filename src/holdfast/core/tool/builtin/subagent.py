"""The `subagent` tool: gives a task to another agent in a child Session, and waits for its result unless it goes on in
the background."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, Protocol
from weakref import WeakValueDictionary

import msgspec

from holdfast.core.agent.agents import Agents
from holdfast.core.agent.callable_agents import ACTION, SubagentSettings, is_callable
from holdfast.core.session.store import SessionStore
from holdfast.core.session.stored_tasks import CallKey, Delegation, Task
from holdfast.core.session.task_result import TaskEnd, element
from holdfast.core.session.task_work import TooManyTasks, Work, derived
from holdfast.core.tool.builtin.authorize import Authorizer
from holdfast.core.tool.builtin.isolation import Isolation
from holdfast.core.tool.progress import report
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.core.tool.tool_events import record_with_call
from holdfast.schema.agent import Agent
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.model import ModelRef, model_ref
from holdfast.schema.prompt import Prompt, PromptOptions
from holdfast.schema.record import Record
from holdfast.schema.session import Session
from holdfast.schema.session_message import TextContent
from holdfast.schema.task_event import TaskMoved

GRACE_SECONDS = 30.0
"""A child needs its own grace to stop its tools, and so do its children."""
NOTE = (
    "You work on this task as a subagent: another agent gave it to you and reads only your last message. "
    "End with everything that it needs to know."
)
SHOWN_AGENTS = 50
UNKNOWN = "Unknown agent: {name}. Agents that can be called: {agents}"
RUNNING = (
    "The subagent works in the background. Its result will come as a message by itself: do not wait for it, and do not "
    "do its work yourself. Go on with something else, or end your turn."
)


class SubagentInput(msgspec.Struct, frozen=True, rename={"session_id": "sessionID"}):
    agent: Annotated[str, msgspec.Meta(description="The name of an available agent")]
    description: Annotated[str, msgspec.Meta(min_length=1, max_length=200, description="The task in 3 to 5 words")]
    prompt: Annotated[str, msgspec.Meta(min_length=1, description="The whole task: the agent knows nothing else")]
    model: Annotated[str, msgspec.Meta(description="provider/model, if not the agent's own")] | None = None
    session_id: (
        Annotated[str, msgspec.Meta(description="The Session of an earlier subagent, to go on with its conversation")]
        | None
    ) = None
    background: Annotated[bool, msgspec.Meta(description="Go on at once; the result comes later by itself")] = False
    isolation: (
        Annotated[
            Literal["worktree"],
            msgspec.Meta(description="Work in a copy of the git repository; its changes come back as a diff"),
        ]
        | None
    ) = None


class SubagentResult(Record):
    session_id: str
    status: Literal["completed", "running"]
    text: str


class Gives(Protocol):
    async def perform(
        self,
        call: CallKey,
        work: Work,
        *,
        slots: asyncio.Semaphore | None = None,
        started: Callable[[Task], None] = ...,
    ) -> tuple[Task, TaskEnd | None]:
        """Give the work to a child, and wait for its end. Without one it goes on in the background."""

    async def cancelled(self, call: CallKey) -> tuple[Task, TaskEnd | None] | None:
        """What becomes of the task of a cancelled call. None if nothing is to be told."""

    def moved(self, task: Task) -> TaskMoved:
        """What the settlement of a call carries that leaves its task to the background."""

    async def running(self, root_id: str) -> int:
        """How many tasks of a tree are under way."""


class Subagents:
    def __init__(
        self,
        tasks: Gives,
        store: SessionStore,
        agents: Agents,
        authorizer: Authorizer,
        settings: Callable[[], SubagentSettings],
        isolation: Isolation,
    ) -> None:
        self._tasks = tasks
        self._store = store
        self._agents = agents
        self._authorizer = authorizer
        self._settings = settings
        self._isolation = isolation
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def execute(self, given: SubagentInput, context: ToolContext) -> SubagentResult:
        call = CallKey(context.session_id, context.assistant_message_id, context.tool_call_id)
        try:
            return await self._execute(given, context, call)
        except asyncio.CancelledError:
            stopped = await self._tasks.cancelled(call)
            if stopped is None:
                raise
        return await self._result(*stopped)

    async def _execute(self, given: SubagentInput, context: ToolContext, call: CallKey) -> SubagentResult:
        known = await self._store.delegation(call)
        root_id = known.ancestors[-1] if known.ancestors else context.session_id
        if not known.begun:
            await self._check(given, context, root_id, len(known.ancestors))
        try:
            work = await self._work(given, context, root_id, known)
            slots = self._slot(context.session_id)
            return await self._result(*await self._tasks.perform(call, work, slots=slots, started=_report))
        except ToolFailure:
            raise
        except HoldfastError as error:
            await self._isolation.abandon(given.session_id or derived("ses", call))
            raise ToolFailure(f"The task was not started: {error}") from error

    async def _check(self, given: SubagentInput, context: ToolContext, root_id: str, depth: int) -> None:
        """Everything that can keep a task from starting. The person is asked last."""
        settings = self._settings()
        if depth >= settings.depth:
            raise ToolFailure(f"Subagents may not be nested deeper than {settings.depth}. Do the task yourself.")
        agent = self._agent(given.agent, primary=context.by_person)
        if given.background and not settings.background:
            raise ToolFailure("Background tasks are switched off. Call it without `background`.")
        child = await self.child(given.session_id, context.session_id) if given.session_id is not None else None
        await self._isolation.check(given.isolation, child)
        if await self._tasks.running(root_id) >= settings.tree:
            raise ToolFailure(str(TooManyTasks(settings.tree)))
        if not context.by_person:
            await self._authorizer.allow(context, ACTION, (agent.id,), save=(agent.id,))

    async def _work(self, given: SubagentInput, context: ToolContext, root_id: str, known: Delegation) -> Work:
        """A call that is executed again waits for its child whatever became of that."""
        child = await self._resumed(given.session_id, context.session_id, begun=known.begun)
        agent, options = self._agents.get(given.agent), known.options
        other = given.agent if child is not None and child.agent != given.agent else None
        narrowed = PromptOptions(tools=options.tools if options is not None else None, agent=other)
        return Work(
            root_id=root_id,
            caller=context.agent,
            agent=given.agent,
            description=given.description,
            prompt=Prompt(
                text=given.prompt,
                options=narrowed if narrowed != PromptOptions() else None,
                notes=(NOTE,) if child is None else None,
            ),
            background=given.background,
            most=self._settings().tree,
            model=_model(given, agent, context),
            child_id=child.id if child is not None else None,
            prepare=self._isolation.prepare if self._isolation.wanted(given.isolation, child) else None,
        )

    def _agent(self, name: str, *, primary: bool = False) -> Agent:
        """`primary`: even one that otherwise only leads Sessions."""
        agent = self._agents.get(name)
        if agent is None or not (primary or is_callable(agent)):
            raise ToolFailure(UNKNOWN.format(name=name[:200], agents=self._callable()))
        return agent

    def _callable(self) -> str:
        """The names of agents that may be called, as far as their own settings say."""
        agents = self._agents.index.values()
        return ", ".join(sorted(agent.id for agent in agents if is_callable(agent) and not agent.hidden)[:SHOWN_AGENTS])

    async def _resumed(self, session_id: str | None, parent_id: str, *, begun: bool) -> Session | None:
        if session_id is None:
            return None
        return await self._store.find(session_id) if begun else await self.child(session_id, parent_id)

    async def child(self, session_id: str, parent_id: str) -> Session:
        child = await self._store.find(session_id)
        if child is None or child.parent_id != parent_id:
            raise ToolFailure(f"{session_id[:200]} is not a subagent of this Session")
        if child.revert is not None:
            raise ToolFailure(f"A person is about to revert Session {child.id}. Go on with it later.")
        return child

    def _slot(self, session_id: str) -> asyncio.Semaphore:
        """At most so many children of a Session at once; further calls wait in order."""
        slots = self._slots.get(session_id)
        if slots is None:
            slots = self._slots[session_id] = asyncio.Semaphore(self._settings().parallel)
        return slots

    async def _result(self, task: Task, end: TaskEnd | None) -> SubagentResult:
        if end is None:
            if not task.background:
                record_with_call(self._tasks.moved(task))
            text = element(task, "running", RUNNING)
            return SubagentResult(session_id=task.child_id, status="running", text=text)
        end = end.replace(changes=await self._isolation.changes(task.child_id))
        if end.status != "completed":
            raise ToolFailure(end.whole)
        return SubagentResult(session_id=task.child_id, status="completed", text=element(task, end.status, end.whole))


def subagent_tool(subagents: Subagents) -> Tool[SubagentInput, SubagentResult]:
    return Tool(
        description=DESCRIPTION,
        input=SubagentInput,
        output=SubagentResult,
        execute=subagents.execute,
        other_names={"task": _from_task},
        content=lambda given, value: (TextContent(text=value["text"]),),
        structured=_structured,
        action=ACTION,
        grace=GRACE_SECONDS,
    )


def _from_task(given: Any) -> Any:
    """The arguments of OpenCode's former tool for this."""
    if not isinstance(given, dict):
        return given
    names = {"subagent_type": "agent", "task_id": "sessionID"}
    renamed = {names.get(name, name): value for name, value in given.items() if name != "command"}
    if not renamed.get("sessionID", "x"):
        del renamed["sessionID"]
    return renamed


def _model(given: SubagentInput, agent: Agent | None, context: ToolContext) -> ModelRef | None:
    """Of a new child: the given one, the agent's, or that of the turn that called."""
    if given.model is not None:
        try:
            return model_ref(given.model)
        except ValueError as error:
            raise ToolFailure(f"Invalid model: {error}") from error
    return agent.model if agent is not None and agent.model is not None else context.model


def _report(task: Task) -> None:
    report({"sessionID": task.child_id, "status": "running"})


def _structured(given: SubagentInput, value: dict[str, Any]) -> dict[str, Any]:
    return {"sessionID": value["sessionID"], "status": value["status"]}


DESCRIPTION = (
    "Give a task to another agent, which works on it in a Session of its own with its own context. The available "
    "agents are listed in the system context. Several calls in one turn run side by side. The agent sees nothing of "
    "this conversation, so write down everything that it needs, and say what it is to report. Its last message is the "
    "result; the person does not see it. To ask the same agent more, give its `sessionID`."
)
