"""Which parts of a prompt's text come from where, if the template of a command was filled in.

Invariants
- Nothing in the output of a command is a mention.
- A template of an untrusted project can mention only files of the project. What the caller wrote in the arguments is
  the caller's own, whatever the template is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.prompt import Source

    Span = tuple[int, int]

MASK = "|"
"""A character that ends a mention and may stand before one."""


class FilledTemplate(Frozen):
    """Spans of characters of the text, each list in ascending order. Everything else is the template's."""

    arguments: tuple[tuple[int, int], ...] = ()
    output: tuple[tuple[int, int], ...] = ()
    trusted: bool = True
    """False for a template of an untrusted project."""
    resolves_arguments: bool = True
    """Whether the caller asks to resolve mentions in the arguments."""

    def without_output(self, text: str) -> str:
        """The text with the output of commands made unreadable, of the same length."""
        parts: list[str] = []
        end = 0
        for start, stop in self.output:
            parts += (text[end:start], MASK * (stop - start))
            end = stop
        return "".join((*parts, text[end:]))

    def may_mention(self, source: Source) -> bool:
        """Whether a mention at this place counts."""
        if _overlaps(self.output, source):
            return False
        return self.resolves_arguments or not _overlaps(self.arguments, source)

    def is_confined(self, source: Source) -> bool:
        """Whether a mention at this place may name only files of the project."""
        return not self.trusted and not _covers(self.arguments, source)


def _overlaps(spans: Sequence[Span], source: Source) -> bool:
    """Whether one of the spans has a character of the source."""
    last = bisect_left(spans, source.end, key=_start) - 1
    return last >= 0 and spans[last][1] > source.start


def _covers(spans: Sequence[Span], source: Source) -> bool:
    """Whether one of the spans has every character of the source."""
    last = bisect_right(spans, source.start, key=_start) - 1
    return last >= 0 and spans[last][1] >= source.end


def _start(span: Span) -> int:
    return span[0]
