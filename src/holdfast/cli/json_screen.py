"""Prints the events of a Session for a program: one JSON document per line."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from holdfast.cli.screen import Screen
from holdfast.schema.codec import encode

if TYPE_CHECKING:
    from holdfast.cli.result import Result
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
    from holdfast.schema.typed_event import Event


class JsonScreen(Screen):
    """Prints one JSON document per line for a program: the session, the receipt, every event, and the result."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8, whatever the locale says

    def opened(self, session: Session) -> None:
        self._line("session", session)

    def admitted(self, receipt: Admission) -> None:
        self._line("admission", receipt)

    def show(self, event: Event, data: dict[str, Any]) -> None:
        self.seen += 1
        self._line("event", event)
        if event.type == "session.error":
            self.error = data["error"]["data"]["message"]

    def show_child(self, event: Event, data: dict[str, Any]) -> None:
        self.seen += 1
        for _ in self.children.lines(data["sessionID"], event.type, data):
            pass
        self._line("event", event)

    def ended(self, result: Result) -> None:
        self._line("result", result)

    def end_shell(self, call_id: str, output: str, exit: int | None) -> None:
        pass

    def _line(self, kind: str, value: object) -> None:
        self._put(sys.stdout, encode({"type": kind, kind: value}).decode() + "\n")
