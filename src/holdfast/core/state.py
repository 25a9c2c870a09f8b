"""Replayable state: what a domain holds is always its initial value put through the transforms that are registered.

Nothing is ever undone. Leaving is the absence of a transform at the next rebuild, so removal leaves nothing behind and
overrides fall out of the order.

Invariants
- A rebuild is one synchronous step: readers see the old value or the new one, and a cancelled task cannot split it.
- Transforms run by phase, then in the order of their registration, each on a copy. One that raises has changed nothing.
- A transform may not add to the state it is running under or reload it: that fails like any other mistake of it. It
  may take itself out, which counts from the next rebuild on.
- Inside a batch nothing is rebuilt; at its end every domain that changed is rebuilt once, in the order in which the
  domains were made, and only then are observers told."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.scope import Scope

MOST_FAILURES = 3
"""In a row; after that a transform is skipped until it is registered anew."""

log = logging.getLogger(__name__)


class Phase(IntEnum):
    """A plugin that arrives late still runs before what the user configured."""

    BUILTIN = 0
    DISCOVERY = 1
    PLUGIN = 2
    TOOL_RULES = 3
    """That tools of plugins are asked for: after every agent's own rules, before those of the user."""
    CONFIG = 4
    VARIANTS = 5
    POLICY = 6


class Draft(Protocol):
    def copy(self) -> Self:
        """Independent in everything that a transform can change."""


D = TypeVar("D", bound=Draft)


class ReentrantChange(HoldfastError, RuntimeError):
    """A transform tried to change the state that is being rebuilt with it."""


class Failure(Frozen):
    owner: str
    """Who registered the transform: a plugin's id, or the name of our own part."""
    message: str
    in_a_row: int


class _Transform(Generic[D]):
    def __init__(self, owner: str, phase: Phase, apply: Callable[[D], None]) -> None:
        self.owner = owner
        self.phase = phase
        self.apply = apply
        self.failures = 0


class Batches:
    """The domains of one Location, rebuilt together."""

    def __init__(self) -> None:
        self._states: list[_Rebuilt] = []
        self._depth = 0

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Synchronous on purpose: no other task can register into it. An inner batch joins the outer one."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._flush()

    def join(self, state: _Rebuilt) -> None:
        self._states.append(state)

    def changed(self) -> None:
        if self._depth == 0:
            self._flush()

    def _flush(self) -> None:
        while rebuilt := [state for state in self._states if state.rebuild()]:
            for state in rebuilt:
                state.announce()


class _Rebuilt(Protocol):
    def rebuild(self) -> bool: ...

    def announce(self) -> None: ...


class State(Generic[D]):
    def __init__(
        self,
        initial: Callable[[], D],
        batches: Batches,
        *,
        finalize: Callable[[D], None] | None = None,
        updated: Callable[[], None] | None = None,
    ) -> None:
        """`finalize` has the last word over every transform; `updated` is told once a new value can be read."""
        self._initial = initial
        self._batches = batches
        self._finalize = finalize
        self._updated = updated
        self._transforms: list[_Transform[D]] = []
        self._failures: tuple[Failure, ...] = ()
        self._dirty = False
        self._rebuilding = False
        self.value = self._build()
        batches.join(self)

    def transform(
        self, apply: Callable[[D], None], scope: Scope, *, phase: Phase, owner: str = "holdfast"
    ) -> Callable[[], None]:
        """Register until `scope` closes; what is returned takes it out early."""
        entry = _Transform(owner, phase, apply)

        def remove() -> None:
            self._transforms.remove(entry)
            self._dirty = True
            if not self._rebuilding:  # else the batch comes back for it
                self._batches.changed()

        self._change()
        at = next((i for i, other in enumerate(self._transforms) if other.phase > phase), len(self._transforms))
        self._transforms.insert(at, entry)
        dispose = scope.add(remove)
        self._batches.changed()
        return dispose

    def reload(self) -> None:
        """Run every transform again: something that one of them reads has changed."""
        self._change()
        self._batches.changed()

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Of the last rebuild."""
        return self._failures

    def rebuild(self) -> bool:
        """Called by the batch."""
        if not self._dirty:
            return False
        self._dirty = False
        self.value = self._build()
        return True

    def announce(self) -> None:
        if self._updated is not None:
            self._updated()

    def _change(self) -> None:
        if self._rebuilding:
            raise ReentrantChange("a transform cannot change the state that it is part of")
        self._dirty = True

    def _build(self) -> D:
        self._rebuilding = True
        try:
            draft, failures = self._initial(), list[Failure]()
            for transform in tuple(self._transforms):
                draft = self._applied(transform, draft, failures)
            if self._finalize is not None:
                self._finalize(draft)
            self._failures = tuple(failures)
            # A transform may have kept the draft it was given.
            return draft.copy()
        finally:
            self._rebuilding = False

    def _applied(self, transform: _Transform[D], draft: D, failures: list[Failure]) -> D:
        if transform.failures >= MOST_FAILURES:
            failures.append(Failure(transform.owner, "skipped: it failed too often", transform.failures))
            return draft
        changed = draft.copy()
        try:
            transform.apply(changed)
        except (Exception, SystemExit) as error:  # a plugin's mistake, also when it would end the process
            transform.failures += 1
            failures.append(Failure(transform.owner, f"{type(error).__name__}: {error}", transform.failures))
            log.warning("a transform of %s failed", transform.owner, exc_info=True)
            return draft
        transform.failures = 0
        return changed
