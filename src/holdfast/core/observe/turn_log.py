"""Log lines about turns, waits and compactions, made from committed events: ids, names and numbers, no text."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast.core.observe.log_context import fields
from holdfast.schema import session_event as ev
from holdfast.schema.pattern import pattern
from holdfast.schema.turn_event import RecoveryDecided, TurnAbandoned, TurnDispatched

if TYPE_CHECKING:
    from holdfast.core.observe.open_work import OpenWork
    from holdfast.schema.record import Record
    from holdfast.schema.session import Tokens

WARNED = (ev.Retried, ev.StepFailed, TurnAbandoned, ev.CompactionFailed)

CAUSE_CHARACTERS = 100
_QUOTED = pattern(r"[:;'\"`{\[(<\n]")

log = logging.getLogger("holdfast.turn")


class TurnLog:
    def __init__(self, open_work: OpenWork) -> None:
        self._open = open_work

    def tell(self, event: Record) -> None:
        if not (isinstance(event, WARNED) or log.isEnabledFor(logging.INFO)):
            return
        match event:
            case ev.Retried():
                status = event.error.status_code
                _say(logging.WARNING, "provider retried", event, attempt=event.attempt, status=status)
            case ev.StepFailed():
                used = _used(event.tokens, event.cost)
                told = {"error": event.error.code, "cause": cause_of(event.error.message), **self._turn(event), **used}
                _say(logging.WARNING, "turn failed", event, turn=event.assistant_message_id, **told)
            case TurnAbandoned():
                _say(logging.WARNING, "turn abandoned", event, **self._turn(event))
            case ev.CompactionFailed():
                _say(logging.WARNING, "compaction failed", event)
            case _:
                self._tell_more(event)

    def _tell_more(self, event: Record) -> None:
        match event:
            case TurnDispatched() if event.attempt:
                model = f"{event.model.provider_id}/{event.model.id}"
                size = event.bytes.total if event.bytes is not None else None
                _say(logging.INFO, "turn started", event, agent=event.agent, model=model, bytes=size)
            case ev.StepEnded():
                used = _used(event.tokens, event.cost)
                _say(
                    logging.INFO,
                    "turn ended",
                    event,
                    turn=event.assistant_message_id,
                    finish=event.finish,
                    **self._turn(event),
                    **used,
                )
            case ev.PermissionAsked() | ev.QuestionAsked() | ev.FormAsked():
                _say(logging.INFO, "waiting for a person", event, request=event.request.id)
            case ev.PermissionReplied() | ev.QuestionReplied() | ev.QuestionRejected() | ev.FormReplied():
                _say(logging.INFO, "answered by a person", event, request=event.request_id)
            case ev.FormCancelled():
                _say(logging.INFO, "answered by a person", event, request=event.request_id)
            case ev.CompactionEnded():
                _say(logging.INFO, "compacted", event, reason=event.reason)
            case RecoveryDecided():
                calls = ", ".join(event.calls) or None
                _say(
                    logging.INFO,
                    f"unfinished work: {event.decision}",
                    event,
                    by=event.by,
                    stage=event.stage,
                    calls=calls,
                )
            case ev.ActivitySuspended():
                _say(logging.INFO, "suspended by a shutdown", event)
            case _:
                pass

    def _turn(self, event: ev.SessionPayload) -> dict[str, Any]:
        turn = self._open.turn(event.session_id)
        if turn is None:
            return {}
        return {"model": f"{turn.provider}/{turn.model}", "ms": max(0, event.timestamp - turn.since)}


def cause_of(message: str) -> str:
    """The beginning of an error, which is in our words: what providers, files and prompts say comes after a mark."""
    return _QUOTED.split(message, maxsplit=1)[0].strip()[:CAUSE_CHARACTERS]


def _used(tokens: Tokens | None, cost: float | None) -> dict[str, Any]:
    if tokens is None:
        return {}
    return {
        "input": tokens.input,
        "output": tokens.output,
        "reasoning": tokens.reasoning,
        "cache_read": tokens.cache.read,
        "cache_write": tokens.cache.write,
        "cost": cost,
    }


def _say(level: int, message: str, event: ev.SessionPayload, **values: Any) -> None:
    log.log(level, message, extra=fields(session=event.session_id, **values))
