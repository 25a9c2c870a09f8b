"""Context Epochs: the baseline that a Session's requests begin with, kept byte for byte until it must be replaced.

Invariants
- The snapshot changes only in the transaction that records the system message, so it holds exactly the values that the
  model was told.
- Every write names the revision it was made from. After losing a race it is tried once more, then given up.
- A boundary at which nothing changed writes nothing and reads nothing from the database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

import msgspec

from holdfast.core.context.errors import ContextContention, ContextSnapshotDecodeError, InitializationBlocked
from holdfast.core.context.snapshot import Snapshot
from holdfast.core.context.source import UNAVAILABLE
from holdfast.core.context.system_context import (
    ReplacementBlocked,
    ReplacementReady,
    Unchanged,
    Updated,
    initialize,
    observe,
    reconcile,
    replace,
)
from holdfast.core.database.errors import Moved
from holdfast.core.database.unit import Statement
from holdfast.schema.codec import decode_any, decoder, encode_text
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record
from holdfast.schema.session_event import ContextUpdated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.context.metrics import Metrics
    from holdfast.core.context.system_context import Generation, Observation, Outcome, SystemContext
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Row, Value
    from holdfast.core.event.publisher import Publisher


Offer: TypeAlias = Callable[[], str]
NO_OFFER: Offer = str
UNKNOWN_SOURCE = ""
"""Stands for the sources of a change whose keys are not known any more. No source has this key."""


class SourceState(Record):
    """A source that the last boundary could not read, or that has left since the baseline. Shown to people."""

    state: Literal["unavailable", "removed"]
    since: int


class Epoch(Frozen):
    session_id: str
    baseline: str
    snapshot: Snapshot
    baseline_seq: int
    revision: int
    observed: Mapping[str, SourceState]
    offer: str = ""
    """What the tools of MCP servers are made of until the epoch ends: `core/mcp/offer.py` reads it."""


class FirstEpoch(Frozen):
    """The first epoch of a Session before it is stored; its `baseline_seq` is not known. The statements raise
    ContextContention if there is one already."""

    epoch: Epoch
    statements: tuple[Statement, ...]


class Epochs:
    """Stores the epochs of all Sessions. One per process."""

    def __init__(self, database: Database, ids: Ids, clock: Clock, metrics: Metrics) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self.metrics = metrics

    async def load(self, session_id: str) -> Epoch | None:
        """Raises ContextSnapshotDecodeError if the stored snapshot is damaged."""
        row = await self._row(session_id)
        return None if row is None else decode_epoch(session_id, row)

    async def offer(self, session_id: str) -> str:
        """That of the Session's epoch; empty without one."""
        rows = await self._database.fetch("context.offer", {"session_id": session_id})
        return str(rows[0][0]) if rows else ""

    async def initialize(
        self, session_id: str, context: SystemContext, publisher: Publisher, *, offer: Offer = NO_OFFER
    ) -> Epoch:
        """Begin a Session's first epoch, before its first promotion. Nothing is stored if it is blocked. `offer` is
        called when an epoch begins."""
        return await self.begin(await self.first(session_id, context, offer=offer), publisher)

    async def first(self, session_id: str, context: SystemContext, *, offer: Offer = NO_OFFER) -> FirstEpoch:
        """What a Session's first epoch is made of. Nothing is stored yet."""
        observation = await observe(context, self.metrics)
        generation = self._first(observation)
        offered = offer()
        observed = self._states(observation, generation.snapshot, None)
        row, texts = self._stored(generation, observed, offered)
        epoch = Epoch(session_id, generation.baseline, generation.snapshot, -1, 0, observed, offered)
        return FirstEpoch(epoch, (*texts, self._change(session_id, "context.begin", row)))

    async def begin(self, first: FirstEpoch, publisher: Publisher) -> Epoch:
        """Store a first epoch in a commit of its own."""
        session_id = first.epoch.session_id
        try:
            await self._publish(publisher, first.statements)
        except ContextContention:
            pass  # another drain stored its baseline first; that one is used
        else:
            self.metrics.began(session_id, "initialized", first.epoch.baseline)
        return await self._reload(session_id)  # `baseline_seq` is set inside the transaction

    def begun(self, first: FirstEpoch, baseline_seq: int) -> Epoch:
        """The epoch that a commit stored by the statements of `first`, when `baseline_seq` was the last sequence."""
        self.metrics.began(first.epoch.session_id, "initialized", first.epoch.baseline)
        return first.epoch.replace(baseline_seq=baseline_seq)

    async def recover(
        self, session_id: str, context: SystemContext, publisher: Publisher, *, offer: Offer = NO_OFFER
    ) -> Epoch:
        """Replace an epoch whose snapshot `load` could not decode. Only for an explicit retry by a person."""
        observation = await observe(context, self.metrics)
        generation = self._first(observation)
        stored = await self._row(session_id)
        if stored is None:
            raise ContextContention(session_id)
        _, _, baseline_seq, revision, *_ = stored
        version: dict[str, Value] = {"revision": revision, "baseline_seq": baseline_seq}
        return await self._replace(session_id, "recovered", version, generation, observation, offer(), publisher)

    async def prepare(
        self,
        epoch: Epoch,
        context: SystemContext,
        publisher: Publisher,
        *,
        compaction_seq: int = -1,
        offer: Offer = NO_OFFER,
    ) -> Epoch:
        """Bring the epoch up to date, after promotion, with at most one commit and one system message. Returns the same
        object if nothing changed. `compaction_seq` is the sequence of the newest completed compaction."""
        observation = await observe(context, self.metrics)
        try:
            return await self._admit(epoch, observation, publisher, compaction_seq, offer)
        except ContextContention:
            current = await self.load(epoch.session_id)
            if current is None:  # moved or reverted: the next drain initializes it
                raise
        return await self._admit(current, observation, publisher, compaction_seq, offer)

    async def take_over(self, source_id: str, session_id: str, through: int) -> tuple[Statement, ...]:
        """The writes that give a fork the epoch of its source, as of the sequence at which it was forked. None if that
        epoch began later, or if the fork could not tell what has changed: it then begins an epoch of its own."""
        try:
            epoch = await self.load(source_id)
        except ContextSnapshotDecodeError:
            return ()
        if epoch is None or epoch.baseline_seq > through:
            return ()
        later = await self._database.fetch(
            "context.told_after", {"session_id": source_id, "after": max(through, epoch.baseline_seq)}
        )
        told: set[str] = set()
        for _, keys in later:
            told |= set(decode_any(str(keys))) if keys is not None else {UNKNOWN_SOURCE}
        if not all(key in epoch.snapshot for key in told):
            return ()
        texts: tuple[Statement, ...] = ()
        snapshot_id = None
        if told:  # the fork tells these again
            known = Snapshot({key: epoch.snapshot[key] for key in epoch.snapshot if key not in told})
            snapshot_id, text = self._text(known.encode())
            texts = (text,)
        row = {"session_id": session_id, "source_id": source_id, "snapshot_id": snapshot_id, **_version(epoch)}
        return (*texts, Statement("context.take_over", row, changes=1, error=partial(Moved, source_id)))

    # -- one boundary ------------------------------------------------------------------------------------------

    async def _admit(
        self, epoch: Epoch, observation: Observation, publisher: Publisher, compaction_seq: int, offer: Offer
    ) -> Epoch:
        match self._decide(epoch, observation, compaction_seq):
            case Updated() as update:
                return await self._tell(epoch, update, observation, publisher)
            case ReplacementReady(generation):
                return await self._replace(
                    epoch.session_id, "replaced", _version(epoch), generation, observation, offer(), publisher
                )
            case Unchanged() | ReplacementBlocked() as outcome:
                blocked = isinstance(outcome, ReplacementBlocked)
                self.metrics.ended(epoch.session_id, "replacement blocked" if blocked else "unchanged")
                return await self._record_states(epoch, observation, publisher)
            case never:
                assert_never(never)

    def _decide(self, epoch: Epoch, observation: Observation, compaction_seq: int) -> Outcome:
        """While a replacement is blocked, the old baseline stays in force and other sources may still be updated."""
        if compaction_seq <= epoch.baseline_seq:
            outcome = reconcile(observation, epoch.snapshot)
        else:
            outcome = replace(observation, epoch.snapshot)
        if isinstance(outcome, ReplacementBlocked):
            self._count("context.replace.blocked", outcome.keys)
            update = reconcile(observation, epoch.snapshot)
            return update if isinstance(update, Updated) else outcome
        return outcome

    async def _tell(self, epoch: Epoch, update: Updated, observation: Observation, publisher: Publisher) -> Epoch:
        observed = self._states(observation, update.snapshot, epoch)
        event = ContextUpdated(
            timestamp=self._clock.now(),
            session_id=epoch.session_id,
            message_id=self._ids.message(),
            text=update.text,
        )
        snapshot_id, text = self._text(update.snapshot.encode())
        row = {**_version(epoch), "snapshot_id": snapshot_id, "observed": encode_text(observed)}
        keys = Statement("context.change", {"session_id": epoch.session_id, "keys": encode_text(update.keys)})
        await self._commit(
            epoch.session_id, "context.advance", row, publisher, event=event, texts=(text,), more=(keys,)
        )
        self.metrics.updated(epoch.session_id, update.text)
        return epoch.replace(snapshot=update.snapshot, observed=observed, revision=epoch.revision + 1)

    async def _replace(
        self,
        session_id: str,
        outcome: str,
        version: Mapping[str, Value],
        generation: Generation,
        observation: Observation,
        offer: str,
        publisher: Publisher,
    ) -> Epoch:
        row, texts = self._stored(generation, self._states(observation, generation.snapshot, None), offer)
        await self._commit(session_id, "context.replace", {**version, **row}, publisher, texts=texts)
        self.metrics.began(session_id, outcome, generation.baseline)
        return await self._reload(session_id)

    async def _record_states(self, epoch: Epoch, observation: Observation, publisher: Publisher) -> Epoch:
        """Store which sources are unavailable, if that has changed."""
        observed = self._states(observation, epoch.snapshot, epoch)
        if observed == epoch.observed:
            return epoch
        row = {**_version(epoch), "observed": encode_text(observed)}
        await self._commit(epoch.session_id, "context.observe", row, publisher)
        return epoch.replace(observed=observed, revision=epoch.revision + 1)

    # -- details -----------------------------------------------------------------------------------------------

    async def _commit(
        self,
        session_id: str,
        statement: str,
        row: Mapping[str, Value],
        publisher: Publisher,
        *,
        event: ContextUpdated | None = None,
        texts: tuple[Statement, ...] = (),
        more: tuple[Statement, ...] = (),
    ) -> None:
        """Raises ContextContention if the epoch is not the one the row was made from."""
        await self._publish(publisher, (*texts, self._change(session_id, statement, row), *more), event)

    def _change(self, session_id: str, statement: str, row: Mapping[str, Value]) -> Statement:
        contention = partial(ContextContention, session_id)
        return Statement(statement, {"session_id": session_id, **row}, changes=1, error=contention)

    async def _publish(
        self, publisher: Publisher, local: tuple[Statement, ...], event: ContextUpdated | None = None
    ) -> None:
        try:
            await publisher.publish(*(() if event is None else (event,)), local=local)
        except ContextContention:
            self.metrics.record("context.contention", 1)
            raise

    def _first(self, observation: Observation) -> Generation:
        try:
            return initialize(observation)
        except InitializationBlocked as blocked:
            self._count("context.initialize.blocked", blocked.keys)
            raise

    def _stored(
        self, generation: Generation, states: Mapping[str, SourceState], offer: str
    ) -> tuple[dict[str, Value], tuple[Statement, ...]]:
        """The columns of a new baseline, and the statements that store its texts."""
        baseline_id, baseline = self._text(generation.baseline)
        snapshot_id, snapshot = self._text(generation.snapshot.encode())
        row: dict[str, Value] = {"baseline_id": baseline_id, "snapshot_id": snapshot_id, "offer": offer}
        return {**row, "observed": encode_text(states)}, (baseline, snapshot)

    def _text(self, content: str) -> tuple[str, Statement]:
        """The id of a new text, and the statement that stores it."""
        id = self._ids.of("ctx")
        return id, Statement("context.store", {"id": id, "content": content})

    def _states(self, observation: Observation, snapshot: Snapshot, epoch: Epoch | None) -> dict[str, SourceState]:
        """The sources that are unavailable or have left since the baseline, each with the time when that began."""
        before = epoch.observed if epoch is not None else {}
        states: dict[str, Literal["unavailable", "removed"]] = {
            # A source that has a value and no snapshot entry could not be rendered.
            source.key: "unavailable"
            for source, value in observation
            if value is UNAVAILABLE or source.key not in snapshot
        }
        if epoch is not None:
            gone = [key for key in epoch.snapshot if key not in snapshot]
            gone += [key for key, known in before.items() if known.state == "removed" and key not in snapshot]
            states = {**dict.fromkeys(gone, "removed"), **states}
        now = self._clock.now() if states else 0
        return {
            key: known if (known := before.get(key)) and known.state == state else SourceState(state=state, since=now)
            for key, state in states.items()
        }

    def _count(self, name: str, keys: Sequence[str]) -> None:
        for key in keys:
            self.metrics.record(name, 1, key)

    async def _row(self, session_id: str) -> Row | None:
        rows = await self._database.fetch("context.get", {"session_id": session_id})
        return rows[0] if rows else None

    async def _reload(self, session_id: str) -> Epoch:
        epoch = await self.load(session_id)
        if epoch is None:
            raise ContextContention(session_id)
        return epoch


def decode_epoch(session_id: str, row: Row) -> Epoch:
    """`row` is one of `context.get`. Raises ContextSnapshotDecodeError if the stored snapshot is damaged."""
    baseline, stored, baseline_seq, revision, observed, offer = row
    assert isinstance(baseline_seq, int)
    assert isinstance(revision, int)
    try:
        snapshot = Snapshot.decode(str(stored))
    except msgspec.DecodeError as error:
        raise ContextSnapshotDecodeError(session_id, str(error)) from error
    try:
        observed_states = decoder(dict[str, SourceState]).decode(str(observed))
    except msgspec.DecodeError:
        observed_states = {}  # shown to people only; the next boundary stores it again
    return Epoch(session_id, str(baseline), snapshot, baseline_seq, revision, observed_states, str(offer))


def _version(epoch: Epoch) -> dict[str, Value]:
    """The columns by which a write checks that the epoch is unchanged."""
    return {"revision": epoch.revision, "baseline_seq": epoch.baseline_seq}
