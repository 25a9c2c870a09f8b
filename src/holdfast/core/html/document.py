"""Lines of Markdown, written block by block while a page is read.

Invariants: work and memory are linear in what is written (markers are repeated to a fixed depth, at most one span of
each kind is open, the address of a link is written once). Text is escaped only at the start of a line, where it would
be read as a heading, a list or a quote."""

from __future__ import annotations

from typing import Literal

from holdfast.core.html.text import INLINE
from holdfast.schema.pattern import pattern

Attributes = list[tuple[str, str | None]]
Span = Literal["strong", "em", "del", "code", "a"]

PREFIX_DEPTH = 32
"""Deeper lists and quotes are written at this depth."""
CONTAINERS = frozenset(("ul", "ol", "menu", "li", "blockquote"))

_MARKS: dict[Span, str] = {"strong": "**", "em": "*", "del": "~~"}
SPACES = pattern(r"\s+")
_BACKQUOTES = pattern(r"`+")
_LANGUAGE = pattern(r"(?:^|\s)(?:language|lang|highlight-source)-([\w+#.-]{1,30})")
_STRUCTURE = pattern(r"(#{1,6}|[-+*])(?=\s|$)|>|~~~|```(?!.*`)|(?:=+|-{3,})\s*$")
_NUMBER = pattern(r"(\d{1,9})([.)](?:\s|$))")


class Document:
    """Blocks, each behind the markers of the lists and quotes that are open around it."""

    __slots__ = (
        "_containers",
        "_fence_code",
        "_fence_language",
        "_heading",
        "_open",
        "_pieces",
        "_shown",
        "_spans",
        "in_fence",
        "lines",
        "plain",
    )

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.plain = True
        """Only paragraphs so far, so it fits into a table row."""
        self.in_fence = False
        self._pieces: list[str] = []
        self._spans: list[_Span] = []
        self._heading = ""
        self._containers: list[_Container] = []
        self._shown: list[_Container] = []
        self._open: dict[str, int] = {}
        self._fence_code: list[str] = []
        self._fence_language = ""

    def finish(self) -> list[str]:
        self.end_fence()
        self.flush()
        return self.lines

    def text(self, data: str) -> None:
        if self.in_fence:
            self._fence_code.append(data)
            return
        data = SPACES.sub(" ", data)
        if not self._pieces or self._pieces[-1].endswith((" ", "\n")):
            data = data.lstrip(" ")
        if data:
            self._pieces.append(data)

    def boundary(self, tag: str) -> None:
        """The start or end of an element that has no Markdown form."""
        if "-" in tag:
            self.text(" ")  # a custom element: inline in a browser, and often the only thing between two words
        elif tag not in INLINE:
            self.flush()

    def line_break(self) -> None:
        if self._pieces:
            self._pieces.append("\n")

    def image(self, alternative: str, source: str) -> None:
        address = _address(source)
        if address:
            self._pieces.append(f"![{SPACES.sub(' ', alternative)}]({address})")
        else:
            self.text(alternative)

    def start_span(self, kind: Span, address: str | None) -> None:
        """At most one span of a kind is open, and none begins inside code; a repeated start only needs one more end."""
        if kind == "a":
            self.end_span("a")
        opened = self._span(kind)
        if opened is not None:
            opened.repeated += 1
        elif self._span("code") is None:
            self._spans.append(_Span(kind, len(self._pieces), address))

    def end_span(self, kind: Span) -> None:
        opened = self._span(kind)
        if opened is None:
            return
        if opened.repeated:
            opened.repeated -= 1
            return
        while True:
            span = self._spans.pop()
            self._write_span(span)
            if span is opened:
                return

    def start_heading(self, marker: str) -> None:
        self.flush()
        self._heading = marker

    def end_heading(self) -> None:
        self.flush()
        self._heading = ""

    def rule(self) -> None:
        self.flush()
        self.plain = False
        self.block(["---"])

    def start_container(self, tag: str, attributes: Attributes) -> None:
        self.flush()
        self.plain = False
        if tag == "li" and self._containers and self._containers[-1].tag == "li":
            self.end_container("li")  # its end tag is optional
        container = self._container(tag, attributes)
        self._containers.append(container)
        self._open[tag] = self._open.get(tag, 0) + 1
        if container.marker and len(self._shown) < PREFIX_DEPTH:
            self._shown.append(container)

    def end_container(self, tag: str) -> None:
        self.flush()
        while self._open.get(tag):
            ended = self._containers.pop()
            self._open[ended.tag] -= 1
            if self._shown and self._shown[-1] is ended:
                self._shown.pop()
            if ended.tag == tag:
                return

    def start_fence(self, attributes: Attributes) -> None:
        self.flush()
        self.plain = False
        self.in_fence = True
        self._fence_language = _language(attributes)

    def start_in_fence(self, tag: str, attributes: Attributes) -> None:
        if tag == "code":
            self._fence_language = self._fence_language or _language(attributes)
        elif tag == "br":
            self._fence_code.append("\n")
        else:
            self.line_in_fence(tag)

    def line_in_fence(self, tag: str) -> None:
        """Inside code, a block element starts a line."""
        if tag not in INLINE and self._fence_code and not self._fence_code[-1].endswith("\n"):
            self._fence_code.append("\n")

    def end_fence(self) -> None:
        if not self.in_fence:
            return
        code = "".join(self._fence_code).removeprefix("\n").rstrip()
        language, self._fence_language = self._fence_language, ""
        self.in_fence = False
        self._fence_code.clear()
        if code:
            fence = "`" * max(3, 1 + _longest_run(code))
            self.block([fence + language, *code.split("\n"), fence])

    def flush(self) -> None:
        """End the paragraph or heading; open emphasis continues in the next one."""
        if not self._pieces:
            for span in self._spans:
                span.begin = 0
            return
        going_on = [_Span(span.kind, 0, None) for span in self._spans if span.kind != "a"]
        while self._spans:
            self._write_span(self._spans.pop())
        text = "".join(self._pieces).strip()
        self._pieces.clear()
        self._spans = going_on
        if not text:
            return
        if self._heading:
            self.plain = False
            self.block([f"{self._heading} {SPACES.sub(' ', text)}"])
        else:
            *broken, last = text.split("\n")
            self.block(
                [*(f"{_escaped(line)}  " if line.strip() else "" for line in map(str.rstrip, broken)), _escaped(last)]
            )

    def block(self, lines: list[str]) -> None:
        """Write lines as one block, after an empty line unless they begin an item of a list that is already running."""
        shown = self._shown
        fresh = next((index for index, container in enumerate(shown) if not container.begun), len(shown))
        if self.lines and not (fresh < len(shown) and shown[fresh].tight):
            self.lines.append("".join(container.rest for container in shown[:fresh]).rstrip())
        first = "".join(container.rest if container.begun else container.marker for container in shown)
        rest = "".join(container.rest for container in shown)
        for container in shown:
            container.begun = True
        self.lines.append(first + lines[0])
        self.lines += [rest + line if line else rest.rstrip() for line in lines[1:]]

    def _container(self, tag: str, attributes: Attributes) -> _Container:
        if tag == "blockquote":
            return _Container(tag, marker="> ", rest="> ")
        if tag == "li":
            return _item(self._containers[-1] if self._containers else None)
        number = attribute(attributes, "start")
        first = int(number) if tag == "ol" and number.isascii() and number.isdigit() and len(number) < 9 else 1
        return _Container(tag, number=first, nested=self._open.get("li", 0) > 0)

    def _span(self, kind: Span) -> _Span | None:
        return next((span for span in self._spans if span.kind == kind), None)

    def _write_span(self, span: _Span) -> None:
        inner = "".join(self._pieces[span.begin :])
        core = inner.strip()
        if core:
            before = inner[: len(inner) - len(inner.lstrip())]
            after = inner[len(inner.rstrip()) :]
            self._pieces[span.begin :] = [piece for piece in (before, _span_text(span, core), after) if piece]


