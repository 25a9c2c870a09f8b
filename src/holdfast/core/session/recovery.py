"""What an earlier process left open, told as it is: broken off. Nothing is repeated, and nothing is guessed.

A dispatched turn without an end may have reached the provider. A person, or a policy, decides whether it goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal

from holdfast.core.session.runner.publish import HERE, TOOL_INTERRUPTED
from holdfast.core.session.runner.turn import TURN_INTERRUPTED
from holdfast.schema.codec import decoder
from holdfast.schema.live_event import ErrorInfo, SessionError
from holdfast.schema.session_event import CompactionFailed, Provider, StepFailed, ToolFailed, TurnAbandoned
from holdfast.schema.session_message import ToolPart, UnknownError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.event.log import EventLog
    from holdfast.core.session.execution import Execution
    from holdfast.core.session.ownership import Lease, Ownership
    from holdfast.core.session.runner.surroundings import Surroundings
    from holdfast.core.session.settings import RecoveryPolicy
    from holdfast.core.session.store import OpenCall, SessionStore
    from holdfast.schema.insight import InterruptedTurn
    from holdfast.schema.location import Location
    from holdfast.schema.record import Record

log = logging.getLogger(__name__)

COMPACTION_BROKE_OFF = "the process ended before the summary was complete"


class Recovery:
    """One per process: finds turns that broke off with another one, says so, and does what was decided."""

    def __init__(
        self,
        log: EventLog,
        store: SessionStore,
        execution: Execution,
        ownership: Ownership,
        policy: Callable[[Location], Awaitable[RecoveryPolicy]],
    ) -> None:
        self._log = log
        self._store = store
        self._execution = execution
        self._ownership = ownership
        self._policy = policy
        self._continuing: set[asyncio.Task[None]] = set()

    async def interrupted(self) -> list[InterruptedTurn]:
        """Dispatched turns without an end that no living process works on."""
        return [turn for turn in await self._store.open_turns() if not await self._worked_on(turn.session_id)]

    async def start(self) -> None:
        """At the start of a server: lost wakes are woken, broken turns are shown, and the policy acts. A Session whose
        Location cannot be opened any more stays as it is, and keeps nobody else from starting."""
        await self._execution.recover_wakes()
        for turn in await self.interrupted():
            try:
                await self._act(turn)
            except Exception as error:  # noqa: BLE001 - one Session's trouble is not the server's
                log.warning("the broken turn of %s stays open: %s: %s", turn.session_id, type(error).__name__, error)

    async def _act(self, turn: InterruptedTurn) -> None:
        session = await self._store.find(turn.session_id)
        if session is None:
            return
        self._show(turn, session.location)
        policy = await self._policy(session.location)
        # Where output or a call was recorded, going on alone could repeat what already happened.
        if policy == "continue" and turn.message_id is None:
            self._continue(turn.session_id)
        elif policy == "abandon":
            await self._execution.abandon(turn.session_id)

    async def decide(self, session_id: str, decision: Literal["continue", "abandon"]) -> None:
        """A person's word on one Session. Continuing is an explicit run from history: the broken turn is recorded as
        such first, so nothing is sent twice without anyone knowing."""
        await self._store.get(session_id)
        if decision == "continue":
            self._continue(session_id)
        else:
            await self._execution.abandon(session_id)

    async def close(self) -> None:
        for task in tuple(self._continuing):
            task.cancel()
        if self._continuing:
            await asyncio.wait(self._continuing)

    async def _worked_on(self, session_id: str) -> bool:
        return self._execution.here(session_id) or await self._ownership.elsewhere(session_id) is not None

    def _continue(self, session_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self._run(session_id), name=f"recover {session_id}")
        self._continuing.add(task)
        task.add_done_callback(self._continuing.discard)

    async def _run(self, session_id: str) -> None:
        try:
            await self._execution.run(session_id)
        except Exception as error:  # noqa: BLE001 - the drain reported it; nobody waits here
            log.debug("continuing %s ended: %s", session_id, error)

    def _show(self, turn: InterruptedTurn, location: Location) -> None:
        began = "after it had begun to answer" if turn.message_id is not None else "before any answer"
        info = ErrorInfo(
            name="TurnInterrupted",
            data={"message": f"The last turn broke off {began}", "dispatched": turn.dispatched},
        )
        self._log.announce(SessionError(session_id=turn.session_id, error=info), location=location)


async def close_what_broke_off(around: Surroundings, session_id: str, lease: Lease) -> None:
    """Calls, the step, a compaction and requests of an earlier drain whose outcome nobody knows."""
    store, now = around.store, around.clock.now()
    events: list[Record] = [_failed(call, session_id, now) for call in await store.open_calls(session_id)]
    turn = await store.open_turn(session_id)
    if turn is not None and turn.message_id is not None:
        events.append(
            StepFailed(
                timestamp=now,
                session_id=session_id,
                assistant_message_id=turn.message_id,
                error=UnknownError(message=TURN_INTERRUPTED),
            )
        )
    elif turn is not None:
        events.append(TurnAbandoned(timestamp=now, session_id=session_id, reason=TURN_INTERRUPTED))
    if (attempt := await store.dangling_compaction(session_id)) is not None:
        error = UnknownError(message=COMPACTION_BROKE_OFF)
        events.append(CompactionFailed(timestamp=now, session_id=session_id, message_id=attempt, error=error))
    if events:
        await lease.publish(*events, location=around.location)
    await around.abandon_requests(session_id, lease)


def _failed(call: OpenCall, session_id: str, now: int) -> ToolFailed:
    part: ToolPart = decoder(ToolPart).decode(call.data)
    return ToolFailed(
        timestamp=now,
        session_id=session_id,
        assistant_message_id=call.message_id,
        call_id=call.call_id,
        error=UnknownError(message=TOOL_INTERRUPTED),
        provider=Provider(executed=part.provider.executed) if part.provider else HERE,
    )
