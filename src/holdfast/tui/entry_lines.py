"""An entry of a conversation as passages. Signs are in the first column and text begins in the third, so that what was
written is aligned, and what happened in between stands out by its signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, assert_never

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
from holdfast.tui.call_lines import call_line
from holdfast.tui.figures import cost, duration, short_count
from holdfast.tui.lines import hard_wrap, line_columns, safe, safe_line, sides, truncated, wrap
from holdfast.tui.passages import LazyLines, Passage, Target, is_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.schema.rendered import Entry
    from holdfast.tui.lines import Line
    from holdfast.tui.passages import Folds
    from holdfast.tui.style import Marks
    from holdfast.tui.text_chunks import TextChunks

NONE: tuple[tuple[str, str], ...] = ()
PROMPT_LINES = 12
"""Lines of a prompt that are shown while it is folded."""
OUTPUT_LINES = 10
"""Lines of a command's output that are shown while it is folded."""
PEEK_LINES = 3
TOOL_CALLS = "tool-calls"
WARNINGS = frozenset({"retry", "crash", "suspended", "abandoned", "interrupted"})


class Around(Protocol):
    """What an entry needs beside itself."""

    folds: Folds
    marks: Marks

    def now(self) -> float:
        """In milliseconds since the epoch."""

    def chunks(self, message_id: str, part_id: str, text: str, partial: str = "") -> TextChunks:
        """The chunks of a finished text, or of one that is being written."""

    def live(self, message_id: str, part_id: str) -> str | None:
        """What is being written, of an input or an output."""

    def body(self, message_id: str, call_id: str) -> Sequence[LazyLines] | None:
        """The body of a call; None if it is not there."""

    def is_outdated(self, message_id: str, call_id: str) -> bool:
        """Whether the body of a call is to be loaded, or loaded again."""

    def child(self, session_id: str) -> list[Passage] | None:
        """The newest entries of a child; None if they are not there."""


def entry_passages(entry: Entry, around: Around) -> list[Passage]:
    """The passages, the first without the blank line before it."""
    passages: list[Passage] = []
    for passage in _passages(entry, around):
        apart = bool(passages) and (passage.gap or is_apart(passages[-1].kind, passage.kind))
        passages.append(passage._replace(gap=apart))
    return passages


def _passages(entry: Entry, around: Around) -> Iterator[Passage]:
    match entry:
        case UserEntry():
            yield _prompt(entry, around)
        case AssistantEntry():
            yield from _answer(entry, around)
        case ShellEntry():
            yield from _shell(entry, around)
        case CompactionEntry():
            yield from _compaction(entry, around)
        case MarkEntry():
            yield from _mark(entry, around)
        case never:
            assert_never(never)


def _prompt(entry: UserEntry, around: Around) -> Passage:
    target = Target("prompt", entry.id)
    unfolded = around.folds.is_open(target)

    def render(width: int, marks: Marks) -> list[Line]:
        bar = [("class:user.mark", f"{marks.bar} ")]
        given: list[list[tuple[str, str]]] = [[("class:user", line)] for line in safe(entry.text).split("\n")]
        if entry.command is not None:
            given = [[("class:user class:accent", safe_line(entry.command))], *(given if unfolded else [])]
        lines = [line for part in given for line in wrap(part, width, first=bar)]
        if not unfolded and len(lines) > PROMPT_LINES + 1:
            hidden = len(lines) - PROMPT_LINES
            lines[PROMPT_LINES:] = wrap([("class:dim", f"{marks.ellipsis} {hidden} more lines")], width, first=bar)
        for file in entry.files:
            shown = f"+ {safe_line(file.name)} ({safe_line(file.mime)})"
            lines += wrap([("class:user.file", shown)], width, first=bar)
        if entry.delivery == "queue":
            lines[0] = sides(lines[0], [("class:faint", "queued")], width, marks.ellipsis)
        return lines

    long = len(entry.text) > 1_000 or entry.text.count("\n") > PROMPT_LINES or entry.command is not None
    return Passage("prompt", "prompt", LazyLines(render), target if long else None, NONE)


def _answer(entry: AssistantEntry, around: Around) -> Iterator[Passage]:
    quiet = around.folds.detail == "quiet"
    hidden: list[RenderedCall] = []
    for part in entry.parts:
        if quiet and isinstance(part, RenderedCall) and _is_plain(part):
            hidden.append(part)
            continue
        if hidden:
            yield _summary(hidden)
            hidden = []
        if isinstance(part, RenderedCall):
            yield from _call(entry, part, around)
        elif isinstance(part, RenderedText):
            for number, chunk in enumerate(around.chunks(entry.id, part.id, part.text, part.partial).chunks):
                yield Passage(f"{part.id}:{number}", "text", chunk, gap=chunk.gap or not number)
        elif not quiet or part.open:
            yield from _reasoning(entry, part, around)
    if hidden:
        yield _summary(hidden)
    if entry.open and not entry.parts:
        yield Passage("wait", "call", LazyLines(_waiting), None, NONE)
    if entry.structured is not None and not any(isinstance(part, RenderedText) for part in entry.parts):
        yield _structured(entry)
    if entry.error:
        yield _error(entry.error)
    ends = entry.finish not in (None, TOOL_CALLS) and not entry.error
    if (ends or around.folds.detail == "full") and not entry.open and not quiet:
        yield Passage("foot", "foot", LazyLines(lambda width, marks: _foot(entry, width, marks)))


