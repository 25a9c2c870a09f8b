"""Replayable state: a domain's value is its initial value with all registered transforms applied.

Nothing is undone: a removed transform is simply absent at the next rebuild, so removal leaves nothing behind.

Invariants
- A rebuild is one synchronous step: readers see the old value or the new one, and cancellation cannot split it.
- Transforms run by phase, then in registration order, each on a copy. A transform that raises has no effect.
- A transform must not add to or reload the state that is being rebuilt; that fails like any other error in it. It may
  remove itself, effective from the next rebuild.
- Inside a batch nothing is rebuilt. At its end every changed domain is rebuilt once, in creation order, and only then
  observers are notified."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import msgspec

from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.scope import Scope

MOST_FAILURES = 3
"""Consecutive failures; after that a transform is skipped until it is registered again."""

log = logging.getLogger(__name__)


class Phase(IntEnum):
    """The order of transforms: a plugin that is loaded late still runs before the user's configuration."""

    BUILTIN = 0
    DISCOVERY = 1
    PLUGIN = 2
    TOOL_RULES = 3
    """Rules that make plugin tools ask: after all agents' own rules, before those of the user."""
    CONFIG = 4
    VARIANTS = 5
    POLICY = 6


class Draft(Protocol):
    def copy(self) -> Self:
        """A copy; transforms must not be able to change the original through it."""


D = TypeVar("D", bound=Draft)


class ReentrantChange(HoldfastError, RuntimeError):
    """A transform tried to change the state that is being rebuilt with it."""


class TransformFailure(Frozen):
    owner: str
    """Who registered the transform: a plugin's id or the name of a built-in part."""
    message: str
    in_a_row: int


class _Transform(msgspec.Struct, Generic[D], eq=False):
    owner: str
    phase: Phase
    apply: Callable[[D], None]
    failures: int = 0


class Batches:
    """The domains of one Location, which are rebuilt together."""

    def __init__(self) -> None:
        self._states: list[_Rebuilt] = []
        self._depth = 0

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Synchronous, so that no other task can register inside it. An inner batch joins the outer one."""
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
        """`finalize` runs after all transforms; `updated` is called when a new value can be read."""
        self._initial = initial
        self._batches = batches
        self._finalize = finalize
        self._updated = updated
        self._transforms: list[_Transform[D]] = []
        self._failures: tuple[TransformFailure, ...] = ()
        self._dirty = False
        self._rebuilding = False
        self.value = self._build()
        batches.join(self)

    def transform(
        self, apply: Callable[[D], None], scope: Scope, *, phase: Phase, owner: str = "holdfast"
    ) -> Callable[[], None]:
        """Register until `scope` closes. Returns a function that removes it early."""
        entry = _Transform(owner, phase, apply)

        def remove() -> None:
            self._transforms.remove(entry)
            self._dirty = True
            if not self._rebuilding:  # otherwise the batch flushes again
                self._batches.changed()

        self._change()
        at = next((i for i, other in enumerate(self._transforms) if other.phase > phase), len(self._transforms))
        self._transforms.insert(at, entry)
        dispose = scope.add(remove)
        self._batches.changed()
        return dispose

    def reload(self) -> None:
        """Run all transforms again because their input has changed."""
        self._change()
        self._batches.changed()

    @property
    def failures(self) -> tuple[TransformFailure, ...]:
        """Failures of the last rebuild."""
        return self._failures

    def rebuild(self) -> bool:
        """Rebuild if something changed; returns whether it did. Called by the batch."""
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
            draft, failures = self._initial(), list[TransformFailure]()
            for transform in tuple(self._transforms):
                draft = self._apply(transform, draft, failures)
            if self._finalize is not None:
                self._finalize(draft)
            self._failures = tuple(failures)
            # A transform may keep a reference to its draft.
            return draft.copy()
        finally:
            self._rebuilding = False

    def _apply(self, transform: _Transform[D], draft: D, failures: list[TransformFailure]) -> D:
        if transform.failures >= MOST_FAILURES:
            failures.append(TransformFailure(transform.owner, "skipped: it failed too often", transform.failures))
            return draft
        changed = draft.copy()
        try:
            transform.apply(changed)
        except (Exception, SystemExit) as error:  # plugin errors, including attempts to exit the process
            transform.failures += 1
            failures.append(TransformFailure(transform.owner, f"{type(error).__name__}: {error}", transform.failures))
            log.warning("a transform of %s failed", transform.owner, exc_info=True)
            return draft
        transform.failures = 0
        return changed
