"""A request body that grows with its conversation.

Everything before the open message never changes again: bytes are made once per message and only joined. The last one
stays open, because what follows in the same role belongs to it. Cache markers are not part of those bytes; they are
spliced in at remembered places when the body is sent, so they move without touching what came before."""

from __future__ import annotations

from collections import deque
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT_MARKS = 8
MARKED_ROLES = ("user", "tool")


class Segments:
    """Bytes that are appended to. They are held in few pieces of decreasing size, so appending and iterating are
    cheap."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.length = 0

    def copy(self) -> Segments:
        other = Segments()
        other._pieces, other.length = self._pieces.copy(), self.length
        return other

    def append(self, piece: bytes) -> None:
        if not piece:
            return
        self.length += len(piece)
        pieces = self._pieces
        pieces.append(piece)
        while len(pieces) > 1 and len(pieces[-2]) < 2 * len(pieces[-1]):
            last = pieces.pop()
            pieces[-1] += last

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)


class Mark(Frozen):
    """An offset at which a cache marker may be inserted."""

    offset: int
    text: bool


class Draft:
    """`head` is everything up to the opening bracket of the messages; `tail` closes the body after the last one."""

    def __init__(self, head: bytes, tail: bytes = b"]}") -> None:
        self._sealed = Segments()
        self._sealed.append(head)
        self._tail = tail
        self._open: list[bytes] = []
        self._open_length = 0
        self._closing = b""
        self._blocks = 0
        self._count = self._own = 0
        self.before = 0
        """Bytes before the conversation."""
        self._marks: deque[Mark] = deque(maxlen=KEPT_MARKS)
        self.role: str | None = None
        """Role of the open message; None before the first."""
        self.state: Any = None
        """State of the protocol's lowering between batches."""
        self.spare = KEPT_MARKS
        """How many more markers the provider accepts."""
        self.closing = False
        """Whether what is added now is said in this one request alone."""
        self.trailer = b""
        """Added to an open user message for this one request; it never becomes part of the sealed bytes."""

    def copy(self) -> Self:
        """An independent draft with the same bytes, without encoding anything again. The protocol's state is copied
        one level deep, which is enough for adding a system message."""
        other = copy(self)
        other._sealed = self._sealed.copy()
        other._open = self._open.copy()
        other._marks = self._marks.copy()
        other.state = copy(self.state)
        return other

    def keep_marks(self, earlier: Draft) -> None:
        """Use the marker offsets of the draft that this one was copied from: what was added since is not cached."""
        self._marks = earlier._marks.copy()

    def begin(self, role: str, opening: bytes, closing: bytes) -> None:
        """Seal the open message and start another. `opening` is everything before its first block."""
        self._seal()
        self.role = role
        self._closing = closing
        self._blocks = 0
        self._put((b"," if self._count else b"") + opening)
        self._count += 1

    def add(self, block: bytes, *, mark: int | None = None, text: bool = True, separator: bytes = b",") -> None:
        """Put a block into the open message. `mark` is the offset in it for a cache marker. A message has one such
        offset: in its last text or, without text, in its last block."""
        assert self.role is not None
        if self._blocks:
            self._put(separator)
        if mark is not None and self.role in MARKED_ROLES:
            place = Mark(self._sealed.length + self._open_length + mark, text)
            if text or not (self._marked and self._marks[-1].text):
                self.unmark()
                self._marks.append(place)
        self._put(block)
        self._blocks += 1

    def unmark(self) -> None:
        """Remove the marker offset of the open message."""
        if self._marked:
            self._marks.pop()

    def unmark_all(self) -> None:
        """Remove all marker offsets: a long-lived marker may not follow short-lived ones."""
        self._marks.clear()

    def drop(self) -> None:
        """Remove the open message."""
        assert self.role is not None
        self.unmark()
        self._open.clear()
        self._open_length = 0
        self._closing = b""
        self._count -= 1
        self.role = None

    def begin_conversation(self) -> None:
        """Messages so far are the request's system text and do not count as conversation."""
        self._own = self._count
        self.before = self.kept

    @property
    def empty(self) -> bool:
        return self._count == self._own

    @property
    def kept(self) -> int:
        """How many bytes stay at the start when messages are added. Cache markers are not counted."""
        return self._sealed.length + self._open_length

    @property
    def frame_length(self) -> int:
        """Of everything around the conversation: system text, tools, controls."""
        return self.before + len(self._tail)

    @property
    def length(self) -> int:
        """Of the whole body, without cache markers."""
        trailer = self.trailer if self.role == "user" else b""
        return self.kept + len(trailer) + len(self._closing) + len(self._tail)

    def chunks(self, *, marker: bytes = b"", newest: int = 0) -> list[bytes]:
        """The whole body in few pieces, with a marker in each of the newest `newest` messages to the model."""
        trailer = self.trailer if self.role == "user" else b""
        pieces = [*self._sealed, b"".join(self._open), trailer + self._closing + self._tail]
        newest = min(newest, self.spare)
        chosen = [mark.offset for mark in self._marks][-newest:] if newest and marker else []
        return _splice(pieces, chosen, marker)

    @property
    def _marked(self) -> bool:
        return bool(self._marks) and self._marks[-1].offset >= self._sealed.length

    def _seal(self) -> None:
        if self.role is not None:
            self._sealed.append(b"".join(self._open) + self._closing)
            self._open.clear()
            self._open_length = 0

    def _put(self, data: bytes) -> None:
        self._open.append(data)
        self._open_length += len(data)


def _splice(pieces: list[bytes], offsets: list[int], marker: bytes) -> list[bytes]:
    if not offsets:
        return [piece for piece in pieces if piece]
    out: list[bytes] = []
    position = 0
    for piece in pieces:
        cut = 0
        for offset in offsets:
            if position + cut <= offset < position + len(piece):
                out += [piece[cut : offset - position], marker]
                cut = offset - position
        out.append(piece[cut:])
        position += len(piece)
    return [piece for piece in out if piece]
