"""Replaces text for the `edit` tool: exact matches or, if there are none, one region of whole lines that matches under
looser comparisons.

Invariants
- Positions are found in a view of the text with LF line endings and mapped back, so text that is not replaced keeps its
  bytes. Inserted lines get the line ending of the first replaced line.
- A looser comparison counts only if it matches exactly one region."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.core.filesystem.line_index import LineIndex
from holdfast.core.filesystem.text import dominant_ending, stripped_ascii, to_lf
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Find = Callable[[LineIndex, list[str], list[str], str], list["Region"]]

NOT_FOUND = "oldString was not found; copy the file's text exactly, whitespace included."
SEVERAL = "oldString matches {count} places; add neighbouring lines or use replaceAll."
AMBIGUOUS = (
    "oldString was not found exactly, and {way} it fits several places, at lines {lines}; add neighbouring lines."
)
CLOSEST = "Closest:"

MAX_LISTED = 5
MAX_CLOSEST = 3
MAX_COMPARED = 5000
MAX_TOKENS = 1000
MAX_ANCHORED = 50
MIN_ANCHORED_LINES = 3
MIN_SIMILARITY = 0.8
MAX_GROWTH = 2


class TextNotMatched(Exception):
    """The text to replace was not found, or found more than once; the message tells the model what to change."""

    def __init__(self, reason: str, nearby: str = "") -> None:
        """`nearby` quotes the file."""
        super().__init__(reason + nearby)
        self.reason = reason


class Replaced(Frozen):
    content: str
    replacements: int
    way: str | None
    """The looser comparison that matched; None for an exact match."""


class Region(Frozen):
    """Whole lines of the view, and their replacement."""

    first: int
    end: int
    """The first line after the region."""
    new: str


def replace(content: str, old: str, new: str, *, every: bool = False) -> Replaced:
    view = View(content)
    old, new = to_lf(old), to_lf(new)
    spots = list(_exact(view.text, old))
    if len(spots) > 1 and not every:
        raise TextNotMatched(SEVERAL.format(count=len(spots)))
    if spots:
        return Replaced(view.splice([(spot, spot + len(old), new) for spot in spots]), len(spots), None)
    if every:
        raise TextNotMatched(NOT_FOUND)
    way, region = _loosely(view, old, new)
    return Replaced(view.splice([view.span(region, ends=old.endswith("\n"))]), 1, way)


class View:
    """A text with LF line endings, and the positions of the original CRLF endings."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.text = to_lf(content)
        # Positions in the view of line feeds that are CRLF in the content.
        self._crlf = [found.start() - index for index, found in enumerate(re.finditer("\r\n", content))]
        self._default = dominant_ending(content)

    def splice(self, changes: Sequence[tuple[int, int, str]]) -> str:
        """The content with (start, end, new) spans of the view replaced. Spans are sorted and do not overlap."""
        parts: list[str] = []
        position = 0
        for start, end, new in changes:
            parts += [self.content[position : self._real(start)], new.replace("\n", self._ending(start))]
            position = self._real(end)
        return "".join([*parts, self.content[position:]])

    def span(self, region: Region, *, ends: bool) -> tuple[int, int, str]:
        """A region as a span. `ends`: include the line ending of its last line, as the searched text did."""
        starts = self.starts
        start, end = starts[region.first], starts[region.end]
        if self.text[end - 1 : end] != "\n":
            return start, end, region.new.removesuffix("\n") if ends else region.new
        return (start, end, region.new) if ends else (start, end - 1, region.new)

    @property
    def lines(self) -> list[str]:
        lines = self.text.split("\n")
        return lines if lines[-1] else lines[:-1]

    @property
    def starts(self) -> list[int]:
        """The start of each line, and the end of the text."""
        starts = [0]
        for line in self.lines:
            starts.append(min(starts[-1] + len(line) + 1, len(self.text)))
        return starts

    def _real(self, position: int) -> int:
        return position + bisect_left(self._crlf, position)

    def _ending(self, position: int) -> str:
        """The line ending of the line at this position."""
        end = self.text.find("\n", position)
        if end < 0:
            return self._default
        index = bisect_left(self._crlf, end)
        return "\r\n" if index < len(self._crlf) and self._crlf[index] == end else "\n"


def _exact(text: str, old: str) -> Iterator[int]:
    position = text.find(old)
    while position >= 0:
        yield position
        position = text.find(old, position + len(old))


