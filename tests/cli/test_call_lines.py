"""What `holdfast run` tells about tool calls."""

from __future__ import annotations

import io
from typing import Any

from holdfast.cli.call_lines import DIFF_LINES, LINE_CHARACTERS, OUTPUT_LINES, CallLines
from holdfast.cli.style import Style

PLAIN = Style(io.StringIO())


def told(
    tool: str, structured: dict[str, Any], text: str = "", *, seconds: float = 0, at_end: bool = False
) -> list[str]:
    calls = CallLines(PLAIN, at_end=at_end)
    begun = calls.begin({"callID": "c", "tool": tool, "input": {"path": "a.py", "newString": "x"}, "timestamp": 1000})
    lines = list(begun)
    end = {"callID": "c", "structured": structured, "content": [{"type": "text", "text": text}]}
    return lines + list(calls.succeed({**end, "timestamp": 1000 + int(seconds * 1000)}))


def test_a_quick_call_without_a_terminal_is_one_line() -> None:
    """CLI-012: a slow one has a second line; what a diff shows is not in the first."""
    assert told("read", {"content": "a\nb", "encoding": "utf8"}) == ["> read a.py"]
    assert told("read", {"content": "a\nb", "encoding": "utf8"}, seconds=2) == ["> read a.py", "< read: 2 lines, 2.0 s"]


def test_a_call_in_a_terminal_is_one_line_at_its_end() -> None:
    """CLI-012."""
    assert told("grep", {"value": [1, 2]}, seconds=0.25, at_end=True) == ["> grep a.py  2 found, 0.2 s"]


def test_a_failed_command_shows_its_status_and_last_lines() -> None:
    """CLI-013: bounded, with what was left out; escape sequences are shown."""
    output = "\n".join(f"line {number}" for number in range(30)) + "\n\x1b[31mred\n\nCommand exited with code 3."
    first, failed, left_out, *last = told("bash", {"exit": 3}, output)

    assert (first, failed) == ("> bash a.py", "! bash: exit status 3")
    assert left_out == f"    … {31 - OUTPUT_LINES} lines before"
    assert (len(last), last[-1]) == (OUTPUT_LINES, "    \\u001b[31mred")
    assert told("bash", {"timeout": True})[1] == "! bash: timed out"
    assert told("bash", {"exit": 0}, "fine") == ["> bash a.py"]


def test_an_edit_is_a_diff_of_bounded_length() -> None:
    """CLI-013: what was left out is counted, in the number of lines and in a long one."""
    patch = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-old\n+" + "x" * 1000 + "\n" + "".join(f"+{n}\n" for n in range(200))
    file = {"file": "a.py", "patch": patch, "additions": 201, "deletions": 1, "status": "modified"}
    _, title, place, removed, long, *rest = told("edit", {"files": [file]})

    assert (title, place, removed) == ("    modified a.py +201 -1", "    @@ -1 +1 @@", "    -old")
    assert long.endswith("… (1,001 characters)")
    assert len(long) < LINE_CHARACTERS + 40
    assert len(rest) == DIFF_LINES - 4 + 1
    assert rest[-1] == f"    … {4 + 200 - DIFF_LINES} more lines of the diff"


def test_what_a_strange_tool_says_of_itself_is_escaped() -> None:
    """CLI-013: names and results of tools of others."""
    files = [
        {"file": "a\x1b[2J", "patch": "+\x1b[2J\u200b", "additions": 1, "deletions": "\x1b", "status": ["\x1b"]},
        7,
    ]
    lines = told("evil\x1b[2J", {"files": files, "value": "x", "exit": "\x1b"}, "\x1b", seconds=2)

    assert len(lines) == 4
    assert "\x1b" not in "".join(lines)


def test_a_file_without_a_diff_is_named() -> None:
    """CLI-013."""
    lines = told("write", {"files": [{"file": "a.bin", "additions": 0, "deletions": 0, "status": "added"}]})

    assert lines[1:] == ["    added a.bin +0 -0", "    (no diff: too large, or not text)"]
