"""A conversation as plain lines that only ever follow each other, for screen readers and simple terminals: no colours,
no boxes, nothing that is drawn over. Text of a model is given as it was written, line by line while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.rendered import (
    AssistantEntry,
    CompactionEntry,
    MarkEntry,
    RenderedCall,
    RenderedReasoning,
    RenderedText,
    ShellEntry,
    UserEntry,
)
from holdfast.tui.ansi import program_lines
from holdfast.tui.figures import cost, duration
from holdfast.tui.lines import plain_text, safe, safe_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.schema.rendered import Entry
    from holdfast.tui.conversation import Conversation

FIRST_ENTRIES = 10
"""Entries that are told of a conversation that is opened."""
OUTPUT_LINES = 40
"""Last lines of a command's output."""
REMEMBERED = 200
"""Newest entries that are looked at for something new."""


class LinearText:
    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._told: dict[tuple[str, str], int | str] = {}
        """How much of a text was told, and which states of other things, by the ids of entry and part."""
        self._before: int | None = None
        """Entries with a smaller sequence are not told."""
        self.own: set[str] = set()
        """Prompts that were typed here, which are on the screen already."""

    def lines(self) -> list[str]:
        """What is new since it was called last."""
        if not self._conversation.loaded:
            return []
        entries = self._conversation.entries[-REMEMBERED:]
        if self._before is None:
            self._before = entries[-FIRST_ENTRIES].seq if len(entries) > FIRST_ENTRIES else 0
        lines = [line for entry in entries if entry.seq >= self._before for line in self._entry(entry)]
        if len(self._told) > 20 * REMEMBERED:
            kept = {entry.id for entry in entries}
            self._told = {key: value for key, value in self._told.items() if key[0] in kept}
            self._before = max(self._before, entries[0].seq)
        return lines

    def _entry(self, entry: Entry) -> Iterator[str]:
        match entry:
            case UserEntry():
                if entry.id not in self.own and self._once(entry.id, "", "prompt"):
                    yield from _labelled("You", entry.command or entry.text)
                    for file in entry.files:
                        yield f"Attached: {safe_line(file.name)}"
            case AssistantEntry():
                yield from self._answer(entry)
            case ShellEntry():
                if not entry.open and self._once(entry.id, "", "ended"):
                    yield f"Command: {safe_line(entry.command)}"
                    yield from _output(entry.text)
                    if entry.exit:
                        yield f"Exit {entry.exit}"
            case CompactionEntry():
                if not entry.open and self._once(entry.id, "", "ended"):
                    failed = f": failed, {safe_line(entry.error)}" if entry.error else ""
                    yield f"Older history compacted{failed}"
            case MarkEntry():
                if self._once(entry.id, "", "mark"):
                    named = f"{entry.kind.capitalize()}: " if entry.kind in ("agent", "model") else ""
                    yield f"{named}{safe_line(entry.title)}"

    def _answer(self, entry: AssistantEntry) -> Iterator[str]:
        for part in entry.parts:
            match part:
                case RenderedText():
                    text = self._conversation.chunks(entry.id, part.id, part.text, part.partial).text
                    yield from self._text(entry.id, part.id, text, is_open=part.open)
                case RenderedReasoning():
                    if not part.open and self._once(entry.id, part.id, "ended"):
                        ended = part.time.completed if part.time is not None else None
                        took = f" for {duration(ended - part.time.created)}" if part.time is not None and ended else ""
                        yield f"Thought{took}"
                case RenderedCall():
                    yield from self._call(entry.id, part)
        if not entry.open and self._once(entry.id, "", "ended"):
            if entry.error:
                yield from _labelled("Error", entry.error)
            elif entry.finish not in (None, "tool-calls"):
                spent = f", {cost(entry.cost)}" if entry.cost else ""
                yield f"Answer complete{spent}."

    def _text(self, entry_id: str, part_id: str, text: str, *, is_open: bool) -> Iterator[str]:
        """Complete lines that were not told, and of a complete text also its last line."""
        told = self._told.get((entry_id, part_id), 0)
        assert isinstance(told, int)
        end = text.rfind("\n") + 1 if is_open else len(text)
        if end > told:
            self._told[entry_id, part_id] = end
            yield from safe(text[told:end].removesuffix("\n")).split("\n")

    def _call(self, entry_id: str, call: RenderedCall) -> Iterator[str]:
        before = self._told.get((entry_id, call.id))
        if before == call.status or call.status in ("pending", "waiting"):
            return
        self._told[entry_id, call.id] = call.status
        name = safe_line(f"{call.name} {call.title}".strip())
        if call.status == "running":
            yield f"Running: {name}"
            return
        ended = []
        if call.additions or call.deletions:
            ended.append(f"{call.additions or 0} lines added, {call.deletions or 0} removed")
        elif call.outcome:
            ended.append(safe_line(call.outcome))
        begun = call.time.ran or call.time.created
        if call.time.completed is not None and call.time.completed - begun >= 1_000:
            ended.append(f"after {duration(call.time.completed - begun)}")
        word = "Failed" if call.status == "error" or call.peek else "Done"
        yield f"{word}: {name}{': ' if ended else ''}{', '.join(ended)}"
        if call.peek:
            yield from _output(call.peek)

    def _once(self, entry_id: str, part_id: str, state: str) -> bool:
        if self._told.get((entry_id, part_id)) == state:
            return False
        self._told[entry_id, part_id] = state
        return True


def _labelled(label: str, text: str) -> Iterator[str]:
    first, *others = safe(text).split("\n")
    yield f"{label}: {first}"
    yield from others


def _output(text: str) -> Iterator[str]:
    lines = [plain_text(line) for line in program_lines(text)] if text else []
    if len(lines) > OUTPUT_LINES:
        yield f"({len(lines) - OUTPUT_LINES} lines are left out)"
    yield from lines[-OUTPUT_LINES:]
