"""The System Context algebra: compose sources, observe them once, and decide what the model must be told.

Invariants
- `observe` looks at every source exactly once; `initialize`, `reconcile` and `replace` are pure functions of that one
  observation, so nothing they return mixes two states of the world.
- A change is a difference between values, never between texts. A source whose value is the same is not rendered.
- Unavailable is not absent: what could not be observed keeps its entry and says nothing."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.core.context.errors import DuplicateKeyError, EmptyRenderingError, InitializationBlocked
from holdfast.core.context.snapshot import Entry, Snapshot
from holdfast.core.context.source import UNAVAILABLE, Unavailable
from holdfast.core.context.together import awaits, together
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from holdfast.core.context.metrics import Metrics
    from holdfast.core.context.source import AnySource, Source, T


# -- composing ---------------------------------------------------------------------------------------------------


class SystemContext:
    """Zero or more sources in order, opaque to whoever composes them."""

    __slots__ = ("_seconds", "_sources")

    def __init__(self, sources: tuple[AnySource, ...] = (), *, seconds: float = 0.0) -> None:
        """`seconds` is how long it took to find the sources, which is part of observing them."""
        self._sources = sources
        self._seconds = seconds


EMPTY = SystemContext()


def make(source: Source[T]) -> SystemContext:
    return SystemContext((source,))


def combine(contexts: Iterable[SystemContext], *, seconds: float = 0.0) -> SystemContext:
    """`seconds` is how long it took to get the contexts."""
    sources = tuple(chain.from_iterable(context._sources for context in contexts))
    keys = [source.key for source in sources]
    if len(set(keys)) < len(keys):
        raise DuplicateKeyError(next(key for key in keys if keys.count(key) > 1))
    return SystemContext(sources, seconds=seconds)


# -- observing ---------------------------------------------------------------------------------------------------


class Observed(NamedTuple):
    source: AnySource
    value: Any
    """Of the source's type, or UNAVAILABLE."""


Observation = tuple[Observed, ...]


async def observe(context: SystemContext, metrics: Metrics | None = None) -> Observation:
    """Look at every source once, at the same time."""
    started = time.perf_counter()
    values = together([partial(_observe, source, metrics) for source in context._sources])
    if not isinstance(values, list):
        values = await values
    observation = tuple(map(Observed, context._sources, values))
    if metrics is not None:
        metrics.record("context.observe.duration", context._seconds + time.perf_counter() - started)
        for source, value in observation:
            if value is UNAVAILABLE:
                metrics.record("context.source.unavailable", 1, source.key)
    return observation


def _observe(source: AnySource, metrics: Metrics | None) -> Any:
    given = source.load()
    return _wait(source, given, metrics) if awaits(given) else given


async def _wait(source: AnySource, given: Awaitable[Any], metrics: Metrics | None) -> Any:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(source.timeout) as bound:
            return await given
    except TimeoutError:
        if not bound.expired():
            raise
        if metrics is not None:
            metrics.record("context.source.timeout", 1, source.key)
        return UNAVAILABLE
    finally:
        if metrics is not None:
            metrics.record("context.observe.duration", time.perf_counter() - started, source.key)


# -- deciding ----------------------------------------------------------------------------------------------------


class Generation(Frozen):
    """A whole baseline and what it stands for."""

    baseline: str
    snapshot: Snapshot


class Unchanged(Frozen):
    """The model knows everything already."""


class Updated(Frozen):
    """One text for all that changed; `keys` are the sources it speaks for."""

    text: str
    snapshot: Snapshot
    keys: tuple[str, ...]


class ReplacementReady(Frozen):
    generation: Generation


class ReplacementBlocked(Frozen):
    """The baseline must be replaced and cannot be: these admitted sources are unavailable."""

    keys: tuple[str, ...]


Replacement = ReplacementReady | ReplacementBlocked
Outcome = Unchanged | Updated | Replacement


def initialize(observation: Observation) -> Generation:
    """The first baseline, complete or not at all."""
    made = _generate(observation, essential=lambda source: not source.optional)
    if not isinstance(made, Generation):
        raise InitializationBlocked(made)
    return made


def replace(observation: Observation, previous: Snapshot) -> Replacement:
    """A new baseline in place of one that must go. Only what the model was told before can block it."""
    made = _generate(observation, essential=lambda source: source.key in previous)
    return ReplacementReady(made) if isinstance(made, Generation) else ReplacementBlocked(made)


def reconcile(observation: Observation, previous: Snapshot) -> Outcome:
    """What the model must be told now, given what it was told before."""
    try:
        changed = {
            source.key
            for source, value in observation
            if value is not UNAVAILABLE and source.key in previous and _differs(source, value, previous)
        }
    except (msgspec.DecodeError, ValueError):  # what was stored is no value of today's codec
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


def _generate(observation: Observation, essential: Callable[[AnySource], bool]) -> Generation | tuple[str, ...]:
    """All that is available, or the keys of what is not and may not be left out."""
    if missing := tuple(source.key for source, value in observation if value is UNAVAILABLE and essential(source)):
        return missing
    texts: list[str] = []
    entries: dict[str, Entry] = {}
    unsaid: list[str] = []
    for observed in observation:
        source, value = observed
        if value is UNAVAILABLE:
            continue
        admitted = _admit(observed, "baseline", source.baseline(value))
        if admitted is not None:
            text, entries[source.key] = admitted
            texts.append(text)
        elif essential(source):
            unsaid.append(source.key)
    return tuple(unsaid) or Generation("\n\n".join(texts), Snapshot(entries))


def _admit(observed: Observed, kind: str, text: str | Unavailable) -> tuple[str, Entry] | None:
    """The text with the entry that remembers it, or None if a renderer could not say it."""
    source, value = observed
    removed = source.removed(value) if source.removed is not None else None
    for rendered, what in ((text, kind), (removed, "removal")):
        if rendered == "":
            raise EmptyRenderingError(source.key, what)
    if isinstance(text, Unavailable) or isinstance(removed, Unavailable):
        return None
    return text, Entry(value=msgspec.Raw(source.codec.encode(value)), removed=removed)


def _differs(source: AnySource, value: Any, previous: Snapshot) -> bool:
    """A codec may keep less than the loader gave (a tuple for a list, a finer time), which is no change."""
    admitted = previous.value(source.key, source.codec)
    return bool(admitted != value) and bool(admitted != source.codec.decode(source.codec.encode(value)))
