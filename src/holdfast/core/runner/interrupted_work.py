"""Closing what an earlier drain of a Session left open."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement
from holdfast.core.runner.publish import HERE, TOOL_INTERRUPTED
from holdfast.core.session.answer_outcome import TURN_INTERRUPTED
from holdfast.core.session.stored_partials import PART_KINDS
from holdfast.schema.codec import decoder
from holdfast.schema.ids import MessageID
from holdfast.schema.session_event import (
    ActivityEnded,
    ActivitySuspended,
    CompactionFailed,
    Provider,
    ReasoningEnded,
    ShellEnded,
    StepFailed,
    TextEnded,
    ToolFailed,
    ToolInputEnded,
)
from holdfast.schema.session_message import ToolPart, UnknownError
from holdfast.schema.turn_event import TurnAbandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from holdfast.core.runner.services import SessionServices
    from holdfast.core.session.activity import Activity
    from holdfast.core.session.ownership import Lease
    from holdfast.core.session.stored_messages import OpenCall
    from holdfast.core.session.stored_partials import PartialText
    from holdfast.core.session.stored_start import LeftOpen
    from holdfast.schema.record import Record

NOTHING_TOLD: Mapping[tuple[str, str], str] = MappingProxyType({})
COMPACTION_BROKE_OFF = "the process ended before the summary was complete"
SHELL_BROKE_OFF = "[The process ended before the command did. What the command wrote is lost.]"


async def close_interrupted_work(
    sessions: SessionServices,
    session_id: str,
    lease: Lease,
    left: Activity | None,
    found: LeftOpen,
    *,
    beside: Callable[[Sequence[Record]], Sequence[Statement]],
    keep: Collection[tuple[str, str]] = (),
    goes_on: bool = False,
    ends: str | None = None,
    because: str = TURN_INTERRUPTED,
    told: Mapping[tuple[str, str], str] = NOTHING_TOLD,
    before: Sequence[Record] = (),
) -> None:
    """Record as failed: the calls, the step, the compaction and the shell command of an earlier drain that have no end.
    `left` is what that drain owed, `found` what it left open. Blocks of its answer end with the text that was kept.

    `beside` gives statements that go with these events. Calls in `keep`, by message and call id, go on waiting, and so
    does their step. `goes_on` says that the model is asked again, by this process or the next one. `ends` is the reason
    why nothing more is owed. `told` is what the model is told about a call, where that is known. `before` are events
    for the same commit that come before these."""
    now = sessions.clock.now()
    open_calls = [call for call in found.calls if call.key not in keep]
    events: list[Record] = [*before, *_ended_blocks(found.partials, session_id, now)]
    events += [_failed(call, session_id, now, told.get(call.key, TOOL_INTERRUPTED)) for call in open_calls]
    turn = left.turn if left is not None else None
    if keep:
        pass
    elif turn is not None and turn.message_id is not None:
        events.append(
            StepFailed(
                timestamp=now,
                session_id=session_id,
                assistant_message_id=turn.message_id,
                error=UnknownError(message=because),
                cost=turn.used.cost if turn.used is not None else None,
                tokens=turn.used.tokens if turn.used is not None else None,
            )
        )
        if goes_on:
            events.append(ActivitySuspended(timestamp=now, session_id=session_id))
    elif turn is not None:
        events.append(TurnAbandoned(timestamp=now, session_id=session_id, reason=TURN_INTERRUPTED))
    # A compaction that a person asked for owes nothing, so that only its own events tell whether it ended.
    attempt = found.compaction if left is None or left.compacting else None
    if attempt is not None:
        error = UnknownError(message=COMPACTION_BROKE_OFF)
        events.append(CompactionFailed(timestamp=now, session_id=session_id, message_id=attempt, error=error))
    if (shell := found.shell) is not None:
        ended = ShellEnded(timestamp=now, session_id=session_id, call_id=shell.call_id, output=SHELL_BROKE_OFF)
        events.append(ended)
    if ends is not None and left is not None:
        events.append(ActivityEnded(timestamp=now, session_id=session_id, reason=ends))
    forget = (Statement("partial.forget", {"id": session_id}),) if found.partials else ()
    if events or forget:
        await lease.publish(*events, local=(*beside(events), *forget))


def _ended_blocks(partials: Sequence[PartialText], session_id: str, now: int) -> list[Record]:
    """The ends of blocks that were open, with what had been kept of them."""
    order = list(PART_KINDS.values())
    blocks = [(order.index(partial.kind), partial.place, partial) for partial in partials if partial.place is not None]
    return [_ended_block(partial, session_id, now) for _, _, partial in sorted(blocks, key=lambda block: block[:2])]


def _ended_block(partial: PartialText, session_id: str, now: int) -> Record:
    message_id, key, text = MessageID(partial.message_id), partial.key, partial.text
    match partial.kind:
        case "text":
            return TextEnded(
                timestamp=now,
                session_id=session_id,
                assistant_message_id=message_id,
                text_id=key,
                text=text,
                broken_off=True,
            )
        case "reasoning":
            return ReasoningEnded(
                timestamp=now,
                session_id=session_id,
                assistant_message_id=message_id,
                reasoning_id=key,
                text=text,
                broken_off=True,
            )
        case _:
            return ToolInputEnded(
                timestamp=now, session_id=session_id, assistant_message_id=message_id, call_id=key, text=text
            )


def _failed(call: OpenCall, session_id: str, now: int, message: str) -> ToolFailed:
    part: ToolPart = decoder(ToolPart).decode(call.data)
    return ToolFailed(
        timestamp=now,
        session_id=session_id,
        assistant_message_id=call.message_id,
        call_id=call.call_id,
        error=UnknownError(message=message),
        provider=Provider(executed=part.provider.executed) if part.provider else HERE,
    )