def _reasoning(entry: AssistantEntry, part: RenderedReasoning, around: Around) -> Iterator[Passage]:
    target = Target("reasoning", entry.id, part.id)
    unfolded = around.folds.is_open(target)
    text = around.chunks(entry.id, part.id, part.text, part.partial)
    if not text.chunks and not part.open:
        return
    took = part.time.completed - part.time.created if part.time is not None and part.time.completed else None

    def render(width: int, marks: Marks) -> list[Line]:
        sign = marks.unfolded if unfolded else marks.folded
        words = "thinking" if part.open else f"thought for {duration(took)}" if took else "thought"
        line: Line = [("class:reasoning", f"{sign} {words}")]
        if part.open and not unfolded and (last := _last_line(text)):
            line.append(("class:faint", f" {marks.between} {last}"))
        return [truncated(line, width, marks.ellipsis)]

    yield Passage(part.id, "reasoning", LazyLines(render), target, NONE)
    if unfolded:
        for number, chunk in enumerate(text.chunks):
            dim = LazyLines(lambda width, marks, chunk=chunk: _dimmed(chunk.lines(width, marks)))  # type: ignore[misc]
            yield Passage(f"{part.id}:{number}", "body", dim, None, _gutter(around.marks), gap=chunk.gap)


def _call(entry: AssistantEntry, call: RenderedCall, around: Around) -> Iterator[Passage]:
    target = Target("call", entry.id, call.id)
    written = around.live(entry.id, call.id)
    now = around.now()
    line = LazyLines(lambda width, marks: [call_line(call, width, marks, now=now, written=written)])
    can_unfold = call.body or call.child_id is not None
    yield Passage(call.id, "call", line, target if can_unfold else None, NONE)
    if not can_unfold or not around.folds.is_open(target):
        if call.peek:
            yield Passage(f"{call.id}:peek", "body", _peek(call.peek), None, _gutter(around.marks))
        return
    if call.child_id is not None:
        inner = around.child(call.child_id)
        if inner is None:
            yield _loading(call, target, around)
        for passage in inner or ():
            yield passage.inside(call.id, _gutter(around.marks))
        return
    body = around.body(entry.id, call.id)
    if body is None:
        yield _loading(call, target, around)
    for number, block in enumerate(body or ()):
        wants = target if not number and around.is_outdated(entry.id, call.id) else None
        yield Passage(f"{call.id}:{number}", "body", block, None, _gutter(around.marks), wants=wants)


def _loading(call: RenderedCall, target: Target, around: Around) -> Passage:
    block = LazyLines(lambda width, marks: [truncated([("class:dim", marks.ellipsis)], width, "")])
    return Passage(f"{call.id}:loading", "body", block, None, _gutter(around.marks), wants=target)


def _is_plain(call: RenderedCall) -> bool:
    """Whether it needs no attention."""
    return call.status == "completed" and call.peek is None and call.child_id is None


def _summary(calls: Sequence[RenderedCall]) -> Passage:
    counts: dict[str, int] = {}
    for call in calls:
        counts[call.name] = counts.get(call.name, 0) + 1
    names = ", ".join(
        f"{safe_line(name)} ({count})" if count > 1 else safe_line(name) for name, count in counts.items()
    )

    def render(width: int, marks: Marks) -> list[Line]:
        return [truncated([("class:call.ok", f"{marks.ok} "), ("class:dim", names)], width, marks.ellipsis)]

    return Passage(f"{calls[0].id}:all", "call", LazyLines(render), None, NONE)


def _shell(entry: ShellEntry, around: Around) -> Iterator[Passage]:
    target = Target("shell", entry.id)
    unfolded = around.folds.is_open(target)
    text = entry.text or around.live(entry.id, entry.id) or ""

    def head(width: int, marks: Marks) -> list[Line]:
        failed = entry.exit not in (None, 0)
        ending = [("class:call.fail", f"exit {entry.exit}")] if failed else []
        left = [("class:user.mark", "$ "), ("class:user", safe_line(entry.command))]
        return [sides(left, ending, width, marks.ellipsis)]

    def output(width: int, marks: Marks) -> list[Line]:
        lines = [line for given in program_lines(text) for line in hard_wrap(given, width)]
        if unfolded or len(lines) <= OUTPUT_LINES + 1:
            return lines
        note: Line = [("class:dim", f"{marks.ellipsis} {len(lines) - OUTPUT_LINES} more lines")]
        return [truncated(note, width, marks.ellipsis), *lines[-OUTPUT_LINES:]]

    long = len(text) > 500 or text.count("\n") > OUTPUT_LINES
    yield Passage("command", "shell", LazyLines(head), target if long else None, NONE)
    if text:
        yield Passage("output", "body", LazyLines(output), None, _gutter(around.marks))._replace(kind="shell")


