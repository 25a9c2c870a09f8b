"""HTML to Markdown in one pass over the tags: no tree and no recursion, so deeply nested pages cost nothing extra.

Invariants: work and memory are linear in the page; tables nest to a fixed depth, because the lines of a cell are copied
into the table around it, and rows are not padded."""

from __future__ import annotations

from html.parser import HTMLParser

from holdfast.core.html.document import CONTAINERS, SPACES, Attributes, Document, Span, attribute
from holdfast.core.html.text import HIDDEN

TABLE_DEPTH = 4
"""Deeper tables are written as paragraphs."""

_NOT_PROSE = HIDDEN | {"template", "title", "svg"}
_SPANS: dict[str, Span] = {
    "b": "strong",
    "strong": "strong",
    "i": "em",
    "em": "em",
    "s": "del",
    "strike": "del",
    "del": "del",
    "code": "code",
    "kbd": "code",
    "samp": "code",
    "tt": "code",
    "a": "a",
}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_CELLS = frozenset(("td", "th"))


def to_markdown(page: str) -> str:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.finish()


class _Reader(HTMLParser):
    """Turns tags into calls on the innermost document: the page itself, or the table cell that is open."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._page = self._document = Document()
        self._tables: list[_Table] = []
        self._flat_tables = 0
        self._hidden = 0

    def finish(self) -> str:
        while self._tables:
            self._end_table()
        return "\n".join(self._page.finish())

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        if tag in _NOT_PROSE:
            self._hidden += 1
        if self._hidden:
            return
        document = self._document
        if document.in_fence:
            document.start_in_fence(tag, attrs)
        elif (span := _SPANS.get(tag)) is not None:
            document.start_span(span, attribute(attrs, "href") if span == "a" else None)
        elif tag == "img":
            document.image(attribute(attrs, "alt"), attribute(attrs, "src"))
        elif tag == "br":
            document.line_break()
        elif tag == "pre":
            document.start_fence(attrs)
        elif tag == "hr":
            document.rule()
        elif tag in _HEADINGS:
            document.start_heading(_HEADINGS[tag])
        elif tag in CONTAINERS:
            document.start_container(tag, attrs)
        elif tag == "table":
            self._start_table()
        elif self._tables and not self._flat_tables and (tag == "tr" or tag in _CELLS):
            self._start_cell(tag)
        else:
            document.boundary(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _NOT_PROSE:
            self._hidden = max(0, self._hidden - 1)
            return
        if self._hidden:
            return
        document = self._document
        if tag == "pre":
            document.end_fence()
        elif document.in_fence:
            document.line_in_fence(tag)
        elif tag == "table":
            self._end_table()
        elif (span := _SPANS.get(tag)) is not None:
            document.end_span(span)
        elif tag in _HEADINGS:
            document.end_heading()
        elif tag in CONTAINERS:
            document.end_container(tag)
        elif tag != "br":
            document.boundary(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._document.text(data)

    def _start_table(self) -> None:
        self._document.flush()
        if len(self._tables) == TABLE_DEPTH:
            self._flat_tables += 1
        else:
            self._tables.append(_Table(self._document))

    def _start_cell(self, tag: str) -> None:
        self._document = self._tables[-1].start(tag)

    def _end_table(self) -> None:
        if self._flat_tables:
            self._flat_tables -= 1
            self._document.flush()
        elif self._tables:
            table = self._tables.pop()
            self._document = table.outer
            table.write()


class _Table:
    """Rows of cells, each a document. Written as a table if all cells are plain, otherwise cell by cell as blocks."""

    def __init__(self, outer: Document) -> None:
        self.outer = outer
        self._rows: list[list[Document]] = []

    def start(self, tag: str) -> Document:
        """The document for what follows the start tag of a row or a cell."""
        if tag == "tr" or not self._rows:
            self._rows.append([])
        if tag == "tr":
            return self.outer
        cell = Document()
        self._rows[-1].append(cell)
        return cell

    def write(self) -> None:
        self.outer.flush()
        for row in self._rows:
            for cell in row:
                cell.finish()
        rows = [row for row in self._rows if any(cell.lines for cell in row)]
        cells = [cell for row in rows for cell in row]
        columns = max(map(len, rows), default=0)
        if columns > 1 and all(cell.plain for cell in cells):
            header, *others = ([_cell_text(cell) for cell in row] for row in rows)
            header += [""] * (columns - len(header))
            written = [header, ["---"] * columns, *others]
            self.outer.block([f"| {' | '.join(row)} |" for row in written])
        else:
            for cell in cells:
                if cell.lines:
                    self.outer.block(cell.lines)
        self.outer.plain = self.outer.plain and not cells


def _cell_text(cell: Document) -> str:
    return SPACES.sub(" ", " ".join(cell.lines)).strip().replace("|", "\\|")
