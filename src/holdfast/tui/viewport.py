"""Which lines of a conversation are visible. Positions are passages, not numbers of lines, so that nothing has to be
rendered but what is seen and what is scrolled over.

Invariants
- Without an anchor the end is shown, whatever is added to it.
- With an anchor the same passage stays at the top, whatever is added before or after it. It is given up when the end
  becomes visible, except after something was unfolded: what is below it may still be loading."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from holdfast.tui.passages import is_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.tui.conversation import Conversation
    from holdfast.tui.lines import Line
    from holdfast.tui.passages import Drawable, Passage, Target

BLOCKS_KEPT = 400
"""Blocks that keep their lines after they were drawn."""
WIDEST = 120
"""Columns that are used: longer lines are hard to read."""
NEAR = 5
"""Entries from the first at which older ones are asked for."""


class Anchor(NamedTuple):
    """A line: that of a passage of an entry."""

    entry_id: str
    key: str
    row: int


class Place(NamedTuple):
    """A passage, by the index of its entry and its own."""

    entry: int
    passage: int


class Row(NamedTuple):
    line: Line
    anchor: Anchor
    target: Target | None = None
    """What a click on it folds and unfolds."""
    wants: Target | None = None


class Viewport:
    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.anchor: Anchor | None = None
        self.selected: Target | None = None
        self.width = 80
        self.height = 24
        self.rows: list[Row] = []
        """What was drawn last."""
        self.at_end = True
        """Whether the end is visible."""
        self._seen = 0
        """The news of the conversation when its end was visible."""
        self._pinned = False
        self._to_top = False
        self._blocks: OrderedDict[int, Drawable] = OrderedDict()

    @property
    def new_below(self) -> int:
        """How many entries and parts were added since the end was visible."""
        return 0 if self.at_end else self.conversation.news - self._seen

    @property
    def wants_older(self) -> bool:
        """Whether older entries are about to be seen."""
        if self.conversation.older is None:
            return False
        if self._to_top or not self.rows:
            return True
        index = self.conversation.index_of(self.rows[0].anchor.entry_id)
        return index is None or index < NEAR

    def draw(self, width: int, height: int) -> list[Row]:
        """The visible rows: as many as there is room for, fewer if there are not more."""
        self.width, self.height = max(1, min(width, WIDEST)), max(1, height)
        if self._to_top:
            self._anchor_at_first()
        start = self._find(self.anchor) if self.anchor is not None else None
        rows: list[Row] = []
        if start is not None and self.anchor is not None:
            rows = self._forward(start, self.anchor.row, self.height + 1)
        self.at_end = len(rows) <= self.height and not (self._to_top and rows)
        if self.at_end:
            if start is None or not self._pinned:
                self.anchor = None
            rows = self._backward(self.height)
            self._seen = self.conversation.news
        rows = rows[: self.height]
        self.rows = rows
        self.conversation.is_at_end = self.at_end
        self._free()
        return rows

    def scroll(self, lines: int) -> None:
        """Down, or up if it is negative."""
        if not self.rows:
            return
        self._to_top = self._pinned = False
        if lines < 0:
            self._up(-lines)
        elif not self._down(lines):
            self.go_end()

    def go_home(self) -> None:
        """To the first entry that there is, and on while older ones are added."""
        self._to_top = self.conversation.older is not None
        self._anchor_at_first()

    def go_end(self) -> None:
        self.anchor, self._to_top, self._pinned = None, False, False

    def toggle(self, target: Target) -> None:
        """Fold or unfold something. Its line stays where it is, unless there is too little room below it."""
        if self.rows:
            self.anchor, self._pinned = self.rows[0].anchor, True
        at = next((number for number, row in enumerate(self.rows) if row.target == target), 0)
        if self.conversation.folds.toggle(target) and at > self.height * 2 // 3:
            self._down(at - self.height // 3)

    def select(self, step: int) -> None:
        """Move the cursor to the next thing that can be unfolded, or with -1 to the one before."""
        self._to_top = False
        at = self._place_of(self.selected) if self.selected is not None else None
        if at is None:
            shown = [row.target for row in self.rows if row.target is not None]
            if shown:
                self.selected = shown[0] if step > 0 else shown[-1]
                return
            at = self._find(self.rows[0].anchor) if self.rows else None
        if at is None:
            return
        for place in self._after(at) if step > 0 else self._before(at):
            if (target := self._passage(place).target) is not None:
                self.selected = target
                self._reveal(place)
                return

    def _reveal(self, place: Place) -> None:
        """Scroll as little as possible until the first line of a passage is visible."""
        shown = [row.target for row in self.rows]
        if self._passage(place).target in shown:
            return
        anchor = self._anchor(place, 1 if self._has_gap(place) else 0)
        first = self._find(self.rows[0].anchor) if self.rows else None
        self.anchor = anchor
        if first is not None and place > first:  # below what is visible: it becomes the last line
            self.rows = [Row([], anchor)]
            self._up(max(0, self.height - 2))  # the very last line tells what is below

    def _up(self, lines: int) -> None:
        anchor = self.rows[0].anchor
        at = self._find(anchor)
        if at is None:
            return
        row = anchor.row
        while lines > row:
            before = next(self._before(at), None)
            if before is None:
                lines = row
                break
            lines -= row
            at = before
            row = len(self._rows(at))
        self.anchor = self._anchor(at, row - lines)

    def _down(self, lines: int) -> bool:
        """Whether there are so many lines."""
        anchor = self.anchor or self.rows[0].anchor
        at = self._find(anchor)
        row = anchor.row + lines
        while at is not None and row >= (size := len(self._rows(at))):
            row -= size
            at = next(self._after(at), None)
        if at is not None:
            self.anchor = self._anchor(at, row)
        return at is not None

    def _forward(self, start: Place, row: int, most: int) -> list[Row]:
        rows = self._drawn(start)[row:]
        for place in self._after(start):
            if len(rows) >= most:
                break
            rows += self._drawn(place)
        return rows

    def _backward(self, most: int) -> list[Row]:
        passages: list[list[Row]] = []
        count = 0
        for place in self._before(Place(len(self.conversation.entries), 0)):
            passages.append(self._drawn(place))
            count += len(passages[-1])
            if count >= most:
                break
        return [row for passage in reversed(passages) for row in passage][-most:]

    def _drawn(self, place: Place) -> list[Row]:
        passage = self._passage(place)
        entry_id = self.conversation.entries[place.entry].id
        gap = 1 if self._has_gap(place) else 0
        return [
            Row(
                line,
                Anchor(entry_id, passage.key, number),
                passage.target if number == gap else None,
                passage.wants if number == gap else None,
            )
            for number, line in enumerate(self._rows(place))
        ]

    def _rows(self, place: Place) -> list[Line]:
        passage = self._passage(place)
        self._blocks[id(passage.content)] = passage.content
        self._blocks.move_to_end(id(passage.content))
        rows = passage.rows(self.width, self.conversation.marks)
        return [[], *rows] if self._has_gap(place) and not passage.gap else rows

    def _has_gap(self, place: Place) -> bool:
        passage = self._passage(place)
        if place.passage or passage.gap:
            return passage.gap
        before = next(self._before(place), None)
        return before is not None and is_apart(self._passage(before).kind, passage.kind)

    def _passage(self, place: Place) -> Passage:
        return self.conversation.passages(place.entry)[place.passage]

    def _after(self, place: Place) -> Iterator[Place]:
        number = place.passage + 1
        for entry in range(place.entry, len(self.conversation.entries)):
            passages = self.conversation.passages(entry)
            while number < len(passages):
                yield Place(entry, number)
                number += 1
            number = 0

    def _before(self, place: Place) -> Iterator[Place]:
        for number in range(place.passage - 1, -1, -1):
            yield Place(place.entry, number)
        for entry in range(place.entry - 1, -1, -1):
            for number in range(len(self.conversation.passages(entry)) - 1, -1, -1):
                yield Place(entry, number)

    def _find(self, anchor: Anchor | None) -> Place | None:
        """Where a passage is now; if it is folded, where what it belongs to is."""
        if anchor is None or (entry := self.conversation.index_of(anchor.entry_id)) is None:
            return None
        passages = self.conversation.passages(entry)
        for key in (anchor.key, anchor.key.partition("/")[0].partition(":")[0]):
            for number, passage in enumerate(passages):
                if passage.key == key:
                    return Place(entry, number)
        return Place(entry, len(passages) - 1) if passages else None

    def _place_of(self, target: Target) -> Place | None:
        top = target.message_id
        entry = self.conversation.index_of(top)
        entries = [entry] if entry is not None else self._visible_entries()
        for index in entries:
            for number, passage in enumerate(self.conversation.passages(index)):
                if passage.target == target:
                    return Place(index, number)
        return None

    def _visible_entries(self) -> list[int]:
        ids = dict.fromkeys(row.anchor.entry_id for row in self.rows)
        return [index for id in ids if (index := self.conversation.index_of(id)) is not None]

    def _anchor(self, place: Place, row: int) -> Anchor:
        return Anchor(self.conversation.entries[place.entry].id, self._passage(place).key, row)

    def _anchor_at_first(self) -> None:
        if self.conversation.older is None:
            self._to_top = False
        first = next(self._after(Place(0, -1)), None)
        self.anchor = self._anchor(first, 0) if first is not None else None

    def _free(self) -> None:
        while len(self._blocks) > BLOCKS_KEPT:
            self._blocks.popitem(last=False)[1].forget()
