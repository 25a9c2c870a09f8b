"""The body of a tool call within its limit: as HTML for a page, or as sections of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.rendered import BodySection, CallBody
from holdfast.schema.session_message import ToolCompleted
from holdfast.server.render.ansi import terminal_html
from holdfast.server.render.call_sections import call_sections
from holdfast.server.render.code import code_html
from holdfast.server.render.diff import diff_html
from holdfast.server.render.sanitize import clean
from holdfast.server.render.text import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.filesystem.diff import FileDiff
    from holdfast.schema.rendered import TextFormat
    from holdfast.schema.session_message import ToolPart

LARGEST = 200_000
"""Bytes of HTML or of text."""
CUT = '<p class="note dim">The rest is left out here because of its size.</p>'


def call_body(
    part: ToolPart, *, preview: Sequence[FileDiff] | str | None = None, form: TextFormat = "html"
) -> CallBody:
    """`preview` is what a call that waits for permission would change, or why that is not known."""
    body: _Html | _Text = _Html() if form == "html" else _Text()
    for section, cut in call_sections(part, preview=preview):
        body.add(section, cut=cut)
    paths = (part.state.output_paths or ()) if isinstance(part.state, ToolCompleted) else ()
    return body.made(tuple(paths))


class _Text:
    """Collects sections up to the limit. The first that does not fit is shortened, the others are left out."""

    def __init__(self) -> None:
        self._sections: list[BodySection] = []
        self._left = LARGEST
        self._cut = False

    def add(self, section: BodySection, *, cut: bool) -> None:
        size = len(section.text.encode())
        self._cut = self._cut or cut or size > self._left
        if self._left <= 0:
            return
        if size > self._left:
            text = section.text.encode()[: self._left].decode(errors="ignore")
            section = BodySection(kind=section.kind, text=text, name=section.name, status=section.status)
        self._left -= size
        self._sections.append(section)

    def made(self, paths: tuple[str, ...]) -> CallBody:
        return CallBody(sections=tuple(self._sections), cut=self._cut, paths=paths)


class _Html:
    """Collects pieces of HTML up to the limit."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = len(CUT)
        self._cut = False

    def add(self, section: BodySection, *, cut: bool) -> None:
        self._cut = self._cut or cut
        if section.kind == "diff":
            self._diff(section)
            return
        shown = section.text
        html = _html(section, shown)
        while shown and self._size + len(html.encode()) > LARGEST:
            shown, self._cut = shown[: len(shown) // 2], True
            html = _html(section, shown)
        self._piece(html)

    def made(self, paths: tuple[str, ...]) -> CallBody:
        html = clean("".join(self._pieces))
        return CallBody(html=html + CUT if self._cut else html, cut=self._cut, paths=paths)

    def _diff(self, section: BodySection) -> None:
        name, status = escaped(section.name or ""), section.status or ""
        self._piece(f'<p class="note"><b>{name}</b> <span class="dim">{status}</span></p>')
        table, cut = diff_html(section.text)
        while len(table) > LARGEST // 2:
            table, cut = diff_html(section.text, lines=table.count("<tr") // 2)[0], True
        self._cut = self._cut or cut
        self._piece(table)

    def _piece(self, html: str) -> None:
        size = len(html.encode(errors="replace"))
        if self._size + size > LARGEST:
            self._cut = True
        elif html:
            self._pieces.append(html)
            self._size += size


def _html(section: BodySection, text: str) -> str:
    match section.kind:
        case "code":
            return f'<pre class="code"><code>{code_html(text, section.name or "")}</code></pre>'
        case "note":
            return f'<p class="note dim">{escaped(text)}</p>'
    return f'<pre class="term">{terminal_html(text)}</pre>'
