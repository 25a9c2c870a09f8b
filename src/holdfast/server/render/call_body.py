"""What a tool call was given and what it returned, as HTML: a diff, a terminal's output, code, or JSON and text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.schema.codec import encode
from holdfast.schema.rendered import CallBody
from holdfast.schema.session_message import FileContent, TextContent, ToolCompleted, ToolError, ToolPending
from holdfast.server.render.ansi import terminal_html
from holdfast.server.render.code import code_html, language_of
from holdfast.server.render.diff import diff_html
from holdfast.server.render.sanitize import clean
from holdfast.server.render.text import bounded, encodable, escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.filesystem.diff import FileDiff
    from holdfast.schema.session_message import ToolPart, ToolState

LARGEST = 200_000
"""Bytes of HTML."""
INPUT = 20_000
"""Characters of an input."""
OUTPUT = 60_000
"""Characters of an output."""
FILES = 50
"""Files of one diff."""
CUT = '<p class="note dim">The rest is left out here because of its size.</p>'


class _Body:
    """Collects pieces of HTML up to the limit."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = len(CUT)
        self.cut = False

    def add(self, html: str, *, cut: bool = False) -> None:
        size = len(html.encode(errors="replace"))
        self.cut = self.cut or cut
        if self._size + size > LARGEST:
            self.cut = True
        elif html:
            self._pieces.append(html)
            self._size += size

    def text(self, text: str, limit: int, render: Callable[[str], str], shape: str) -> None:
        """A text in a shape, shortened until its HTML fits."""
        shown, cut = bounded(encodable(text), limit)
        html = shape.format(render(shown))
        while shown and self._size + len(html.encode()) > LARGEST:
            shown, cut = shown[: len(shown) // 2], True
            html = shape.format(render(shown))
        self.add(html, cut=cut)

    def body(self, paths: Sequence[str]) -> CallBody:
        html = clean("".join(self._pieces))
        return CallBody(html=html + CUT if self.cut else html, cut=self.cut, paths=tuple(paths))


def call_body(part: ToolPart, *, preview: Sequence[FileDiff] | str | None = None) -> CallBody:
    """`preview` is what a call that waits for permission would change, or why that is not known."""
    state = part.state
    body = _Body()
    if isinstance(state, ToolPending):
        return body.body(())
    if preview is not None:
        _preview(body, state.input, preview)
    elif (files := _files(state)) is not None:
        _diffs(body, files)
    elif part.name == "bash":
        body.text(_string(state.input, "command"), INPUT, _code("bash"), '<pre class="code"><code>{}</code></pre>')
        _output(body, state)
    elif part.name == "read" and _is_text(state):
        content, language = str(state.structured["content"]), language_of(_string(state.input, "path"))
        body.text(content, OUTPUT, _code(language), '<pre class="code"><code>{}</code></pre>')
    else:
        _json(body, state.input)
        _output(body, state)
    if isinstance(state, ToolError):
        body.text(state.error.message, OUTPUT, terminal_html, '<pre class="term">{}</pre>')
    return body.body((state.output_paths or ()) if isinstance(state, ToolCompleted) else ())


def _preview(body: _Body, given: dict[str, Any], preview: Sequence[FileDiff] | str) -> None:
    if isinstance(preview, str):
        body.add(f'<p class="note dim">{escaped(preview)}</p>')
        _json(body, given)
    else:
        _diffs(body, [msgspec.to_builtins(file) for file in preview])


def _diffs(body: _Body, files: Sequence[dict[str, Any]]) -> None:
    for file in files[:FILES]:
        name = escaped(str(file.get("file", ""))[:1_000])
        body.add(f'<p class="note"><b>{name}</b> <span class="dim">{escaped(str(file.get("status", "")))}</span></p>')
        patch = file.get("patch")
        if isinstance(patch, str):
            text = encodable(patch)
            table, cut = diff_html(text)
            while len(table) > LARGEST // 2:
                table, cut = diff_html(text, lines=table.count("<tr") // 2)[0], True
            body.add(table, cut=cut)
        else:
            body.add('<p class="note dim">Too large to compare, or not text.</p>')
    if len(files) > FILES:
        body.add("", cut=True)


def _output(body: _Body, state: ToolState) -> None:
    assert not isinstance(state, ToolPending)
    for item in state.content:
        if isinstance(item, TextContent):
            if item.text:
                body.text(item.text, OUTPUT, terminal_html, '<pre class="term">{}</pre>')
        elif isinstance(item, FileContent):
            body.add(f'<p class="note dim">{escaped((item.name or "file")[:300])} ({escaped(item.mime[:100])})</p>')
    if not state.content and state.structured and not isinstance(state, ToolError):
        _json(body, state.structured)


def _json(body: _Body, value: dict[str, Any]) -> None:
    if value:
        text = msgspec.json.format(encode(value), indent=2).decode()
        body.text(text, INPUT, _code("json"), '<pre class="code"><code>{}</code></pre>')


def _code(language: str) -> Callable[[str], str]:
    return lambda text: code_html(text, language)


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
