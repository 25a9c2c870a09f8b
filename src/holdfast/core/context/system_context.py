"""The System Context algebra: compose sources, observe them once, and decide what the model must be told.

Invariants
- `observe` loads every source exactly once; `initialize`, `reconcile` and `replace` are pure functions of that one
  observation, so their results never mix two states.
- A change is a difference between values, never between texts. A source whose value is the same is not rendered.
- An unavailable source keeps its snapshot entry and says nothing; an absent source leaves the snapshot."""

from __future__ import annotations

import asyncio
import time
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.core.context.errors import DuplicateKeyError, EmptyRenderingError, InitializationBlocked
from holdfast.core.context.metrics import Metrics
from holdfast.core.context.snapshot import Snapshot, SnapshotEntry
from holdfast.core.context.source import ABSENT, UNAVAILABLE, Unavailable
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.context.source import AnySource, Source, T


# -- composing ---------------------------------------------------------------------------------------------------


class SystemContext:
    """Zero or more sources in order. Composing one reads nothing."""

    __slots__ = ("_contributions", "_sources")

    def __init__(self, sources: tuple[AnySource, ...] = (), contributions: Mapping[str, str] | None = None) -> None:
        """`contributions` maps a source's key to the key that it was registered under, where the two differ."""
        self._sources = sources
        self._contributions = contributions or {}


EMPTY = SystemContext()


def make(source: Source[T]) -> SystemContext:
    return SystemContext((source,))


def contribute(key: str, context: SystemContext) -> SystemContext:
    """The same context; metrics attribute its sources to this contribution key."""
    return SystemContext(context._sources, {source.key: key for source in context._sources if source.key != key})


def combine(contexts: Iterable[SystemContext]) -> SystemContext:
    """Concatenate contexts. Raises DuplicateKeyError if two sources share a key."""
    contexts = tuple(contexts)
    sources = tuple(chain.from_iterable(context._sources for context in contexts))
    keys = [source.key for source in sources]
    if len(set(keys)) < len(keys):
        raise DuplicateKeyError(next(key for key in keys if keys.count(key) > 1))
    contributions: dict[str, str] = {}
    for context in contexts:
        contributions.update(context._contributions)
    return SystemContext(sources, contributions)


# -- observing ---------------------------------------------------------------------------------------------------


class Observed(NamedTuple):
    source: AnySource
    value: Any
    """Of the source's type, or UNAVAILABLE."""


Observation = tuple[Observed, ...]
"""In the order of the context, without absent sources."""


async def observe(context: SystemContext, metrics: Metrics | None = None) -> Observation:
    """Load every source once. The first defect cancels the other loads and is raised as it is."""
    metrics = metrics or Metrics()
    started = time.perf_counter()
    loads = _Loads(context, metrics)
    values = await loads.run()
    metrics.record("context.observe.duration", time.perf_counter() - started)
    for key, seconds in loads.waits.items():
        metrics.record("context.observe.duration", seconds, key)
    observation: list[Observed] = []
    for source, value in zip(context._sources, values, strict=True):
        if value is UNAVAILABLE:
            metrics.record("context.source.unavailable", 1, source.key)
        if value is not ABSENT:
            observation.append(Observed(source, value))
    return tuple(observation)


class _Loads:
    """The loads of one observation."""

    def __init__(self, context: SystemContext, metrics: Metrics) -> None:
        self._context = context
        self._metrics = metrics
        self.waits: dict[str, float] = {}
        """Contribution key to seconds: the longest load of its sources that are not immediate."""

    async def run(self) -> list[Any]:
        """Values in the order of the sources. A single source that may wait needs no task."""
        sources = self._context._sources
        waiting = [source for source in sources if not source.immediate]
        if len(waiting) < 2:
            return [await (source.load() if source.immediate else self._wait(source)) for source in sources]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {source.key: group.create_task(self._wait(source)) for source in waiting}
                values = {source.key: await source.load() for source in sources if source.immediate}
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [values[source.key] if source.immediate else tasks[source.key].result() for source in sources]

    async def _wait(self, source: AnySource) -> Any:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(source.timeout) as bound:
                return await source.load()
        except TimeoutError:
            if not bound.expired():
                raise
            self._metrics.record("context.source.timeout", 1, source.key)
            return UNAVAILABLE
        finally:
            key = self._context._contributions.get(source.key, source.key)
            self.waits[key] = max(self.waits.get(key, 0.0), time.perf_counter() - started)


# -- deciding ----------------------------------------------------------------------------------------------------


