"""The configuration that is in force, and taking over a new one.

Invariants
- A new configuration counts completely or not at all: everything that may fail has been done before the first domain
  hears of it, and all domains change in one batch, in the order in which they follow. Policy follows first.
- A file that cannot be used leaves the former configuration in force, and stays reported until a later reload succeeds.
- A broken edit is tried once, not at each boundary: only another change of the files makes it worth another try."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from holdfast.core.config.config import Config, describe
from holdfast.core.diagnostic import Diagnostic
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.scope import Scope
    from holdfast.core.state import Batches

LOOKED_AT_INLINE = 64
"""Paths that may be looked at on the loop; more of them are looked at in a thread."""
STILL_SECONDS = 0.05
"""An edit is taken over once no file has changed for this long: an editor may be in the middle of writing."""
LONGEST_WAIT = 0.5
KEPT = "; the configuration before this edit stays in force"

Take: TypeAlias = Callable[[], None]
Prepare: TypeAlias = Callable[[Config], Take]
"""Reads what it needs, in a thread, and may raise; what it returns takes it over and may not."""

log = logging.getLogger(__name__)


class ConfigRefused(HoldfastError):
    """The configuration on disk has a fatal problem; the former one stays in force."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        fatal = tuple(problem for problem in diagnostics if problem.severity == "error")
        super().__init__("; ".join(map(describe, fatal)))
        self.diagnostics = fatal


def refuse_errors(diagnostics: Iterable[Diagnostic]) -> None:
    """For those who prepare. Raises ConfigRefused if a file cannot be used as it was meant."""
    if fatal := [problem for problem in diagnostics if problem.severity == "error"]:
        raise ConfigRefused(fatal)


class LiveConfig:
    def __init__(
        self, load: Callable[[], Config], batches: Batches, taken_over: Callable[[], None] | None = None
    ) -> None:
        """`taken_over` is called after each reload that succeeded."""
        self._load = load
        self._batches = batches
        self._taken_over = taken_over
        self._followers: list[Prepare] = []
        self._reloading = asyncio.Lock()
        self._refused: tuple[Diagnostic, ...] = ()
        self.current = load()
        self._watch = self.current.watch

    def follow(self, prepare: Prepare, scope: Scope) -> None:
        """Take over each new configuration until the scope closes."""
        self._followers.append(prepare)
        scope.add(lambda: self._followers.remove(prepare))

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Of the configuration in force, and of a later edit that could not be taken over."""
        edits = (problem.replace(message=f"{problem.message}{KEPT}") for problem in self._refused)
        return (*edits, *self.current.diagnostics())

    async def refresh(self) -> None:
        """Take over what was edited since the last look, if anything was. Never raises for what a file contains: a
        broken edit is reported, and the turn goes on with what it had."""
        if not await self._edited():
            return
        async with self._reloading:
            if not await self._edited():
                return  # somebody else took it over
            await self._until_still()
            try:
                await self._reload()
            except ConfigRefused as refused:
                log.error("an edit of the configuration is not taken over: %s", refused)
            except Exception:  # the turn needs a configuration, and has one
                log.exception("an edit of the configuration could not be taken over")

    async def reload(self) -> Config:
        """Read everything again. Raises ConfigRefused."""
        async with self._reloading:
            return await self._reload()

    async def _reload(self) -> Config:
        followers, loaded = tuple(self._followers), list[Config]()
        try:
            takes = await asyncio.to_thread(self._prepared, followers, loaded)
        except Exception as error:  # but not a cancellation: then nobody took the edit over, and it is seen again
            fatal = error.diagnostics if isinstance(error, ConfigRefused) else None
            self._refused = fatal or (Diagnostic("configuration", f"could not be read: {error}", None, "error"),)
            self._watch = loaded[0].watch if loaded else self._watch
            raise
        config = loaded[0]
        self.current, self._watch, self._refused = config, config.watch, ()
        with self._batches.batch():
            for prepare, take in zip(followers, takes, strict=True):
                if prepare in self._followers:
                    take()
        if self._taken_over is not None:
            self._taken_over()
        return config

    def _prepared(self, followers: tuple[Prepare, ...], loaded: list[Config]) -> list[Take]:
        """`loaded` gets the configuration, also one that is refused."""
        loaded.append(config := self._load())
        if config.refused:
            raise ConfigRefused(config.diagnostics())
        return [prepare(config) for prepare in followers]

    async def _edited(self) -> bool:
        if len(self._watch) <= LOOKED_AT_INLINE:
            return self._watch.changed()
        return await asyncio.to_thread(self._watch.changed)

    async def _until_still(self) -> None:
        deadline = time.monotonic() + LONGEST_WAIT
        while time.monotonic() < deadline:
            age = (time.time_ns() - await asyncio.to_thread(self._watch.newest)) / 1e9
            if not 0 <= age < STILL_SECONDS:
                return
            await asyncio.sleep(STILL_SECONDS - age)
