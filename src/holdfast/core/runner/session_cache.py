"""The Session as its drain last read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.stored_start import STEER_BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.unit import Committed
    from holdfast.core.event.signal import Flag
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_sessions import SessionAtBoundary
    from holdfast.schema.instruction import InstructionEntry
    from holdfast.schema.prompt import Admission


class SessionCache:
    """Valid while only the drain itself has committed to the Session since it was read.

    Sequences are contiguous: a commit of anyone else is either ahead of the drain's last one or leaves a gap before its
    next one. Commits of other processes are noticed at the next poll, like a wake from there."""

    def __init__(self, store: SessionStore, session_id: str, signal: Flag) -> None:
        self._store = store
        self._session_id = session_id
        self._signal = signal
        self._known: SessionAtBoundary | None = None
        self._head = -1
        """The last sequence that was read, or that the drain committed right after it."""
        self._revision = 0
        self._instructions: tuple[int | None, tuple[InstructionEntry, ...]] = (None, ())
        """The Session's instruction entries and the sequence of their last change."""

    async def read(self) -> SessionAtBoundary:
        """The Session and which input waits. Taken from memory while that is valid and nothing waits."""
        known = self._known
        if known is None or known.steer or known.queue or not self.valid:
            self._signal.head = -1  # before reading, so that a commit during the read is noticed
            known = self.take(await self._store.at_boundary(self._session_id))
        return known

    def take(self, seen: SessionAtBoundary) -> SessionAtBoundary:
        """Take over what was read while the signal was watched."""
        self._known = seen
        self._head = seen.head
        self._revision += 1
        return seen

    def take_instructions(self, seq: int | None, entries: tuple[InstructionEntry, ...]) -> None:
        """Take over the Session's instruction entries, and the sequence of their last change."""
        self._instructions = (seq, entries)

    async def instructions(self) -> tuple[InstructionEntry, ...]:
        """The Session's instruction entries, as of the last `read`. They are loaded again only after a change."""
        seq = self._known.instructions_seq if self._known is not None else None
        if seq != self._instructions[0]:
            self._instructions = (seq, await self._store.instruction_entries(self._session_id))
        return self._instructions[1]

    @property
    def valid(self) -> bool:
        return self._signal.head <= self._head

    @property
    def revision(self) -> int | None:
        """Of the messages: while it stays the same, the drain has added nothing but its own answers. None: unknown."""
        return self._revision if self.valid else None

    def messages_added(self) -> None:
        """The drain has added messages that are not its answers: promoted input, or an update of the context."""
        self._revision += 1

    def promoted(self, inputs: Sequence[Admission]) -> None:
        """The drain has promoted these inputs. If they are all the steers that wait, none waits any more: one that
        arrives meanwhile is a commit of someone else."""
        self.messages_added()
        known = self._known
        if known is not None and known.steer and len(known.steers) < STEER_BATCH:
            promoted = {item.id for item in inputs}
            if all(item.id in promoted for item in known.steers):
                self._known = known.replace(steer=False, steer_asks=False, steers=())

    def committed(self, own: Committed) -> None:
        if own.first == self._head + 1:
            self._head = own.last