class Generation(Frozen):
    """A complete baseline and the snapshot of the values in it."""

    baseline: str
    snapshot: Snapshot


class Unchanged(Frozen):
    """No admitted value has changed."""


class Updated(Frozen):
    """One text for all changes; `keys` are the sources it is about."""

    text: str
    snapshot: Snapshot
    keys: tuple[str, ...]


class ReplacementReady(Frozen):
    generation: Generation


class ReplacementBlocked(Frozen):
    """The baseline must be replaced, but these admitted sources are unavailable."""

    keys: tuple[str, ...]


Replacement = ReplacementReady | ReplacementBlocked
Outcome = Unchanged | Updated | Replacement


def initialize(observation: Observation) -> Generation:
    """Make the first baseline. Raises InitializationBlocked while a required source is unavailable."""
    made = _generate(observation, required=lambda source: not source.optional)
    if not isinstance(made, Generation):
        raise InitializationBlocked(made)
    return made


def replace(observation: Observation, previous: Snapshot) -> Replacement:
    """Make a new baseline in place of the current one. Only an admitted source can block it."""
    made = _generate(observation, required=lambda source: source.key in previous)
    return ReplacementReady(made) if isinstance(made, Generation) else ReplacementBlocked(made)


def reconcile(observation: Observation, previous: Snapshot) -> Outcome:
    """Decide what the model must be told, given the values it was told before."""
    try:
        changed = {
            source.key
            for source, value in observation
            if value is not UNAVAILABLE and source.key in previous and _differs(source, value, previous)
        }
    except (msgspec.DecodeError, ValueError):  # the stored value does not fit the current codec
        return replace(observation, previous)
    present = {source.key for source, _ in observation}
    gone = sorted(key for key in previous if key not in present)
    if any(previous[key].removed is None for key in gone):
        return replace(observation, previous)
    if not (changed or gone) and all(value is UNAVAILABLE or source.key in previous for source, value in observation):
        return Unchanged()
    return _update(observation, previous, changed, gone)


def _update(observation: Observation, previous: Snapshot, changed: set[str], gone: list[str]) -> Outcome:
    texts: list[str] = []
    keys: list[str] = []
    entries = {key: previous[key] for key in previous if key not in gone}
    for observed in observation:
        source, value = observed
        if source.key in changed:
            before = previous.value(source.key, source.codec)
            admitted = _admit(observed, "update", source.update(before, value))
        elif source.key not in previous and value is not UNAVAILABLE:
            admitted = _admit(observed, "baseline", source.baseline(value))
        else:
            continue
        if admitted is not None:
            text, entries[source.key] = admitted
            texts.append(text)
            keys.append(source.key)
    for key in gone:
        texts.append(previous[key].removed or "")
        keys.append(key)
    if not texts:
        return Unchanged()
    return Updated("\n\n".join(texts), Snapshot(entries), tuple(keys))


def _generate(observation: Observation, required: Callable[[AnySource], bool]) -> Generation | tuple[str, ...]:
    """A baseline of all available sources, or the keys of the required ones that are missing."""
    if missing := tuple(source.key for source, value in observation if value is UNAVAILABLE and required(source)):
        return missing
    texts: list[str] = []
    entries: dict[str, SnapshotEntry] = {}
    unrendered: list[str] = []
    for observed in observation:
        source, value = observed
        if value is UNAVAILABLE:
            continue
        admitted = _admit(observed, "baseline", source.baseline(value))
        if admitted is not None:
            text, entries[source.key] = admitted
            texts.append(text)
        elif required(source):
            unrendered.append(source.key)
    return tuple(unrendered) or Generation("\n\n".join(texts), Snapshot(entries))


def _admit(observed: Observed, kind: str, text: str | Unavailable) -> tuple[str, SnapshotEntry] | None:
    """The text with its snapshot entry, or None if a renderer is unavailable."""
    source, value = observed
    removed = source.removed(value) if source.removed is not None else None
    for rendered, what in ((text, kind), (removed, "removal")):
        if rendered == "":
            raise EmptyRenderingError(source.key, what)
    if isinstance(text, Unavailable) or isinstance(removed, Unavailable):
        return None
    return text, SnapshotEntry(value=msgspec.Raw(source.codec.encode(value)), removed=removed)


def _differs(source: AnySource, value: Any, previous: Snapshot) -> bool:
    """Compare with the stored value. What the codec does not store (a tuple for a list, a finer time) is no change."""
    admitted = previous.value(source.key, source.codec)
    return bool(admitted != value) and bool(admitted != source.codec.decode(source.codec.encode(value)))
