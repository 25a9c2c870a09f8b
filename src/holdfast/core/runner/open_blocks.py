"""The blocks of an answer that have begun and not ended, with the text that has arrived of each."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from holdfast.llm.text_buffer import TextBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.runner.open_answers import BlockKind


class OpenBlock:
    """One block. `kept` is how many characters of its text are in the store, which ends at `kept_mark`."""

    def __init__(self, kind: BlockKind, id: str) -> None:
        self.kind: BlockKind = kind
        self.id = id
        self.text = TextBuffer()
        self.kept = 0
        self.kept_mark = 0
        self.is_stored = False
        """Whether the store has rows of it, or may have."""


class OpenBlocks:
    """Blocks by kind, and then in the order in which they began. Raises ValueError for what no provider may send."""

    def __init__(self) -> None:
        self._blocks: dict[BlockKind, dict[str, OpenBlock]] = {"text": {}, "reasoning": {}, "input": {}}

    def begin(self, kind: BlockKind, id: str) -> None:
        blocks = self._blocks[kind]
        if id in blocks:
            raise ValueError(f"the provider started block {id} twice")
        blocks[id] = OpenBlock(kind, id)

    def add(self, kind: BlockKind, id: str, text: str) -> None:
        try:
            block = self._blocks[kind][id]
        except KeyError:
            raise _not_open(id) from None
        block.text.add(text)

    def end(self, kind: BlockKind, id: str) -> OpenBlock:
        """Remove a block."""
        try:
            return self._blocks[kind].pop(id)
        except KeyError:
            raise _not_open(id) from None

    def __iter__(self) -> Iterator[OpenBlock]:
        return chain.from_iterable(blocks.values() for blocks in self._blocks.values())


def _not_open(id: str) -> ValueError:
    return ValueError(f"the provider went on with block {id}, which is not open")
