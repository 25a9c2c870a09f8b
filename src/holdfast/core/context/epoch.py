"""Context Epochs: the baseline that a Session's requests begin with, kept byte for byte until it must be replaced.

Invariants
- The snapshot changes only in the transaction that records the system message telling the model, so the model has
  been told exactly what the snapshot says it has.
- Every write names the revision it was made from. Who loses the race looks again once, then gives up.
- A boundary at which nothing changed writes nothing and reads nothing from the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, assert_never

import msgspec

from holdfast.core.context.errors import (
    ContextContention,
    ContextSnapshotDecodeError,
    EpochChanged,
    InitializationBlocked,
)
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
from holdfast.core.database.unit import Statement
from holdfast.schema.codec import decoder, encode_text
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
    from holdfast.schema.location import Location


class Seen(Record):
    """What the last boundary saw of a source that is not simply there."""

    state: Literal["unavailable", "removed"]
    since: int


class Epoch(Frozen):
    session_id: str
    baseline: str
    snapshot: Snapshot
    baseline_seq: int
    revision: int
    observed: Mapping[str, Seen]


class Epochs:
    """One per process, for all Sessions."""

    def __init__(self, database: Database, ids: Ids, clock: Clock, metrics: Metrics) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._metrics = metrics

    @property
    def metrics(self) -> Metrics:
        return self._metrics

    async def load(self, session_id: str) -> Epoch | None:
        row = await self._row(session_id)
        return None if row is None else _decode(session_id, row)

    async def initialize(self, session_id: str, context: SystemContext, lease: Publisher, location: Location) -> Epoch:
        """Begin a Session's first epoch, before its first promotion. Nothing is stored when it is blocked."""
        observation = await observe(context, self._metrics)
        generation = self._first(observation)
        params = {"session_id": session_id, **self._rows(generation, observation)}
        begin = Statement("context.begin", params, changes=1, error=EpochChanged)
        try:
            await lease.publish(location=location, local=(begin,))
        except EpochChanged:
            # Someone began it meanwhile: that baseline is what the model will see.
            self._metrics.record("context.contention", 1)
        else:
            self._metrics.began(session_id, "initialized", generation.baseline)
        return await self._reload(session_id)

    async def recover(self, session_id: str, context: SystemContext, lease: Publisher, location: Location) -> Epoch:
        """Begin anew over a snapshot that `load` could not decode. Only for an explicit retry by a person."""
        observation = await observe(context, self._metrics)
        generation = self._first(observation)
        row = await self._row(session_id)
        if row is None:
            raise ContextContention(session_id)
        _, _, baseline_seq, revision, _ = row
        params = {"session_id": session_id, "revision": revision, "baseline_seq": baseline_seq}
        try:
            await self._replace(params, generation, observation, lease, location)
        except EpochChanged as refused:
            self._metrics.record("context.contention", 1)
            raise ContextContention(session_id) from refused
        self._metrics.began(session_id, "recovered", generation.baseline)
        return await self._reload(session_id)

    async def prepare(
        self, epoch: Epoch, context: SystemContext, lease: Publisher, location: Location, *, compaction_seq: int = -1
    ) -> Epoch:
        """Bring the epoch up to date, after promotion: at most one commit, with at most one system message. The same
        object comes back when nothing changed. `compaction_seq` is the newest completed compaction's."""
        observation = await observe(context, self._metrics)
        for _ in range(2):
            try:
                return await self._admit(epoch, observation, lease, location, compaction_seq)
            except EpochChanged:
                self._metrics.record("context.contention", 1)
            current = await self.load(epoch.session_id)
            if current is None:  # moved or reverted: the next drain begins anew
                break
            epoch = current
        raise ContextContention(epoch.session_id)

    # -- one boundary ------------------------------------------------------------------------------------------

    async def _admit(
        self, epoch: Epoch, observation: Observation, lease: Publisher, location: Location, compaction_seq: int
    ) -> Epoch:
        match self._decide(epoch, observation, compaction_seq):
            case Unchanged():
                self._metrics.ended(epoch.session_id, "unchanged")
                return await self._note(epoch, observation, lease, location)
            case ReplacementBlocked():
                self._metrics.ended(epoch.session_id, "replacement blocked")
                return await self._note(epoch, observation, lease, location)
            case Updated() as update:
                return await self._tell(epoch, update, observation, lease, location)
            case ReplacementReady(generation):
                await self._replace(_made_from(epoch), generation, observation, lease, location)
                self._metrics.began(epoch.session_id, "replaced", generation.baseline)
                return await self._reload(epoch.session_id)
            case never:
                assert_never(never)

    def _decide(self, epoch: Epoch, observation: Observation, compaction_seq: int) -> Outcome:
        """While a replacement is blocked the old baseline stays in force, and other sources may still be told of."""
        if compaction_seq > epoch.baseline_seq:
            outcome = replace(observation, epoch.snapshot)
            if isinstance(outcome, ReplacementReady):
                return outcome
            self._count_blocked("context.replace.blocked", outcome.keys)
            told = reconcile(observation, epoch.snapshot)
            return told if isinstance(told, Updated) else outcome
        decided = reconcile(observation, epoch.snapshot)
        if isinstance(decided, ReplacementBlocked):
            self._count_blocked("context.replace.blocked", decided.keys)
        return decided

    async def _tell(
        self, epoch: Epoch, update: Updated, observation: Observation, lease: Publisher, location: Location
    ) -> Epoch:
        observed = self._seen(observation, update.snapshot, epoch)
        event = ContextUpdated(
            timestamp=self._clock.now(),
            session_id=epoch.session_id,
            message_id=self._ids.message(),
            text=update.text,
        )
        row = {**_made_from(epoch), "snapshot": update.snapshot.encode(), "observed": encode_text(observed)}
        keys: dict[str, Value] = {"session_id": epoch.session_id, "keys": encode_text(update.keys)}
        local = (
            Statement("context.advance", row, changes=1, error=EpochChanged),
            Statement("context.change", keys),
        )
        await lease.publish(event, location=location, local=local)
        self._metrics.updated(epoch.session_id, update.text)
        return epoch.replace(snapshot=update.snapshot, observed=observed, revision=epoch.revision + 1)

    async def _note(self, epoch: Epoch, observation: Observation, lease: Publisher, location: Location) -> Epoch:
        """Remember, for people, which sources could not be observed; most of the time there is nothing to note."""
        observed = self._seen(observation, epoch.snapshot, epoch)
        if observed == epoch.observed:
            return epoch
        row = {**_made_from(epoch), "observed": encode_text(observed)}
        await lease.publish(
            location=location, local=(Statement("context.observe", row, changes=1, error=EpochChanged),)
        )
        return epoch.replace(observed=observed, revision=epoch.revision + 1)

    async def _replace(
        self,
        made_from: Mapping[str, Value],
        generation: Generation,
        observation: Observation,
        lease: Publisher,
        location: Location,
    ) -> None:
        row = {**made_from, **self._rows(generation, observation)}
        await lease.publish(
            location=location, local=(Statement("context.replace", row, changes=1, error=EpochChanged),)
        )

    # -- details -----------------------------------------------------------------------------------------------

    def _first(self, observation: Observation) -> Generation:
        try:
            return initialize(observation)
        except InitializationBlocked as blocked:
            self._count_blocked("context.initialize.blocked", blocked.keys)
            raise

    def _rows(self, generation: Generation, observation: Observation) -> dict[str, Value]:
        return {
            "baseline": generation.baseline,
            "snapshot": generation.snapshot.encode(),
            "observed": encode_text(self._seen(observation, generation.snapshot, None)),
        }

    def _seen(self, observation: Observation, snapshot: Snapshot, epoch: Epoch | None) -> dict[str, Seen]:
        """Unavailable sources, and those that left since the baseline, each since when."""
        before = epoch.observed if epoch is not None else {}
        states: dict[str, Literal["unavailable", "removed"]] = {
            # What was observed and is not in the snapshot could not be rendered.
            source.key: "unavailable"
            for source, value in observation
            if value is UNAVAILABLE or source.key not in snapshot
        }
        if epoch is not None:
            gone = [key for key in epoch.snapshot if key not in snapshot]
            gone += [key for key, seen in before.items() if seen.state == "removed" and key not in snapshot]
            states = {**dict.fromkeys(gone, "removed"), **states}
        now = self._clock.now() if states else 0
        return {
            key: known if (known := before.get(key)) and known.state == state else Seen(state=state, since=now)
            for key, state in states.items()
        }

    def _count_blocked(self, name: str, keys: Sequence[str]) -> None:
        for key in keys:
            self._metrics.record(name, 1, key)

    async def _row(self, session_id: str) -> Row | None:
        rows = await self._database.fetch("context.get", {"session_id": session_id})
        return rows[0] if rows else None

    async def _reload(self, session_id: str) -> Epoch:
        epoch = await self.load(session_id)
        if epoch is None:
            raise ContextContention(session_id)
        return epoch


def _decode(session_id: str, row: Row) -> Epoch:
    baseline, stored, baseline_seq, revision, observed = row
    assert isinstance(baseline_seq, int)
    assert isinstance(revision, int)
    try:
        snapshot = Snapshot.decode(str(stored))
    except msgspec.DecodeError as error:
        raise ContextSnapshotDecodeError(session_id, str(error)) from error
    try:
        seen = decoder(dict[str, Seen]).decode(str(observed))
    except msgspec.DecodeError:
        seen = {}  # only people read it; the next boundary writes it anew
    return Epoch(session_id, str(baseline), snapshot, baseline_seq, revision, seen)


def _made_from(epoch: Epoch) -> dict[str, Value]:
    return {"session_id": epoch.session_id, "revision": epoch.revision, "baseline_seq": epoch.baseline_seq}