def _loosely(view: View, old: str, new: str) -> tuple[str, Region]:
    """Use the first comparison that matches anything."""
    lines = view.lines
    index = LineIndex(lines)
    wanted = _lines(old)
    if any(line.strip() for line in wanted):
        for way, find in _WAYS.items():
            regions = find(index, lines, wanted, new)
            if len(regions) > 1:
                listed = ", ".join(str(region.first + 1) for region in regions[:MAX_LISTED])
                raise TextNotMatched(AMBIGUOUS.format(way=way, lines=listed))
            if regions and regions[0].end - regions[0].first <= MAX_GROWTH * len(wanted):
                return way, regions[0]
    raise TextNotMatched(NOT_FOUND, _closest(lines, wanted))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _normalized(normalize: Callable[[str], str]) -> Find:
    def find(index: LineIndex, lines: list[str], wanted: list[str], new: str) -> list[Region]:
        found = islice(index.find_all(wanted, normalize), MAX_LISTED)
        return [Region(first, first + len(wanted), new) for first in found]

    return find


def _by_indentation(index: LineIndex, lines: list[str], wanted: list[str], new: str) -> list[Region]:
    """The same block with another indentation; the replacement is indented likewise."""
    regions: list[Region] = []
    for first in islice(index.find_all(wanted, str.strip), MAX_ANCHORED):
        block = lines[first : first + len(wanted)]
        if _dedented(block) == _dedented(wanted):
            regions.append(Region(first, first + len(wanted), _indented(new, _indent(wanted), _indent(block))))
    return regions


def _dedented(lines: list[str]) -> list[str]:
    indent = len(_indent(lines))
    return [line[indent:].rstrip() for line in lines]


def _indent(lines: list[str]) -> str:
    """The common indentation of all lines that are not blank."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    low, high = min(indents, default=""), max(indents, default="")
    common = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:common]


def _indented(new: str, old_indent: str, indent: str) -> str:
    lines = new.split("\n")
    filled = [line for line in lines if line.strip()]
    strip = old_indent if all(line.startswith(old_indent) for line in filled) else _indent(filled)
    return "\n".join(indent + line[len(strip) :] if line.strip() else line for line in lines)


def _unescaped(index: LineIndex, lines: list[str], wanted: list[str], new: str) -> list[Region]:
    plain = _lines(_unescape("\n".join(wanted)))
    if plain == wanted:
        return []
    found = islice(index.find_all(plain, str), MAX_LISTED)
    return [Region(first, first + len(plain), _unescape(new)) for first in found]


def _unescape(text: str) -> str:
    return re.sub(r'\\([nt"])', lambda found: {"n": "\n", "t": "\t", '"': '"'}[found[1]], text)


def _anchored(index: LineIndex, lines: list[str], wanted: list[str], new: str) -> list[Region]:
    """Blocks with the same first and last line whose inner lines are similar."""
    if len(wanted) < MIN_ANCHORED_LINES:
        return []
    regions: dict[int, tuple[float, Region]] = {}
    for first, last in islice(_anchors(index, lines, wanted), MAX_ANCHORED):
        similarity = _similarity(wanted[1:-1], lines[first + 1 : last])
        if similarity >= max(MIN_SIMILARITY, regions[first][0] if first in regions else 0.0):
            regions[first] = similarity, Region(first, last + 1, new)
    return [region for _, region in regions.values()]


def _anchors(index: LineIndex, lines: list[str], wanted: list[str]) -> Iterator[tuple[int, int]]:
    for first in islice(index.find_all(wanted[:1], str.strip), MAX_ANCHORED):
        for last in range(first + MIN_ANCHORED_LINES - 1, min(first + MAX_GROWTH * len(wanted), len(lines))):
            if lines[last].strip() == wanted[-1].strip():
                yield first, last


def _similarity(a: Sequence[str], b: Sequence[str]) -> float:
    """Compares words and punctuation marks, which is cheaper than characters."""
    left, right = (re.findall(r"\w+|[^\w\s]", "\n".join(lines)) for lines in (a, b))
    if max(len(left), len(right)) > MAX_TOKENS:
        return 0.0
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


def _collapsed(line: str) -> str:
    return " ".join(line.split())


_WAYS: dict[str, Find] = {
    "ignoring indentation": _by_indentation,
    "ignoring whitespace around lines": _normalized(str.strip),
    "ignoring the amount of whitespace": _normalized(_collapsed),
    "reading escapes": _unescaped,
    "by its first and last line": _anchored,
    "ignoring typographic characters": _normalized(stripped_ascii),
}


def _closest(lines: list[str], wanted: list[str]) -> str:
    """The lines most similar to the first wanted line, as a hint for the model."""
    anchor = next((line.strip() for line in wanted if line.strip()), "")[:240]
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(anchor)
    rated: list[tuple[float, int]] = []
    for number, line in enumerate(lines[:MAX_COMPARED], 1):
        matcher.set_seq1(line.strip()[:240])
        if matcher.real_quick_ratio() >= 0.6 and matcher.quick_ratio() >= 0.6 and (ratio := matcher.ratio()) >= 0.6:
            rated.append((-ratio, number))
    found = sorted(rated)[:MAX_CLOSEST]
    return "".join([f" {CLOSEST}", *(f"\n{number}: {lines[number - 1][:240]}" for _, number in found)]) if found else ""
