"""Turns, tool calls and requests to people that have begun in this process and not ended, in memory and bounded.
What another process began is not known here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from holdfast.schema import session_event as ev
from holdfast.schema.turn_event import TurnAbandoned, TurnDispatched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.schema.record import Record

MOST = 10_000

K = TypeVar("K")
T = TypeVar("T")


class OpenTurn(NamedTuple):
    since: int
    """In milliseconds since the epoch, as all times of events."""
    provider: str
    model: str


class OpenWork:
    def __init__(self) -> None:
        self._turns: dict[str, OpenTurn] = {}
        self._requests: dict[str, int] = {}
        self._tools: dict[tuple[str, str], str] = {}
        """By message and call: providers may repeat the ids of calls."""
        self._beginnings: Mapping[type[Record], Callable[[Any], None]] = {
            TurnDispatched: self._dispatched,
            ev.ToolCalled: self._called,
            **dict.fromkeys((ev.PermissionAsked, ev.QuestionAsked, ev.FormAsked), self._asked),
        }
        replies = (ev.PermissionReplied, ev.QuestionReplied, ev.QuestionRejected, ev.FormReplied, ev.FormCancelled)
        self._ends: Mapping[type[Record], Callable[[Any], None]] = {
            **dict.fromkeys((ev.StepEnded, ev.StepFailed, TurnAbandoned), self._turn_ended),
            **dict.fromkeys(replies, self._replied),
            **dict.fromkeys((ev.ToolSuccess, ev.ToolFailed), self._settled),
        }

    def begin(self, event: Record) -> None:
        """Called for each event before others look at it."""
        if (handler := self._beginnings.get(type(event))) is not None:
            handler(event)

    def end(self, event: Record) -> None:
        """Called for each event after others have looked at it."""
        if (handler := self._ends.get(type(event))) is not None:
            handler(event)

    def _dispatched(self, event: TurnDispatched) -> None:
        model = event.model
        _keep(self._turns, event.session_id, OpenTurn(event.timestamp, model.provider_id, model.id))

    def _asked(self, event: ev.PermissionAsked | ev.QuestionAsked | ev.FormAsked) -> None:
        _keep(self._requests, event.request.id, event.timestamp)

    def _called(self, event: ev.ToolCalled) -> None:
        _keep(self._tools, (event.assistant_message_id, event.call_id), event.tool)

    def _turn_ended(self, event: ev.SessionPayload) -> None:
        self._turns.pop(event.session_id, None)

    def _replied(self, event: ev.PermissionReplied | ev.QuestionReplied | ev.QuestionRejected) -> None:
        self._requests.pop(event.request_id, None)

    def _settled(self, event: ev.ToolSuccess | ev.ToolFailed) -> None:
        self._tools.pop((event.assistant_message_id, event.call_id), None)

    def turn(self, session_id: str) -> OpenTurn | None:
        return self._turns.get(session_id)

    def tool(self, message_id: str, call_id: str) -> str | None:
        """The name of the tool that a call is of."""
        return self._tools.get((message_id, call_id))

    def asked(self, request_id: str) -> int | None:
        """When a request was made."""
        return self._requests.get(request_id)


def _keep(held: dict[K, T], key: K, value: T) -> None:
    held[key] = value
    if len(held) > MOST:
        del held[next(iter(held))]
