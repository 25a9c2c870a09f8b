"""The conversation that a terminal shows: entries in their order, text that is being written, what is unfolded. No I/O.

Invariants
- Entries are ordered by `seq`, and each id is there once.
- `revision` grows with every change that can be seen; passages are built again only for entries that changed.
- What the stream has sent is never replaced by a page that was asked for before."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from holdfast.tui.passages import Folds, is_apart
from holdfast.tui.style import UNICODE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.client.call import Page
    from holdfast.schema.rendered import CallBody, Entry
    from holdfast.schema.view import Block, ViewFrame
    from holdfast.tui.passages import LazyLines, Passage
    from holdfast.tui.style import Marks
    from holdfast.tui.text_chunks import TextChunks

PASSAGES_KEPT = 500
"""Entries whose passages are kept."""
TEXTS_KEPT = 500
"""Texts whose chunks are kept."""
BODIES_KEPT = 100
LIVE_CHARACTERS = 200_000
"""Of an input or an output that is being written: its end is shown."""
OUTDATED = 1_000
"""Milliseconds after which the body of a running call is loaded again."""
FAILED = 5_000
"""Milliseconds after which a body that could not be loaded may be asked for again."""
CHILD_ENTRIES = 6
"""Newest entries of a child that are shown inside its call."""

K = TypeVar("K")
V = TypeVar("V")
Part = tuple[str, str]
"""The ids of a message and of a part of it."""


class _Body(NamedTuple):
    blocks: Sequence[LazyLines]
    loaded: float
    of: Literal["running", "ended", "failed"]
    """Of a call that ran when it was loaded, of one that had ended, or instead of a body that could not be loaded."""


class Conversation:
    def __init__(
        self,
        session_id: str = "",
        *,
        marks: Marks = UNICODE,
        folds: Folds | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.session_id = session_id
        self.marks = marks
        self.folds = folds if folds is not None else Folds()
        self.revision = 0
        self.older: str | None = None
        """The cursor of the page before the first entry, if there may be one."""
        self.loaded = False
        """Whether the newest page is there."""
        self.is_gone = False
        self.is_at_end = True
        """Whether its end is shown; set by whoever draws it."""
        self.skew = 0.0
        """Milliseconds by which the clock of the server is ahead."""
        self.news = 0
        """How many entries, and parts of entries, the stream has added."""
        self.expected = 0
        """How often the newest page was asked for."""
        self.children: dict[str, Conversation] = {}
        """Those that are unfolded, by the id of their Session."""
        self._clock = clock
        self._entries: list[Entry] = []
        self._seqs: list[int] = []
        self._by_id: dict[str, Entry] = {}
        self._streamed: set[str] | None = set()
        """Entries that the stream has sent since the newest page was asked for; None if none is."""
        self._versions: dict[str, int] = {}
        self._live: dict[Part, str] = {}
        """Inputs and outputs that are being written."""
        self._written: dict[Part, str] = {}
        """The kinds of all blocks that are being written."""
        self._texts: OrderedDict[Part, TextChunks] = OrderedDict()
        self._bodies: OrderedDict[Part, _Body] = OrderedDict()
        self._passages: OrderedDict[str, tuple[object, list[Passage]]] = OrderedDict()

    @property
    def entries(self) -> Sequence[Entry]:
        """In their order."""
        return self._entries

    def now(self) -> float:
        """By the clock of the server, in milliseconds since the epoch."""
        return self._clock() * 1000 + self.skew

    def apply(self, frame: ViewFrame) -> None:
        """Take over a frame of the stream; those that are not about entries change nothing."""
        from holdfast.schema.view import Block, Entries, Gone, Reset

        match frame:
            case Entries():
                for entry in frame.entries:
                    self.news += _count(entry) - _count(self._by_id.get(entry.id))
                    self._put(entry)
                    if self._streamed is not None:
                        self._streamed.add(entry.id)
            case Block():
                self._take(frame)
            case Reset():
                self.expect_newest()
                self._written.clear()
                self._live.clear()
                self.revision += 1
            case Gone():
                self.is_gone = True
                self.revision += 1

    def expect_newest(self) -> None:
        """The next page replaces everything but what the stream sends until then."""
        self._streamed = set()
        self.expected += 1

    @property
    def expects_newest(self) -> bool:
        return self._streamed is not None

    def child_conversation(self, session_id: str) -> Conversation:
        """A new one for a child, which is shown inside its call."""
        child = Conversation(session_id, marks=self.marks, folds=self.folds, clock=self._clock)
        self.children[session_id] = child
        self.revision += 1
        return child

    def add_older(self, page: Page[Entry]) -> None:
        """Take over a page of `rendered` with `order="desc"`: the newest one, or the one before the first entry."""
        if self._streamed is not None:
            kept = [entry for entry in self._entries if entry.id in self._streamed]
            self._entries, self._seqs, self._by_id = [], [], {}
            for entry in (*reversed(page.items), *kept):
                self._put(entry)
            self._streamed = None
            self.loaded = True
        else:
            for entry in page.items:
                if entry.id not in self._by_id:
                    self._put(entry)
        self.older = page.next if page.items else None
        self.revision += 1

    def index_of(self, entry_id: str) -> int | None:
        entry = self._by_id.get(entry_id)
        if entry is None:
            return None
        index = bisect_left(self._seqs, entry.seq)
        while self._entries[index].id != entry_id:
            index += 1
        return index

    def find(self, message_id: str) -> Conversation | None:
        """The conversation that has a message: this one, or that of a child."""
        if message_id in self._by_id:
            return self
        return next((found for child in self.children.values() if (found := child.find(message_id))), None)

    def entry(self, entry_id: str) -> Entry | None:
        return self._by_id.get(entry_id)

    def set_body(self, message_id: str, call_id: str, body: CallBody | str) -> None:
        """The body of a call, or why it could not be loaded."""
        from holdfast.schema.rendered import BodySection
        from holdfast.schema.rendered import CallBody as Loaded
        from holdfast.tui.call_body import body_blocks

        of: Literal["running", "ended", "failed"] = "failed" if isinstance(body, str) else "ended"
        if isinstance(body, str):
            body = Loaded(sections=(BodySection(kind="error", text=body),))
        elif not body.sections:
            body = Loaded(sections=(BodySection(kind="note", text="Nothing to show."),))
        if of == "ended" and not self._has_ended(message_id, call_id):
            of = "running"
        self._bodies[message_id, call_id] = _Body(body_blocks(body), self.now(), of)
        _bound(self._bodies, BODIES_KEPT)
        self._change(message_id)

    # What passages are made from

    def chunks(self, message_id: str, part_id: str, text: str, partial: str = "") -> TextChunks:
        """The chunks of a finished text, or of one that is being written. `partial` is what an entry has of that."""
        from holdfast.tui.text_chunks import TextChunks

        part = (message_id, part_id)
        if part not in self._written:
            text = text or partial
        chunks = self._texts.get(part)
        if chunks is None:
            chunks = self._texts[part] = TextChunks(text)
            self._drop_texts()
        elif text or part not in self._written:
            chunks.replace(text)
        self._texts.move_to_end(part)
        return chunks

    def live(self, message_id: str, part_id: str) -> str | None:
        return self._live.get((message_id, part_id))

    def body(self, message_id: str, call_id: str) -> Sequence[LazyLines] | None:
        found = self._bodies.get((message_id, call_id))
        return found.blocks if found is not None else None

    def is_outdated(self, message_id: str, call_id: str) -> bool:
        """Whether the body of a call is missing, or of a call that went on."""
        found = self._bodies.get((message_id, call_id))
        if found is None or (found.of == "running" and self._has_ended(message_id, call_id)):
            return True
        age = self.now() - found.loaded
        return found.of != "ended" and age >= (OUTDATED if found.of == "running" else FAILED)

    def child(self, session_id: str) -> list[Passage] | None:
        """The newest entries of a child; None if they are not there."""
        inner = self.children.get(session_id)
        if inner is None or not inner.loaded:
            return None
        shown: list[Passage] = []
        for index in range(max(0, len(inner.entries) - CHILD_ENTRIES), len(inner.entries)):
            entry_id = inner.entries[index].id
            for number, passage in enumerate(inner.passages(index)):
                apart = is_apart(shown[-1].kind, passage.kind) if shown and not number else passage.gap
                shown.append(passage._replace(key=f"{entry_id}/{passage.key}", gap=apart))
        return shown

    def passages(self, index: int) -> list[Passage]:
        """The passages of an entry, the first without the blank line before it."""
        from holdfast.tui.entry_lines import entry_passages

        entry = self._entries[index]
        state = self._state(entry)
        kept = self._passages.get(entry.id)
        if kept is not None and kept[0] == state:
            return kept[1]
        passages = entry_passages(self._with_live_parts(entry), self)
        self._passages[entry.id] = (state, passages)
        self._passages.move_to_end(entry.id)
        _bound(self._passages, PASSAGES_KEPT)
        return passages

    def _state(self, entry: Entry) -> object:
        """What the passages of an entry depend on."""
        inner = second = 0
        for part in getattr(entry, "parts", ()):
            status = getattr(part, "status", "")
            if status == "running":
                second = int(self._clock())
            child = self.children.get(getattr(part, "child_id", None) or "")
            if child is not None:
                inner += child.total_revision() + 1
                second = int(self._clock())
        return self._versions.get(entry.id, 0), self.folds.revision, inner, second

    def total_revision(self) -> int:
        """With that of children."""
        return self.revision + sum(child.total_revision() for child in self.children.values())

    def _with_live_parts(self, entry: Entry) -> Entry:
        """The entry with parts whose text comes and whose start does not yet belong to it."""
        from msgspec.structs import replace

        from holdfast.schema.rendered import AssistantEntry, RenderedReasoning, RenderedText

        if not isinstance(entry, AssistantEntry) or not entry.open:
            return entry
        known = {part.id for part in entry.parts}
        kinds = {"text": RenderedText, "reasoning": RenderedReasoning}
        fresh = [
            kinds[kind](id=part_id, open=True)
            for (message_id, part_id), kind in self._written.items()
            if message_id == entry.id and part_id not in known and kind in kinds
        ]
        return replace(entry, parts=(*entry.parts, *fresh)) if fresh else entry

    def _put(self, entry: Entry) -> None:
        old = self._by_id.get(entry.id)
        if old is not None and (index := self.index_of(entry.id)) is not None:
            if old.seq == entry.seq:
                self._entries[index] = entry
            else:
                del self._entries[index], self._seqs[index]
                self._insert(entry)
        else:
            self._insert(entry)
        self._by_id[entry.id] = entry
        self._end_blocks(entry)
        self._change(entry.id)

    def _insert(self, entry: Entry) -> None:
        index = bisect_right(self._seqs, entry.seq)
        self._entries.insert(index, entry)
        self._seqs.insert(index, entry.seq)

    def _end_blocks(self, entry: Entry) -> None:
        """Forget what was being written of parts that are complete."""
        if not self._written:
            return
        is_open = {part.id: _is_open(part) for part in getattr(entry, "parts", ())}
        is_open[entry.id] = getattr(entry, "open", False)
        for part in [part for part in self._written if part[0] == entry.id]:
            if not is_open.get(part[1], is_open[entry.id]):
                del self._written[part]
                self._live.pop(part, None)

    def _take(self, block: Block) -> None:
        from holdfast.tui.text_chunks import TextChunks

        is_entry = block.kind in ("shell", "compaction")  # which have one text, whatever its part is called
        part = (block.message_id, block.message_id if is_entry else block.part_id)
        self._written[part] = block.kind
        if block.kind in ("input", "shell"):
            text = block.text if block.text is not None else self._live.get(part, "") + (block.add or "")
            self._live[part] = text[-LIVE_CHARACTERS:]
        else:
            chunks = self._texts.get(part)
            if chunks is None:
                chunks = self._texts[part] = TextChunks()
            if block.text is not None:
                chunks.replace(block.text)
            else:
                chunks.add(block.add or "")
        self._change(block.message_id)

    def _drop_texts(self) -> None:
        """The oldest that are complete: those can be made again."""
        for part in list(self._texts)[: max(0, len(self._texts) - TEXTS_KEPT)]:
            if part not in self._written:
                del self._texts[part]

    def _change(self, message_id: str) -> None:
        self._versions[message_id] = self._versions.get(message_id, 0) + 1
        self.revision += 1

    def _has_ended(self, message_id: str, call_id: str) -> bool:
        parts = getattr(self._by_id.get(message_id), "parts", ())
        status = next((getattr(part, "status", "") for part in parts if part.id == call_id), "")
        return status in ("completed", "error")


def _count(entry: Entry | None) -> int:
    return 0 if entry is None else max(1, len(getattr(entry, "parts", ())))


def _is_open(part: object) -> bool:
    return getattr(part, "open", False) or getattr(part, "status", "") == "pending"


def _bound(kept: OrderedDict[K, V], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
