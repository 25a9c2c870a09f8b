"""Turns, tool calls and requests to people that have begun in this process and not ended, in memory and bounded.
What another process began is not known here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from holdfast.schema import session_event as ev
from holdfast.schema.turn_event import TurnAbandoned, TurnDispatched

if TYPE_CHECKING:
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

    def begin(self, event: Record) -> None:
        """Called for each event before others look at it."""
        match event:
            case TurnDispatched():
                model = event.model
                _keep(self._turns, event.session_id, OpenTurn(event.timestamp, model.provider_id, model.id))
            case ev.PermissionAsked() | ev.QuestionAsked() | ev.FormAsked():
                _keep(self._requests, event.request.id, event.timestamp)
            case ev.ToolCalled():
                _keep(self._tools, (event.assistant_message_id, event.call_id), event.tool)
            case _:
                pass

    def end(self, event: Record) -> None:
        """Called for each event after others have looked at it."""
        match event:
            case ev.StepEnded() | ev.StepFailed() | TurnAbandoned():
                self._turns.pop(event.session_id, None)
            case ev.PermissionReplied() | ev.QuestionReplied() | ev.QuestionRejected():
                self._requests.pop(event.request_id, None)
            case ev.FormReplied() | ev.FormCancelled():
                self._requests.pop(event.request_id, None)
            case ev.ToolSuccess() | ev.ToolFailed():
                self._tools.pop((event.assistant_message_id, event.call_id), None)
            case _:
                pass

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
