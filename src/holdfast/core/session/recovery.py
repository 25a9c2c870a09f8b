"""What an earlier process left open, told as it is: broken off. Nothing is repeated, and nothing is guessed.

A dispatched turn without an end may have reached the provider. A person, or a policy, decides whether it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.runner.publish import HERE, TOOL_INTERRUPTED
from holdfast.core.session.runner.turn import TURN_INTERRUPTED
from holdfast.schema.codec import decoder
from holdfast.schema.session_event import CompactionFailed, Provider, StepFailed, ToolFailed, TurnAbandoned
from holdfast.schema.session_message import ToolPart, UnknownError

if TYPE_CHECKING:
    from holdfast.core.session.ownership import Lease
    from holdfast.core.session.runner.surroundings import Surroundings
    from holdfast.core.session.store import OpenCall
    from holdfast.schema.record import Record

COMPACTION_BROKE_OFF = "the process ended before the summary was complete"


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
