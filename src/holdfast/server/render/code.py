"""Source code as HTML with classes `hl-…`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from holdfast.server.render.text import escaped
from holdfast.text.highlighting import tokens

if TYPE_CHECKING:
    from pygments.token import _TokenType

PREFIX = "hl-"
SECONDS = 0.5
"""Of processor time; what is left then is not highlighted."""


def code_html(code: str, language: str) -> str:
    """The inside of `<pre><code>`."""
    parts: list[str] = []
    for kind, value in tokens(code.replace("\r\n", "\n"), language, SECONDS):
        name = _class(kind) if kind is not None and value.strip() else ""
        parts.append(f'<span class="{PREFIX}{name}">{escaped(value)}</span>' if name else escaped(value))
    return "".join(parts)


@cache
def classes() -> frozenset[str]:
    """Every class that highlighted code may have."""
    from pygments.token import STANDARD_TYPES

    return frozenset(PREFIX + name for name in STANDARD_TYPES.values() if name)


@cache
def _class(kind: _TokenType) -> str:
    """That of the nearest standard kind; empty for text."""
    from pygments.token import STANDARD_TYPES

    while (name := STANDARD_TYPES.get(kind)) is None and kind.parent is not None:
        kind = kind.parent
    return name or ""
