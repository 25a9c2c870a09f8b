"""Prints the events of a Session for `holdfast run`: the answer on standard output, the rest on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holdfast.cli.call_lines import CallLines
from holdfast.cli.child_lines import ChildLines, totals_line
from holdfast.cli.markdown_stream import MarkdownStream
from holdfast.cli.output import brief, printable
from holdfast.cli.progress import Progress
from holdfast.cli.style import Style
from holdfast.schema.codec import decode_any, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TextIO

    from holdfast.cli.answer import Answer
    from holdfast.cli.result import Result
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
    from holdfast.schema.tree import TreeTotal
    from holdfast.schema.typed_event import Event


THE_MODEL = "the model"
NO_OUTPUT = "(no output)"
"""What is stored for a command that wrote nothing; remarks may follow."""


class Screen:
    """Prints text for a person. Deltas are printed as they arrive; the end of a block prints the rest of its text, or
    all of it if its start was missed. Between `hold` and `release` output is kept back. In a terminal the answer is
    styled, and a line at the bottom says what is waited for; a pipe gets the text as it is."""

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
        self._style = Style(sys.stderr)
        self._markdown = MarkdownStream() if Style(self._texts).on else None
        self.progress = Progress(quiet=quiet)
        self._calls = CallLines(self._style, at_end=self.progress.on)
        self.children = ChildLines()
        self.error: str | None = None
        self.seen = 0
        """How many events were shown."""

    def opened(self, session: Session) -> None:
        self.note(f"session {session.id}")

    def admitted(self, receipt: Admission) -> None:
        self.progress.waits_for(THE_MODEL)
        for note in receipt.prompt.notes or ():
            self.note(f"! {note}")

    def note(self, text: str) -> None:
        self._say(printable(text))

    def _say(self, text: str) -> None:
        """Print a line about the run, whose text is printable."""
        if not self._quiet:
            self._finish_line()
            self._put(sys.stderr, text + "\n")

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
                self._finish_block()
            case "step.ended" if self._structured and "structured" in data:
                self._put(sys.stdout, encode(data["structured"]).decode() + "\n")
            case "step.ended" if "rejected" in data:
                self.note(f"! The answer does not have the requested form: {data['rejected']}")
            case "tool.called":
                self._say_each(self._calls.begin(data))
            case "tool.success":
                self._say_each(self._calls.succeed(data))
            case "tool.failed":
                self._say_each(self._calls.fail(data))
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
        self._wait_for(event.type.removeprefix("session.next."), data)

    def tick(self) -> None:
        """Show what is waited for, where the cursor allows it."""
        if self._held is None and not self._mid_line:
            self.progress.draw()

    def closed(self, answer: Answer) -> None:
        """What the answer used, in one line."""
        self._say(self._style("dim", used_line(answer, self.progress.elapsed)))

    def ended(self, result: Result) -> None:
        """The result of the run, for a program. A person has seen it."""

    def rest(self) -> None:
        """Leave the terminal as it was, whatever happened: without a progress line, an open style or half a line."""
        self.progress.erase()
        if self._texts.isatty():
            self._finish_line()

    def _wait_for(self, kind: str, data: dict[str, Any]) -> None:
        match kind:
            case "step.started":
                self.progress.waits_for(THE_MODEL)
            case "reasoning.started":
                self.progress.waits_for("thinking")
            case "tool.input.started":
                self.progress.waits_for(f"the arguments of {data['name']}")
            case "tool.called" | "tool.success" | "tool.failed":
                running = self._calls.newest
                self.progress.waits_for(running.label if running is not None else THE_MODEL)
            case "compaction.started":
                self.progress.waits_for("a summary of older history")

    def _say_each(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._say(line)

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
        self.progress.erase()
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
        safe = self._safe(text)
        self._put(self._texts, self._markdown.feed(safe) if self._markdown is not None else safe)
        self._mid_line = not text.endswith("\n")

    def _finish_block(self) -> None:
        if self._markdown is not None and (rest := self._markdown.end()):
            self._put(self._texts, rest)
        self._finish_line()

    def _write_shell(self, call_id: str, text: str) -> None:
        self._shells.add(call_id)
        self._put(sys.stdout, self._safe(text))
        self._mid_line = not text.endswith("\n")

    def _finish_line(self) -> None:
        if self._mid_line:
            rest = self._markdown.feed("\n") if self._markdown is not None else "\n"
            self._put(self._texts, rest)
            self._mid_line = False

    def _put(self, stream: TextIO, text: str) -> None:
        if self._held is not None:
            self._held.append((stream, text))
            return
        self.progress.erase()
        stream.write(text)
        stream.flush()


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


def used_line(answer: Answer, seconds: float) -> str:
    """Tokens, the share of the input that came from the provider's cache, cost and time."""
    used = answer.tokens
    told = used["input"] + used["read"] + used["write"]
    cached = f" ({100 * used['read'] // told} % cached)" if used["read"] else ""
    written = used["output"] + used["reasoning"]
    return f"{told:,} tokens in{cached}, {written:,} out, ${answer.cost:.4f}, {seconds:.1f} s"
