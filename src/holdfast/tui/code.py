"""Source code as lines with colours."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from holdfast.text.highlighting import tokens
from holdfast.tui.lines import hard_wrap, safe

if TYPE_CHECKING:
    from pygments.token import _TokenType

    from holdfast.tui.lines import Line

SECONDS = 0.1
"""Of processor time; what is left then has no colours."""


def code_lines(text: str, width: int, language: str = "") -> list[Line]:
    """The lines, broken where they are wider than the width."""
    lines: list[Line] = []
    for line in coloured(text, language):
        lines += hard_wrap(line, width)
    return lines


def coloured(text: str, language: str = "") -> list[Line]:
    """The lines as they are, whatever their width."""
    lines: list[Line] = [[]]
    for kind, value in tokens(safe(text), language, SECONDS):
        _add(lines, _style(kind) if kind is not None else "class:code", value)
    return lines


def _add(lines: list[Line], style: str, text: str) -> None:
    first, *others = text.split("\n")
    if first:
        lines[-1].append((style, first))
    lines += [[(style, line)] if line else [] for line in others]


@cache
def _style(kind: _TokenType) -> str:
    from pygments.token import Comment, Error, Keyword, Name, Number, Operator, String

    styles = (
        (Comment, "comment"),
        (Keyword.Type, "type"),
        (Keyword, "keyword"),
        (Name.Function, "function"),
        (Name.Class, "type"),
        (Name.Exception, "type"),
        (Name.Builtin, "function"),
        (Name.Decorator, "function"),
        (Name.Tag, "keyword"),
        (Name.Attribute, "function"),
        (Number, "number"),
        (String, "string"),
        (Operator.Word, "keyword"),
        (Operator, "operator"),
        (Error, "error"),
        (Name, "name"),
    )
    ancestors = kind.split()
    name = next((name for above, name in styles if above in ancestors), "")
    return f"class:code.{name}" if name else "class:code"