class _Span:
    """Emphasis, code or a link, from a place in the pieces of the paragraph."""

    __slots__ = ("address", "begin", "kind", "repeated")

    def __init__(self, kind: Span, begin: int, address: str | None) -> None:
        self.kind: Span = kind
        self.begin = begin
        self.address = address
        self.repeated = 0


class _Container:
    """An open list, item or quote. A list has no marker of its own; it counts and numbers its items."""

    __slots__ = ("begun", "items", "marker", "nested", "number", "rest", "tag", "tight")

    def __init__(
        self,
        tag: str,
        *,
        marker: str = "",
        rest: str = "",
        tight: bool = False,
        number: int = 1,
        nested: bool = False,
    ) -> None:
        self.tag = tag
        self.marker = marker
        self.rest = rest
        self.tight = tight
        self.number = number
        self.nested = nested
        self.begun = False
        self.items = 0


def _item(around: _Container | None) -> _Container:
    """The next item of a list, or of none."""
    if around is None or around.tag == "blockquote":
        return _Container("li", marker="- ", rest="  ", tight=True)
    marker = f"{around.number}. " if around.tag == "ol" else "- "
    item = _Container("li", marker=marker, rest=" " * len(marker), tight=around.nested or around.items > 0)
    around.number += 1
    around.items += 1
    return item


def _span_text(span: _Span, core: str) -> str:
    if span.kind == "code":
        core = SPACES.sub(" ", core)
        fence = "`" * (1 + _longest_run(core))
        pad = " " if core.startswith("`") or core.endswith("`") else ""
        return f"{fence}{pad}{core}{pad}{fence}"
    if span.kind == "a":
        address = _address(span.address or "")
        return f"[{core}]({address})" if address else core
    mark = _MARKS[span.kind]
    return f"{mark}{core}{mark}"


def _address(address: str) -> str:
    address = address.strip()
    if address.lower().startswith(("javascript:", "data:")):
        return ""
    address = SPACES.sub("%20", address)
    return f"<{address}>" if "(" in address or ")" in address else address


def _escaped(line: str) -> str:
    """Text at the start of a line that would be read as structure gets a backslash."""
    if _STRUCTURE.match(line):
        return "\\" + line
    return _NUMBER.sub(r"\1\\\2", line, count=1) if line[:1].isdigit() and _NUMBER.match(line) else line


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKQUOTES.findall(text)), default=0)


def _language(attributes: Attributes) -> str:
    found = _LANGUAGE.search(attribute(attributes, "class"))
    return found[1] if found else ""


def attribute(attributes: Attributes, name: str) -> str:
    return next((value for key, value in attributes if key == name and value), "")
