"""Prints the events of a Session for `holdfast run`: the answer on standard output, the rest on standard error."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from holdfast.cli.child_lines import ChildLines, totals_line
from holdfast.cli.output import brief, printable
from holdfast.schema.codec import decode_any, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from holdfast.cli.result import Result
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
    from holdfast.schema.tree import TreeTotal
    from holdfast.schema.typed_event import Event


NO_OUTPUT = "(no output)"
"""What is stored for a command that wrote nothing; remarks may follow."""


class Screen:
    """Prints text for a person. Deltas are printed as they arrive; the end of a block prints the rest of its text, or
    all of it if its start was missed. Between `hold` and `release` output is kept back."""

    def __init__(self, *, quiet: bool, structured: bool = False) -> None:
        """`structured`: the answer is a value and is printed as JSON; texts go to standard error."""
        self._quiet = quiet
        self._structured = structured
        self._shown: dict[tuple[str, str], int] = {}
        self._begun: set[tuple[str, str]] = set()
        self._models: set[str] = set()
        self._shells: set[str] = set()
        """Shell commands whose output was printed while they ran."""
        self._mid_line = False
        self._held: list[tuple[TextIO, str]] | None = None
        self._safe: Callable[[str], str] = printable if sys.stdout.isatty() else str
        self.children = ChildLines()
        self.error: str | None = None
        self.seen = 0
        """How many events were shown."""

    def opened(self, session: Session) -> None:
        self.note(f"session {session.id}")

    def admitted(self, receipt: Admission) -> None:
        for note in receipt.prompt.notes or ():
            self.note(f"! {note}")

    def note(self, text: str) -> None:
        if not self._quiet:
            self._finish_line()
            self._put(sys.stderr, printable(text) + "\n")

    def show(self, event: Event, data: dict[str, Any]) -> None:
        self.seen += 1
        match event.type.removeprefix("session.next."):
            case "step.started":
                self._name_model(data["model"])
            case "text.started":
                self._begun.add(_block(data))
            case "text.delta" if _block(data) in self._begun:
                self._write(data, data["delta"])
            case "text.ended":
                self._write(data, data["text"][self._shown.get(_block(data), 0) :])
                self._finish_line()
            case "step.ended" if self._structured and "structured" in data:
                self._put(sys.stdout, encode(data["structured"]).decode() + "\n")
            case "step.ended" if "rejected" in data:
                self.note(f"! The answer does not have the requested form: {data['rejected']}")
            case "tool.called":
                self.note(f"> {data['tool']} {_summary(data['input'])}".rstrip())
            case "tool.failed":
                self.note(f"! {data['error']['message']}")
            case "retried":
                self.note(f"! {data['error']['message']} {_next_attempt(data)}")
            case "shell.started":
                self.note(f"$ {brief(data['command'])}")
            case "shell.delta":
                self._write_shell(data["callID"], data["delta"])
            case "compaction.started":
                self.note("… summarising older history")
            case "session.error":
                self.error = data["error"]["data"]["message"]

    def show_child(self, event: Event, data: dict[str, Any]) -> None:
        """Show an event of a subagent, as a short line."""
        self.seen += 1
        for line in self.children.lines(data["sessionID"], event.type, data):
            self.note(line)

    def used(self, total: TreeTotal) -> None:
        """What the Session and its subagents used."""
        self.note(f"with subagents: {totals_line(total)}")

    def end_shell(self, call_id: str, output: str, exit: int | None) -> None:
        """The end of a shell command. Its output is printed now if none of it was printed while it ran."""
        if call_id not in self._shells and not output.startswith(NO_OUTPUT):
            self._write_shell(call_id, output)
        self._finish_line()
        if exit != 0:
            self.note("the command did not run to its end" if exit is None else f"exit status {exit}")

    @property
    def _texts(self) -> TextIO:
        return sys.stderr if self._structured else sys.stdout

    def hold(self) -> None:
        self._finish_line()
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for stream, text in held:
            self._put(stream, text)

    def _name_model(self, model: dict[str, str]) -> None:
        name = f"{model['providerID']}/{model['id']}"
        if name not in self._models:
            self._models.add(name)
            self.note(f"model {name}")

    def _write(self, data: dict[str, Any], text: str) -> None:
        if not text:
            return
        key = _block(data)
        self._shown[key] = self._shown.get(key, 0) + len(text)
        if self._structured and self._quiet:
            return
        self._put(self._texts, self._safe(text))
        self._mid_line = not text.endswith("\n")

    def _write_shell(self, call_id: str, text: str) -> None:
        self._shells.add(call_id)
        self._put(sys.stdout, self._safe(text))
        self._mid_line = not text.endswith("\n")

    def _finish_line(self) -> None:
        if self._mid_line:
            self._put(self._texts, "\n")
            self._mid_line = False

    def _put(self, stream: TextIO, text: str) -> None:
        if self._held is not None:
            self._held.append((stream, text))
            return
        stream.write(text)
        stream.flush()


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


def fields(event: Event) -> dict[str, Any]:
    """The payload of an event as it is on the wire."""
    found: dict[str, Any] = decode_any(encode(event.data))
    return found


def _block(data: dict[str, Any]) -> tuple[str, str]:
    return data["assistantMessageID"], data["textID"]


def _next_attempt(data: dict[str, Any]) -> str:
    """When the failed turn is tried again."""
    due = data["error"].get("metadata", {}).get("next")
    wait = f" in {max(0, int(due) - int(data['timestamp'])) / 1000:.1f} s" if due else ""
    return f"Trying again{wait} (attempt {data['attempt'] + 1})."


def _summary(arguments: dict[str, Any]) -> str:
    """The arguments of a call on one line. Lists and objects are left out; of a switch that is on its name is shown."""
    shown = (
        name if value is True else str(value)
        for name, value in arguments.items()
        if isinstance(value, str | int | float) and value is not False
    )
    return brief(" ".join(shown))
