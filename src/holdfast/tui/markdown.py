"""Markdown as lines of a terminal. Raw HTML in it is text, images are their labels, and the targets of links are shown.

Line breaks inside a paragraph stay: models write lists of short lines that way. Text is made safe after it was parsed,
because an entity such as `&#27;` is a control character only then."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from holdfast.schema.pattern import pattern
from holdfast.tui.code import code_lines
from holdfast.tui.lines import columns, indented, safe_line, wrap
from holdfast.tui.markdown_table import table_lines
from holdfast.tui.style import UNICODE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

    from holdfast.tui.lines import Fragment, Line
    from holdfast.tui.style import Marks

TARGET = 200
"""Characters of the target of a link."""
NARROWEST = 12
"""Below this width nothing is indented."""
NESTING = 100
"""Lists and quotes inside each other, of which a list counts twice."""
INLINE_NESTING = 10
"""Links and emphasis inside each other; what is deeper is text. Hostile text takes time in proportion to it."""
_DEEP = pattern(r"^(?:[ \t]*(?:[>*+-]|\d{1,9}[.)])(?=[ \t>]|$)){25,}|^[ \t]{80,}(?:[>*+-]|\d{1,9}[.)])", re.MULTILINE)
"""Deeper than that, or nearly."""
_INLINE = {"strong_open": "class:md.strong", "em_open": "class:md.em", "s_open": "class:md.strike"}


def markdown_lines(text: str, width: int, marks: Marks = UNICODE, *, number: int | None = None) -> list[Line]:
    """Hostile text is safe here: control characters are shown. `number` is that of the first item of a numbered list
    that the text begins with, if it is not the one that is written."""
    if _DEEP.search(text):  # the parser would leave out what is inside
        return code_lines(text.rstrip("\n"), width)
    return _Renderer(_parser().parse(text), marks, number).blocks(width)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False})
    parser.enable(["table", "strikethrough"])
    parser.disable("reference")  # definitions are shown as they are: their links may be in other parts of a text
    parser.core.ruler.before("block", "blocks_nest", _nests(NESTING))
    parser.core.ruler.before("inline", "inlines_nest", _nests(INLINE_NESTING))
    parser.validateLink = lambda url: True  # type: ignore[method-assign] # targets are shown, not followed
    return parser


def _nests(limit: int) -> Callable[[StateCore], None]:
    def set_limit(state: StateCore) -> None:
        state.md.options["maxNesting"] = limit

    return set_limit


class _Renderer:
    """Reads tokens from the first to the last. Containers call `blocks` for what is inside them."""

    def __init__(self, tokens: Sequence[Token], marks: Marks, number: int | None) -> None:
        self._tokens = tokens
        self._marks = marks
        self._number = number
        self._at = 0
        self._depth = 0
        """Of lists."""

    def blocks(self, width: int, *, tight: bool = False) -> list[Line]:
        """The blocks up to the end of the container."""
        lines: list[Line] = []
        after_heading = True
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.nesting < 0:
                break
            block = self._block(token, width)
            if lines and block and not after_heading and not (tight and token.type in _TIGHT):
                lines.append([])
            lines += block
            after_heading = token.type == "heading_open"
        return lines

    def _block(self, token: Token, width: int) -> list[Line]:
        match token.type:
            case "paragraph_open":
                return self._paragraph(width, "")
            case "heading_open":
                return self._paragraph(width, f"class:md.h{min(3, int(token.tag[1:]))}")
            case "fence" | "code_block":
                language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
                inner, indent = _nested(width, "  ")
                return indented(code_lines(token.content.removesuffix("\n"), inner, language), [("", indent)])
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, width)
            case "blockquote_open":
                inner, bar = _nested(width, f"{self._marks.gutter} ")
                quoted = self.blocks(inner)
                return [
                    [("class:gutter", bar), *((f"class:md.quote {own}".rstrip(), text) for own, text in line)]
                    for line in quoted
                ]
            case "hr":
                return [[("class:md.rule", self._marks.rule * min(width, 40))]]
            case "table_open":
                return self._table(width)
            case "inline":
                return self._wrapped(token, width, "")
        if token.content:
            return wrap([("", safe_line(token.content))], width)
        return []

    def _paragraph(self, width: int, style: str) -> list[Line]:
        inline = self._tokens[self._at]
        self._at += 2
        return self._wrapped(inline, width, style)

    def _wrapped(self, inline: Token, width: int, style: str) -> list[Line]:
        return [line for part in self._inline(inline, style) for line in wrap(part, width)]

    def _list(self, opening: Token, width: int) -> list[Line]:
        ordered = opening.type == "ordered_list_open"
        number = int(opening.attrGet("start") or 1) if ordered else 0
        if ordered and self._number is not None:
            number, self._number = self._number, None
        bullet = self._marks.inner_bullet if self._depth % 2 else self._marks.bullet
        items = self._count_items()
        digits = len(str(number + items - 1)) if ordered else 0
        self._depth += 1
        lines: list[Line] = []
        loose = self._is_loose()
        while self._tokens[self._at].type == "list_item_open":
            self._at += 1
            sign = f"{number:>{digits}}. " if ordered else f"{bullet} "
            inner, sign = _nested(width, sign)
            item = self.blocks(inner, tight=not loose)
            if lines and loose:
                lines.append([])
            lines += indented(item or [[]], [("class:md.bullet", sign)], [("", " " * columns(sign))])
            number += 1
        self._at += 1
        self._depth -= 1
        return lines

    def _count_items(self) -> int:
        level = self._tokens[self._at].level
        count = 0
        for token in self._tokens[self._at :]:
            if token.level < level:
                break
            count += token.type == "list_item_open" and token.level == level
        return count

    def _is_loose(self) -> bool:
        """A tight list has hidden paragraphs."""
        level = self._tokens[self._at].level
        for token in self._tokens[self._at :]:
            if token.level < level:
                break
            if token.type == "paragraph_open" and token.level == level + 1:
                return not token.hidden
        return False

    def _table(self, width: int) -> list[Line]:
        rows: list[list[list[Fragment]]] = []
        aligned: list[str] = []
        while (token := self._tokens[self._at]).type != "table_close":
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                if len(rows) == 1:
                    aligned.append(str(token.attrGet("style") or "").removeprefix("text-align:"))
                style = "class:md.head" if token.type == "th_open" else ""
                cell = self._inline(self._tokens[self._at + 1], style)
                rows[-1].append([fragment for part in cell for fragment in part])
            self._at += 1
        self._at += 1
        return table_lines(rows, aligned, width, self._marks)

    def _inline(self, token: Token, style: str) -> list[list[Fragment]]:
        """The lines of a paragraph, not yet wrapped."""
        lines: list[list[Fragment]] = [[]]
        styles = [style] if style else []
        targets: list[str] = []
        label = ""
        for child in token.children or ():
            kind = child.type
            if kind in ("softbreak", "hardbreak"):
                lines.append([])
                continue
            if kind in _INLINE:
                styles.append(_INLINE[kind])
            elif kind == "link_open":
                styles.append("class:md.link")
                targets.append(str(child.attrGet("href") or ""))
                label = ""
            elif kind == "link_close":
                styles.pop()
                lines[-1] += _target(targets.pop() if targets else "", label)
            elif child.nesting < 0:
                styles.pop()
            elif kind == "image":
                shown = safe_line(child.content) or "image"
                lines[-1].append((" ".join([*styles, "class:md.link"]), shown))
                lines[-1] += _target(str(child.attrGet("src") or ""), shown)
            elif child.content:
                shown = safe_line(child.content)
                label += shown
                own = [*styles, "class:md.code"] if kind == "code_inline" else styles
                lines[-1].append((" ".join(own), shown))
        return lines


def _target(target: str, label: str) -> list[Fragment]:
    """The target of a link after its label, unless that is the target."""
    shown = safe_line(target)
    if not shown or shown.removeprefix("mailto:") == label:
        return []
    if len(shown) > TARGET:
        shown = shown[: TARGET - 1] + "…"
    return [("class:md.target", f" ({shown})")]


def _nested(width: int, indent: str) -> tuple[int, str]:
    """The width inside a container, and what is before its lines; nothing if there is no room."""
    inner = width - columns(indent)
    return (inner, indent) if inner >= NARROWEST else (width, "")


_TIGHT = ("paragraph_open", "bullet_list_open", "ordered_list_open")