def _compaction(entry: CompactionEntry, around: Around) -> Iterator[Passage]:
    target = Target("compaction", entry.id)
    unfolded = around.folds.is_open(target)
    text = around.chunks(entry.id, entry.id, entry.text)

    def head(width: int, marks: Marks) -> list[Line]:
        sign = (marks.unfolded if unfolded else marks.folded) if text.chunks else marks.rule
        words = "compacting older history" if entry.open else "older history compacted"
        if entry.error:
            words = f"compaction failed: {safe_line(entry.error)}"
        style = "class:mark.warn" if entry.error else "class:mark"
        line = truncated([(style, f"{sign} {words}")], width - 1, marks.ellipsis)
        return [[*line, ("class:faint", f" {marks.rule * width}"[: max(0, width - line_columns(line))])]]

    yield Passage("compaction", "mark", LazyLines(head), target if text.chunks else None, NONE)
    if unfolded:
        for number, chunk in enumerate(text.chunks):
            yield Passage(f"summary:{number}", "body", chunk, None, _gutter(around.marks), gap=chunk.gap)


def _mark(entry: MarkEntry, around: Around) -> Iterator[Passage]:
    target = Target("mark", entry.id)
    unfolded = around.folds.is_open(target)

    def head(width: int, marks: Marks) -> list[Line]:
        title = safe_line(entry.title)
        words = f"{entry.kind} {marks.arrow} {title}" if entry.kind in ("agent", "model") else title
        warns = entry.kind in WARNINGS
        sign = (marks.unfolded if unfolded else marks.folded) if entry.text else "!" if warns else marks.between
        style = "class:mark.warn" if warns else "class:mark"
        return wrap([(style, words)], width, first=[(style, f"{sign} ")], rest=[("", "  ")])

    yield Passage("mark", "mark", LazyLines(head), target if entry.text else None, NONE)
    if unfolded and entry.text:
        for number, chunk in enumerate(around.chunks(entry.id, entry.id, entry.text).chunks):
            yield Passage(f"text:{number}", "body", chunk, None, _gutter(around.marks), gap=chunk.gap)


def _structured(entry: AssistantEntry) -> Passage:
    import msgspec

    from holdfast.tui.code import code_lines

    text = msgspec.json.format(msgspec.json.encode(entry.structured), indent=2).decode()
    return Passage("structured", "text", LazyLines(lambda width, marks: code_lines(text, width, "json")))


def _error(message: str) -> Passage:
    def render(width: int, marks: Marks) -> list[Line]:
        first, *others = safe(message).split("\n")
        lines = wrap([("class:error", first)], width, first=[("class:error", f"{marks.fail} ")], rest=[("", "  ")])
        return lines + [line for given in others for line in wrap([("class:error", given)], width, first=[("", "  ")])]

    return Passage("error", "error", LazyLines(render), None, NONE)


def _peek(text: str) -> LazyLines:
    def render(width: int, marks: Marks) -> list[Line]:
        lines = [line for line in program_lines(text) if line][-PEEK_LINES:]
        return [
            truncated([(f"class:call.peek {own}".rstrip(), shown) for own, shown in line], width, marks.ellipsis)
            for line in lines
        ]

    return LazyLines(render)


def _foot(entry: AssistantEntry, width: int, marks: Marks) -> list[Line]:
    words = []
    if entry.model is not None:
        words.append(safe_line(entry.model.id))
    if entry.time.completed is not None:
        words.append(duration(entry.time.completed - entry.time.created))
    if entry.tokens is not None and entry.tokens.output:
        words.append(f"{short_count(entry.tokens.output)} tokens")
    if entry.cost:
        words.append(cost(entry.cost))
    if entry.finish not in (None, "stop", TOOL_CALLS):
        words.append(safe_line(entry.finish or ""))
    return [truncated([("class:foot", f" {marks.between} ".join(words))], width, marks.ellipsis)] if words else []


def _waiting(width: int, marks: Marks) -> list[Line]:
    return [
        truncated([("class:call.run", f"{marks.run} "), ("class:dim", "waits for the model")], width, marks.ellipsis)
    ]


def _last_line(text: TextChunks) -> str:
    tail = text.chunks[-1].text[-400:] + text.chunks[-1].rest[-400:] if text.chunks else ""
    return safe_line(next((line for line in reversed(tail.split("\n")) if line.strip()), "").strip())


def _dimmed(lines: Sequence[Line]) -> list[Line]:
    return [[(f"class:reasoning {own}".rstrip(), text) for own, text in line] for line in lines]


def _gutter(marks: Marks) -> tuple[tuple[str, str], ...]:
    return (("class:gutter", f"{marks.gutter} "),)
