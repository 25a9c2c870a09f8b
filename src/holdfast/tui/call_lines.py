"""A tool call in one line: its state, its name, what it was called with, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.pattern import pattern
from holdfast.tui.call_body import change_counts
from holdfast.tui.figures import duration, size
from holdfast.tui.lines import line_columns, safe_line, sides

if TYPE_CHECKING:
    from holdfast.schema.rendered import RenderedCall
    from holdfast.tui.lines import Line
    from holdfast.tui.style import Marks

LONG = 1_000
"""Milliseconds after which the time of a call is shown."""
INPUT_LOOKED = 2_000
"""Characters of an input that is being written in which its subject is looked for."""
_SUBJECT = pattern(
    r'"(?:path|filePath|file_path|command|pattern|url|query|description)"\s*:\s*"((?:[^"\\]|\\.){1,200})'
)


def call_line(call: RenderedCall, width: int, marks: Marks, *, now: float, written: str | None = None) -> Line:
    """`now` is in milliseconds since the epoch; `written` is the input that the model is writing."""
    left: Line = [call_mark(call, marks), ("", " "), ("class:call.name", safe_line(call.name))]
    title = call.title or _subject(written or "")
    if title:
        left.append(("class:call.title", f" {safe_line(title)}"))
    return sides(left, _ending(call, width // 2, marks, now, written), width, marks.ellipsis)


def call_mark(call: RenderedCall, marks: Marks) -> tuple[str, str]:
    match call.status:
        case "pending":
            return "class:call.pending", marks.pending
        case "running":
            return "class:call.run", marks.run
        case "waiting":
            return "class:call.wait", marks.wait
        case "error":
            return "class:call.fail", marks.fail
    if call.peek is not None:  # a command that ran and did not succeed
        return "class:call.fail", marks.fail
    return "class:call.ok", marks.ok


def _ending(call: RenderedCall, room: int, marks: Marks, now: float, written: str | None) -> Line:
    """What is at the right, most telling first; what does not fit is left out."""
    parts: list[Line] = []
    if call.status == "waiting":
        parts.append([("class:call.wait", "waits for you")])
    if call.status == "pending" and written:
        parts.append([("class:call.outcome", f"writes {size(len(written))}")])
    if counts := change_counts(call.additions, call.deletions, marks):
        parts.append(counts)
    elif call.outcome:
        parts.append([("class:call.outcome", safe_line(call.outcome))])
    begun = call.time.ran if call.time.ran is not None else call.time.created
    ended = call.time.completed if call.time.completed is not None else now
    if call.status in ("running", "completed", "error") and ended - begun >= LONG:
        parts.append([("class:call.outcome", duration(ended - begun))])
    shown: Line = []
    for part in parts:
        more = [("class:faint", f" {marks.between} "), *part] if shown else part
        if line_columns(shown) + line_columns(more) + 2 <= room:
            shown += more
    return shown


def _subject(written: str) -> str:
    """What the call will be about, found in an input that is not complete."""
    found = _SUBJECT.search(written[:INPUT_LOOKED])
    return found[1].replace("\\n", " ").replace('\\"', '"') if found is not None else ""
