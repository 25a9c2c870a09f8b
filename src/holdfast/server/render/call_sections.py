"""What a tool call was given and what it returned, as sections: diffs, code, output of programs, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.schema.codec import encode
from holdfast.schema.rendered import BodySection
from holdfast.schema.session_message import FileContent, TextContent, ToolError, ToolPending
from holdfast.server.render.text import bounded, encodable
from holdfast.text.highlighting import language_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.filesystem.diff import FileDiff
    from holdfast.schema.session_message import ToolPart, ToolState

INPUT = 20_000
"""Characters of an input."""
OUTPUT = 60_000
"""Characters of an output."""
FILES = 50
"""Files of one diff."""
NAME = 1_000
STATUSES = ("added", "deleted", "modified")
NOT_COMPARED = "Too large to compare, or not text."

Section = tuple[BodySection, bool]
"""A section, and whether a part of it was left out."""


def call_sections(part: ToolPart, *, preview: Sequence[FileDiff] | str | None = None) -> Iterator[Section]:
    """`preview` is what a call that waits for permission would change, or why that is not known."""
    state = part.state
    if isinstance(state, ToolPending):
        return
    if isinstance(preview, str):
        yield from _section("note", preview, INPUT)
        yield from _json(state.input)
    elif preview is not None:
        yield from _diffs([msgspec.to_builtins(file) for file in preview])
    elif (files := _files(state)) is not None:
        yield from _diffs(files)
    elif part.name == "bash":
        yield from _section("code", _string(state.input, "command"), INPUT, name="bash")
        yield from _output(state)
    elif part.name == "read" and _is_text(state):
        language = language_of(_string(state.input, "path"))
        yield from _section("code", str(state.structured["content"]), OUTPUT, name=language)
    else:
        yield from _json(state.input)
        yield from _output(state)
    if isinstance(state, ToolError):
        yield from _section("error", state.error.message, OUTPUT)


def _diffs(files: Sequence[dict[str, Any]]) -> Iterator[Section]:
    for number, file in enumerate(files[:FILES]):
        patch, status = file.get("patch"), file.get("status")
        section = BodySection(
            kind="diff",
            text=encodable(patch) if isinstance(patch, str) else "",
            name=encodable(str(file.get("file", ""))[:NAME]),
            status=status if status in STATUSES else None,
        )
        yield section, number == FILES - 1 and len(files) > FILES
        if not isinstance(patch, str):
            yield from _section("note", NOT_COMPARED, INPUT)


def _output(state: ToolState) -> Iterator[Section]:
    assert not isinstance(state, ToolPending)
    for item in state.content:
        if isinstance(item, TextContent):
            yield from _section("output", item.text, OUTPUT)
        elif isinstance(item, FileContent):
            yield from _section("note", f"{(item.name or 'file')[:300]} ({item.mime[:100]})", INPUT)
    if not state.content and state.structured and not isinstance(state, ToolError):
        yield from _json(state.structured)


def _json(value: dict[str, Any]) -> Iterator[Section]:
    if value:
        yield from _section("code", msgspec.json.format(encode(value), indent=2).decode(), INPUT, name="json")


def _section(kind: str, text: str, limit: int, *, name: str | None = None) -> Iterator[Section]:
    shown, cut = bounded(encodable(text), limit)
    if shown:
        yield BodySection(kind=kind, text=shown, name=name or None), cut  # type: ignore[arg-type]


def _files(state: ToolState) -> list[dict[str, Any]] | None:
    """The diffs of a tool that changed files."""
    files = state.structured.get("files") if not isinstance(state, ToolPending) else None
    if not isinstance(files, list) or not files:
        return None
    shaped = all(isinstance(file, dict) and "additions" in file and "status" in file for file in files)
    return files if shaped else None


def _is_text(state: ToolState) -> bool:
    assert not isinstance(state, ToolPending)
    return isinstance(state.structured.get("content"), str) and state.structured.get("encoding") != "base64"


def _string(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
