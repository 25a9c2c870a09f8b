"""Shell messages: commands that a person runs in a Session. The model reads command and output in their place.

Invariants
- One message id runs at most once, also after a crash: the message is recorded before the command starts.
- A recorded message gets its end here, or by the next drain if the process dies.
- A command that is denied leaves nothing in the conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.permission.errors import REQUEST_DENIED, DeniedByPerson
from holdfast.core.session.errors import (
    AgentUnavailable,
    Interrupted,
    MessageNotFound,
    ShellRefused,
)
from holdfast.core.session.input_errors import MessageIdInUse, PromptConflict
from holdfast.core.session.interrupt import Stop
from holdfast.core.tool.builtin.bash import BashInput, about_sandbox, how_it_ended
from holdfast.core.tool.command_output import CommandOutput
from holdfast.core.tool.live_output import LiveOutput
from holdfast.core.tool.tool import CallOutput, ToolContext, ToolFailure
from holdfast.schema.live_event import ShellDelta
from holdfast.schema.session_event import ShellEnded, ShellStarted
from holdfast.schema.session_message import ShellMessage, TextContent

if TYPE_CHECKING:
    from holdfast.core.process.process import ProcessExit
    from holdfast.core.runner.drain_scope import DrainScope
    from holdfast.core.runner.services import RunnerServices
    from holdfast.core.tool.builtin.bash import ApprovedCommand
    from holdfast.schema.agent import Agent

INTERRUPTED = "[The command was interrupted.]"


class ShellMessages:
    """Of one drain."""

    def __init__(self, services: RunnerServices, scope: DrainScope) -> None:
        self._sessions = services.sessions
        self._tools = services.tools
        self._models = services.models
        self._here = services.here
        self._scope = scope

    async def run(self, command: str, message_id: str) -> None:
        """Raises ShellRefused if it is denied, PromptConflict if the id belongs to another message, and Interrupted
        before it starts. A command that fails, or is interrupted later, is recorded."""
        if await self._has_run(command, message_id):
            return
        agent = await self._agent()
        call_id = self._sessions.ids.of("call")
        approved = await self._approved(command, agent, call_id)
        await self._start(command, message_id, call_id)
        await self._execute(approved, agent, call_id)

    async def _has_run(self, command: str, message_id: str) -> bool:
        session_id = self._scope.session_id
        try:
            known = (await self._sessions.store.message(session_id, message_id)).decode()
        except MessageNotFound:
            return False
        if not isinstance(known, ShellMessage) or known.command != command:
            raise PromptConflict(session_id, message_id)
        return True

    async def _agent(self) -> Agent:
        await self._here.refresh()
        await self._models.catalog.ready()  # plugins may add agents
        session = (await self._scope.cache.read()).session
        if session.location != self._here.location:
            raise Interrupted  # moved
        selected = self._here.agents.select(session.agent)
        if selected.agent is None:
            raise AgentUnavailable(session.id, selected.id)
        return selected.agent

    async def _approved(self, command: str, agent: Agent, call_id: str) -> ApprovedCommand:
        caller = ToolContext(
            self._scope.session_id, agent.id, assistant_message_id="", tool_call_id=call_id, by_person=True
        )
        asking = self._tools.commands.approve(BashInput(command=command), caller)
        try:
            approved = await self._scope.interrupt.cancellable(asking, name="permission of a shell message")
        except DeniedByPerson as denied:
            raise ShellRefused(REQUEST_DENIED) from denied
        except ToolFailure as failure:
            raise ShellRefused(str(failure)) from failure
        if isinstance(approved, Stop):
            raise Interrupted
        return approved

    async def _start(self, command: str, message_id: str, call_id: str) -> None:
        session_id = self._scope.session_id
        started = ShellStarted(
            timestamp=self._sessions.clock.now(),
            session_id=session_id,
            message_id=message_id,
            call_id=call_id,
            command=command,
        )
        try:
            await self._scope.outbox.publish(started)
        except MessageIdInUse as refused:
            raise PromptConflict(session_id, message_id) from refused

    async def _execute(self, approved: ApprovedCommand, agent: Agent, call_id: str) -> None:
        output = CommandOutput(self._tools.registry.store)
        live = LiveOutput(output, lambda text: self._announce(call_id, text))
        remarks: list[str] = []
        exit: int | None = None
        try:
            running = self._tools.commands.run(approved, live)
            ended = await self._scope.interrupt.cancellable(running, name="shell message")
        except ToolFailure as failure:
            remarks.append(str(failure))
        else:
            remarks += [INTERRUPTED] if isinstance(ended, Stop) else _remarks(ended, approved)
            exit = None if isinstance(ended, Stop) else ended.code
        finally:
            live.close()
        shown = output.finish()
        text = await self._bounded(shown.text, agent)
        await self._scope.outbox.commit(
            ShellEnded(
                timestamp=self._sessions.clock.now(),
                session_id=self._scope.session_id,
                call_id=call_id,
                output="\n\n".join((text, "\n".join(remarks))) if remarks else text,
                exit=exit,
            )
        )

    async def _bounded(self, text: str, agent: Agent) -> str:
        """Within the limits of tool output; what is left out is in a managed file."""
        tools = self._tools.registry.materialize(agent.permissions, fences=agent.fences)
        bounded = await tools.bound(CallOutput({}, (TextContent(text=text),)))
        return "\n".join(part.text for part in bounded.content if isinstance(part, TextContent))

    def _announce(self, call_id: str, text: str) -> None:
        delta = ShellDelta(
            timestamp=self._sessions.clock.now(), session_id=self._scope.session_id, call_id=call_id, delta=text
        )
        self._sessions.log.announce(delta, location=self._here.location)


def _remarks(ended: ProcessExit, approved: ApprovedCommand) -> list[str]:
    """How it ended, unless it ended well."""
    about = about_sandbox(ended, approved.terms)
    return about if ended.code == 0 and ended.cause == "exit" else [how_it_ended(ended), *about]
