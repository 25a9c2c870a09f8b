"""A tool call in one line: what it was called with and how it ended. Built-in tools are known by name; of others the
input is shown."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from holdfast.schema.codec import encode
from holdfast.schema.session_message import TextContent, ToolCompleted, ToolError, ToolPending
from holdfast.server.render.ansi import plain
from holdfast.server.render.text import last_lines, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.schema.session_message import ToolPart, ToolState

TITLE = 300
OUTCOME = 80
PEEK_LINES = 5
PEEK_CHARACTERS = 300
PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,300})$", re.MULTILINE)
SHOWN_FILES = 3
CHILDREN = ("subagent", "task")
"""Tools that give work to a child."""


def title_of(part: ToolPart, directory: str) -> str:
    """The path, the command, the pattern: what matters most of its input."""
    state = part.state
    if isinstance(state, ToolPending):
        return ""
    given = state.input
    known = _TITLES.get(part.name)
    title = known(given, directory) if known is not None else None
    return one_line(title if title is not None else _any_title(given), TITLE)


def outcome_of(part: ToolPart) -> str | None:
    state = part.state
    if isinstance(state, ToolError):
        return "failed"
    known = _OUTCOMES.get(part.name)
    if not isinstance(state, ToolCompleted) or known is None:
        return None
    outcome = known(state.structured)
    return one_line(outcome, OUTCOME) if outcome else None


def changed_lines(state: ToolState) -> tuple[int | None, int | None]:
    """Lines that it added and removed, of a tool that changes files."""
    files = [file for file in _files(state) if isinstance(file.get("additions"), int)]
    if not files:
        return None, None
    return sum(file["additions"] for file in files), sum(_int(file.get("deletions")) for file in files)


def peek_of(part: ToolPart) -> str | None:
    """The last lines of what failed."""
    state = part.state
    if isinstance(state, ToolError):
        text = state.error.message
    elif isinstance(state, ToolCompleted) and _is_failed_command(part):
        text = next((item.text for item in state.content if isinstance(item, TextContent)), "")
    else:
        return None
    return visible(last_lines(plain(text[-100_000:]), PEEK_LINES, characters=PEEK_CHARACTERS)) or None


def child_of(part: ToolPart) -> str | None:
    if part.name not in CHILDREN or isinstance(part.state, ToolPending):
        return None
    child = part.state.structured.get("sessionID") or part.state.input.get("sessionID")
    return child if isinstance(child, str) and child.startswith("ses") else None


def relative(path: object, directory: str) -> str:
    """A path as people of the project call it."""
    text = path if isinstance(path, str) else ""
    if text == directory:
        return "."
    return text.removeprefix(directory.rstrip(os.sep) + os.sep) if text.startswith(os.sep) else text


def _is_failed_command(part: ToolPart) -> bool:
    state = part.state
    assert isinstance(state, ToolCompleted)
    return part.name == "bash" and (state.structured.get("exit") != 0 or state.structured.get("timeout") is True)


def _files(state: ToolState) -> list[dict[str, Any]]:
    files = state.structured.get("files") if not isinstance(state, ToolPending) else None
    return [file for file in files if isinstance(file, dict)] if isinstance(files, list) else []


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def _any_title(given: dict[str, Any]) -> str:
    first = next((value for value in given.values() if isinstance(value, str) and value.strip()), None)
    if first is not None:
        return first[: TITLE * 4]
    return encode(given)[: TITLE * 4].decode(errors="replace") if given else ""


def _path(given: dict[str, Any], directory: str) -> str:
    return relative(given.get("path") or given.get("filePath"), directory)


def _search(given: dict[str, Any], directory: str) -> str:
    where = relative(given.get("path"), directory)
    return _text(given, "pattern") + (f" in {where}" if where and where != "." else "")


def _patch(given: dict[str, Any], directory: str) -> str:
    files = [relative(path.strip(), directory) for path in PATCHED.findall(_text(given, "patchText")[:1_000_000])]
    return ", ".join(files[:SHOWN_FILES]) + (
        f" and {len(files) - SHOWN_FILES} more" if len(files) > SHOWN_FILES else ""
    )


def _question(given: dict[str, Any], directory: str) -> str:
    questions = given.get("questions")
    first = questions[0] if isinstance(questions, list) and questions else {}
    return _text(first, "question") if isinstance(first, dict) else ""


def _todos(given: dict[str, Any], directory: str) -> str:
    todos = given.get("todos")
    return _count(len(todos), "item") if isinstance(todos, list) else ""


_TITLES: dict[str, Callable[[dict[str, Any], str], str]] = {
    "read": _path,
    "write": _path,
    "edit": _path,
    "apply_patch": _patch,
    "bash": lambda given, directory: _text(given, "command"),
    "glob": _search,
    "grep": _search,
    "webfetch": lambda given, directory: _text(given, "url"),
    "websearch": lambda given, directory: _text(given, "query"),
    "subagent": lambda given, directory: _text(given, "description"),
    "task": lambda given, directory: _text(given, "description"),
    "skill": lambda given, directory: _text(given, "name") or _text(given, "id"),
    "question": _question,
    "todowrite": _todos,
}


def _count(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def _found(noun: str, nouns: str | None = None) -> Callable[[dict[str, Any]], str | None]:
    def outcome(structured: dict[str, Any]) -> str | None:
        found = structured.get("value")
        return _count(len(found), noun, nouns) if isinstance(found, list) else None

    return outcome


def _read(structured: dict[str, Any]) -> str | None:
    entries, content = structured.get("entries"), structured.get("content")
    if isinstance(entries, list):
        return _count(len(entries), "entry", "entries")
    if not isinstance(content, str):
        return None
    if structured.get("encoding") == "base64":
        return _text(structured, "mime")
    lines = content.count("\n") + (0 if content.endswith("\n") or not content else 1)
    offset = structured.get("offset")
    if structured.get("type") == "text-page" and isinstance(offset, int):
        return f"lines {offset:,}–{offset + max(lines, 1) - 1:,}"
    return _count(lines, "line")


def _bash(structured: dict[str, Any]) -> str | None:
    if structured.get("timeout") is True:
        return "timed out"
    exit_ = structured.get("exit")
    return None if exit_ == 0 else f"exit {exit_}" if isinstance(exit_, int) else "no exit status"


_OUTCOMES: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "read": _read,
    "glob": _found("file"),
    "grep": _found("match", "matches"),
    "bash": _bash,
    "write": lambda structured: None if structured.get("existed") is True else "created",
    "webfetch": lambda structured: _text(structured, "contentType"),
    "subagent": lambda structured: _text(structured, "status"),
    "task": lambda structured: _text(structured, "status"),
    "question": lambda structured: "answered",
}
