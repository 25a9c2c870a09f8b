"""Lines about tool calls, for `holdfast run`: what was called, how it ended and how long that took, the diff of an
edit, and the last lines of a command that failed. Everything is bounded, and what is left out is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.cli.output import brief, printable, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.style import Style

DIFF_LINES = 60
"""Lines of the diffs of one call."""
OUTPUT_LINES = 10
"""The last lines of a command that failed."""
LINE_CHARACTERS = 300
NAME_CHARACTERS = 80
OUTPUT_CHARACTERS = 100_000
"""The end of an output that is looked at."""
SLOW_SECONDS = 1.0
"""Where each call has a line when it begins, one of its own tells the duration from here on."""
EXITED = "Command exited with code"
"""How the remark of the bash tool begins that tells the model what the line above the output tells a person."""
INDENT = "    "
FINDING = ("read", "glob", "grep")
LARGE = ("content", "oldString", "newString", "patchText")
"""Arguments of built-in tools that are shown as a diff."""


class Call:
    """A call that has begun."""

    def __init__(self, tool: str, arguments: dict[str, Any], started: int) -> None:
        self.tool = brief(visible(tool), NAME_CHARACTERS)
        self.label = f"{self.tool} {_summary(arguments)}".rstrip()
        self.started = started
        """In milliseconds since the epoch, as all times of events."""


class CallLines:
    """Takes the beginnings and ends of calls. With `at_end` a call is one line when it has ended, because something
    else shows what runs; otherwise it has a line when it begins, and another one if there is more to tell."""

    def __init__(self, style: Style, *, at_end: bool) -> None:
        self._style = style
        self._at_end = at_end
        self._open: dict[str, Call] = {}

    @property
    def newest(self) -> Call | None:
        """The last call that began and has not ended."""
        return next(reversed(self._open.values()), None)

    def begin(self, data: dict[str, Any]) -> Iterator[str]:
        call = Call(data["tool"], data["input"], data["timestamp"])
        self._open[data["callID"]] = call
        if not self._at_end:
            yield self._title(call)

    def succeed(self, data: dict[str, Any]) -> Iterator[str]:
        structured: dict[str, Any] = data["structured"]
        call = self._open.pop(data["callID"], None)
        problem = _status(call, structured)
        seconds = _seconds(call, data)
        facts = [problem or _outcome(call, structured), _duration(seconds, always=self._at_end)]
        if call is not None and (self._at_end or problem is not None or seconds >= SLOW_SECONDS):
            yield self._ended(call, [fact for fact in facts if fact], failed=problem is not None)
        if problem is not None:
            yield from self._output(data["content"])
        yield from self._diffs(structured)

    def fail(self, data: dict[str, Any]) -> Iterator[str]:
        call = self._open.pop(data["callID"], None)
        if call is not None and self._at_end:
            yield self._ended(call, ["failed", f"{_seconds(call, data):.1f} s"], failed=True)
        yield self._style("failed", f"! {printable(data['error']['message'])}")

    def _title(self, call: Call) -> str:
        return f"{self._style('call', '>')} {call.label}"

    def _ended(self, call: Call, facts: list[str], *, failed: bool) -> str:
        told = ", ".join(facts)
        told = self._style("failed" if failed else "dim", told)
        if self._at_end:
            return f"{self._title(call)}  {told}".rstrip()
        return f"{'!' if failed else '<'} {call.tool}: {told}"

    def _output(self, content: list[dict[str, Any]]) -> Iterator[str]:
        text = "\n".join(item["text"] for item in content if item.get("type") == "text")[-OUTPUT_CHARACTERS:]
        lines = text.rstrip().splitlines()
        if lines and lines[-1].startswith(EXITED):
            lines = "\n".join(lines[:-1]).rstrip().splitlines()
        if len(lines) > OUTPUT_LINES:
            yield self._style("dim", f"{INDENT}… {len(lines) - OUTPUT_LINES:,} lines before")
        for line in lines[-OUTPUT_LINES:]:
            yield INDENT + self._style("dim", _cut(line))

    def _diffs(self, structured: dict[str, Any]) -> Iterator[str]:
        files = structured.get("files")
        lines: list[str] = []
        for file in files if isinstance(files, list) else ():
            if isinstance(file, dict) and isinstance(file.get("file"), str) and isinstance(file.get("additions"), int):
                lines += self._diff(file)
        yield from lines[:DIFF_LINES]
        if len(lines) > DIFF_LINES:
            yield self._style("dim", f"{INDENT}… {len(lines) - DIFF_LINES:,} more lines of the diff")

    def _diff(self, file: dict[str, Any]) -> Iterator[str]:
        counts = f"+{file['additions']} -{brief(file.get('deletions', 0), 20)}"
        status = brief(file.get("status", "modified"), 20)
        yield f"{INDENT}{status} {_cut(file['file'])} {self._style('dim', counts)}"
        patch = file.get("patch")
        if not isinstance(patch, str):
            yield self._style("dim", f"{INDENT}(no diff: too large, or not text)")
            return
        for line in patch.splitlines():
            if not line.startswith(("Index: ", "=====", "--- ", "+++ ")):
                yield INDENT + self._coloured(_cut(line))

    def _coloured(self, line: str) -> str:
        match line[:1]:
            case "+":
                return self._style("added", line)
            case "-":
                return self._style("removed", line)
            case "@":
                return self._style("place", line)
            case _:
                return line


def _summary(arguments: dict[str, Any]) -> str:
    """The arguments of a call on one line; of a command, the command. Lists, objects and what a diff shows are left
    out; of a switch that is on its name is shown."""
    if isinstance(command := arguments.get("command"), str):
        return brief(command)
    shown = (
        name if value is True else str(value)
        for name, value in arguments.items()
        if isinstance(value, str | int | float) and value is not False and name not in LARGE
    )
    return brief(" ".join(shown))


def _status(call: Call | None, structured: dict[str, Any]) -> str | None:
    """How a command failed; None if it did not, or if this is no command."""
    if call is not None and call.tool != "bash":
        return None
    if structured.get("timeout") is True:
        return "timed out"
    exit_ = structured.get("exit", 0)
    return None if exit_ == 0 else f"exit status {exit_}" if isinstance(exit_, int) else "no exit status"


def _outcome(call: Call | None, structured: dict[str, Any]) -> str | None:
    """What a built-in tool found."""
    if call is None or call.tool not in FINDING:
        return None
    match structured:
        case {"value": list(found)}:
            return f"{len(found):,} found"
        case {"entries": list(entries)}:
            return f"{len(entries):,} entries"
        case {"content": str(content), "encoding": "utf8"}:
            return f"{len(content.splitlines()):,} lines"
        case _:
            return None


def _seconds(call: Call | None, data: dict[str, Any]) -> float:
    return max(0, data["timestamp"] - call.started) / 1000 if call is not None else 0.0


def _duration(seconds: float, *, always: bool) -> str | None:
    return f"{seconds:.1f} s" if always or seconds >= SLOW_SECONDS else None


def _cut(line: str) -> str:
    text = visible(line.expandtabs(4))
    return text if len(text) <= LINE_CHARACTERS else f"{text[:LINE_CHARACTERS]}… ({len(text):,} characters)"
