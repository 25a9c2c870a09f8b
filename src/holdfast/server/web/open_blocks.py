"""Text that is being written, as finished Markdown blocks and an open tail. A finished block is rendered once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.schema.view import Block
from holdfast.server.render.ansi import plain
from holdfast.server.render.markdown import block_starts, markdown_html
from holdfast.server.render.text import encodable, escaped, visible

if TYPE_CHECKING:
    from holdfast.schema.view import BlockKind

MARKDOWN = frozenset({"text", "reasoning", "compaction"})
LOOKED_AGAIN = 16
"""The blocks of a tail are looked for again when it has grown by this fraction: the time stays proportional."""
LARGE = 20_000
"""Characters of a block that is shown as plain text until the whole text is there, because rendering it takes long."""
KEPT = 20_000
"""Characters at the end of a text that is no Markdown."""
MOVES = "\x1b\r\b\x9b"
"""Characters with which a program changes what it has written."""


class OpenBlock:
    """One text. `take` gives what changed since it was called last."""

    def __init__(self, message_id: str, part_id: str, kind: BlockKind, begun: str = "") -> None:
        self.message_id = message_id
        self.part_id = part_id
        self.kind: BlockKind = kind
        self._index = 0
        """Of the tail."""
        self._tail = ""
        self._new = begun
        self._looked = 0
        """The length of the tail when it was last searched for blocks."""
        self._shown = False
        """Whether the page has the tail."""

    def add(self, text: str) -> None:
        self._new += text

    def take(self) -> list[Block]:
        if not self._new:
            return []
        new, self._new = self._new, ""
        self._tail += new
        if self.kind in MARKDOWN:
            return self._markdown(new)
        moved = any(character in new for character in MOVES)
        if len(self._tail) > KEPT:
            self._tail, moved = self._tail[-KEPT // 2 :], True
        return [self._rest(new, whole=moved)]

    def _markdown(self, new: str) -> list[Block]:
        finished = self._finished() if "\n" in new and self._has_grown() else []
        frames = [self._block(self._index + number, html=_rendered(text)) for number, text in enumerate(finished)]
        self._index += len(finished)
        if finished:
            self._shown = False
        if self._tail:
            frames.append(self._rest(new, whole=bool(finished)))
        return frames

    def _has_grown(self) -> bool:
        return len(self._tail) - self._looked > len(self._tail) // LOOKED_AGAIN

    def _finished(self) -> list[str]:
        """Takes all blocks but the last from the tail: only that one can still change."""
        lines = self._tail.split("\n")
        last = lines.pop()
        starts = block_starts("\n".join(lines))
        self._looked = len(self._tail)
        if len(starts) < 2:
            return []
        starts[0] = 0
        blocks = ["\n".join([*lines[start:end], ""]) for start, end in pairwise(starts)]
        self._tail = "\n".join([*lines[starts[-1] :], last])
        self._looked = len(self._tail)
        return blocks

    def _rest(self, new: str, *, whole: bool) -> Block:
        if whole or not self._shown:
            self._shown = True
            return self._block(self._index, text=visible(plain(self._tail)))
        return self._block(self._index, add=visible(plain(new)))

    def _block(self, index: int, html: str | None = None, text: str | None = None, add: str | None = None) -> Block:
        return Block(
            message_id=self.message_id,
            part_id=self.part_id,
            kind=self.kind,
            index=index,
            html=html,
            text=text,
            add=add,
        )


class PlainBlock:
    """One text as it is written, for readers that are no page. The first time `take` gives all of it."""

    def __init__(self, message_id: str, part_id: str, kind: BlockKind, begun: str = "") -> None:
        self.message_id = message_id
        self.part_id = part_id
        self.kind: BlockKind = kind
        self._new = begun
        self._shown = False

    def add(self, text: str) -> None:
        self._new += text

    def take(self) -> list[Block]:
        if not self._new:
            return []
        new, self._new = encodable(self._new), ""
        block = Block(
            message_id=self.message_id,
            part_id=self.part_id,
            kind=self.kind,
            index=0,
            text=None if self._shown else new,
            add=new if self._shown else None,
        )
        self._shown = True
        return [block]


def _rendered(text: str) -> str:
    return markdown_html(text) if len(text) <= LARGE else f"<pre>{escaped(encodable(text))}</pre>"
