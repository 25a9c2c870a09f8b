"""The drain of one Session: promote, take turns, until nothing more is owed. One runner per Location."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.errors import Interrupted
from holdfast.core.session.runner.lowering import lower
from holdfast.core.session.runner.publish import HERE, TOOL_INTERRUPTED, TurnOf, TurnPublisher
from holdfast.core.session.runner.turn import Turn
from holdfast.llm.request import HttpOverlay, make_request, user
from holdfast.schema.codec import decoder
from holdfast.schema.session_event import Provider, ToolFailed
from holdfast.schema.session_message import ToolPart, UnknownError

if TYPE_CHECKING:
    from holdfast.core.catalog.catalog import Catalog
    from holdfast.core.clock import Clock, Ids
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.inbox import Boundary, Inbox
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.ownership import Lease, Ownership
    from holdfast.core.session.store import SessionStore
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.llm.route.transport import Transport
    from holdfast.schema.location import Location

DEFAULT_AGENT = "build"
AGENT_SYSTEM = (
    "You are a coding agent working in a project directory on the user's machine. Use the tools to look before you "
    "answer. Be brief and exact."
)


# What an explicit run says when there is no history at all: every provider wants a message.
CONTINUE = "Continue."


class Runner:
    def __init__(
        self,
        location: Location,
        log: EventLog,
        store: SessionStore,
        inbox: Inbox,
        ownership: Ownership,
        catalog: Catalog,
        tools: ToolRegistry,
        transport: Transport,
        ids: Ids,
        clock: Clock,
    ) -> None:
        self._location = location
        self._log = log
        self._store = store
        self._inbox = inbox
        self._ownership = ownership
        self._catalog = catalog
        self._tools = tools
        self._transport = transport
        self._ids = ids
        self._clock = clock

    async def drain(self, session_id: str, lease: Lease, interrupt: Interrupt) -> None:
        boundary = await self._first_boundary(session_id)
        await self._fail_abandoned_calls(session_id, lease)
        while True:
            continues = await self._turn(session_id, boundary, lease, interrupt)
            while continues or "steer" in await self._store.waiting(session_id):
                continues = await self._turn(session_id, "steer", lease, interrupt)
            if "queue" not in await self._store.waiting(session_id):
                return
            boundary = "queue"

    async def _turn(self, session_id: str, boundary: Boundary | None, lease: Lease, interrupt: Interrupt) -> bool:
        interrupt.check()
        session = await self._store.get(session_id)
        if session.location != self._location:
            raise Interrupted  # moved: the destination's runner takes it from here, the input is still pending
        agent = session.agent or DEFAULT_AGENT
        model = self._catalog.resolve(session_id, session.model)
        if boundary is not None:
            await self._inbox.promote(session_id, boundary, lease, self._location)
        if not lease.taken:
            await self._ownership.take(lease)
        history = [stored.decode() for stored in await self._store.active_history(session_id)]
        tools = self._tools.materialize(())
        request = make_request(
            system=AGENT_SYSTEM,
            messages=lower(history, model.ref) or (user(CONTINUE),),
            tools=tools.definitions,
            http=HttpOverlay(headers={"x-session-affinity": session_id, "X-Session-Id": session_id}),
        )
        of = TurnOf(session_id, self._location, agent, model.ref)
        publisher = TurnPublisher(self._log, lease, of, self._ids, self._clock)
        return await Turn(of, publisher, tools, self._transport, interrupt).run(model.model, request)

    async def _first_boundary(self, session_id: str) -> Boundary | None:
        waiting = await self._store.waiting(session_id)
        return "steer" if "steer" in waiting else "queue" if "queue" in waiting else None

    async def _fail_abandoned_calls(self, session_id: str, lease: Lease) -> None:
        """Calls of an earlier process whose outcome nobody knows. They are reported, never repeated."""
        failures = []
        for call in await self._store.open_calls(session_id):
            part: ToolPart = decoder(ToolPart).decode(call.data)
            provider = Provider(executed=part.provider.executed) if part.provider else HERE
            failures.append(
                ToolFailed(
                    timestamp=self._clock.now(),
                    session_id=session_id,
                    assistant_message_id=call.message_id,
                    call_id=call.call_id,
                    error=UnknownError(message=TOOL_INTERRUPTED),
                    provider=provider,
                )
            )
        if failures:
            await lease.publish(*failures, location=self._location)
