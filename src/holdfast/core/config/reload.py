"""Holds the current configuration and applies edits.

Invariants
- A new configuration is applied completely or not at all: everything that may fail happens before the first domain
  changes, and all domains change in one batch, in the order of registration. Policy comes first.
- A file with an error leaves the previous configuration in force and stays reported until a reload succeeds.
- A broken edit is tried once: only another change of the files triggers a new attempt."""

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

CHECKED_INLINE = 64
"""Up to this many paths are checked on the event loop; more are checked in a thread."""
UNCHANGED_SECONDS = 0.05
"""An edit is applied once no file has changed for this long, because an editor may still be writing."""
LONGEST_WAIT = 0.5
KEPT = "; the configuration before this edit stays in force"

Apply: TypeAlias = Callable[[], None]
Prepare: TypeAlias = Callable[[Config], Apply]
"""Reads what it needs, in a thread, and may raise; the returned function applies it and must not raise."""

log = logging.getLogger(__name__)


class ConfigRefused(HoldfastError):
    """The configuration on disk has a fatal problem; the former one stays in force."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        fatal = tuple(problem for problem in diagnostics if problem.severity == "error")
        super().__init__("; ".join(map(describe, fatal)))
        self.diagnostics = fatal


def refuse_errors(diagnostics: Iterable[Diagnostic]) -> None:
    """Raises ConfigRefused if there is an error among the diagnostics."""
    if fatal := [problem for problem in diagnostics if problem.severity == "error"]:
        raise ConfigRefused(fatal)


class LiveConfig:
    def __init__(self, load: Callable[[], Config], batches: Batches, applied: Callable[[], None] | None = None) -> None:
        """`applied` is called after each successful reload."""
        self._load = load
        self._batches = batches
        self._applied = applied
        self._followers: list[Prepare] = []
        self._reloading = asyncio.Lock()
        self._rejected_edit: tuple[Diagnostic, ...] = ()
        self.current = load()
        self._watch = self.current.watch

    def follow(self, prepare: Prepare, scope: Scope) -> None:
        """Apply each new configuration until the scope closes."""
        self._followers.append(prepare)
        scope.add(lambda: self._followers.remove(prepare))

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Problems of the current configuration, and of a later edit that could not be applied."""
        edits = (problem.replace(message=f"{problem.message}{KEPT}") for problem in self._rejected_edit)
        return (*edits, *self.current.diagnostics())

    async def refresh(self) -> None:
        """Apply edits made since the last check. Never raises for a file's content: a broken edit is reported, and the
        turn continues with the previous configuration."""
        if not await self._edited():
            return
        async with self._reloading:
            if not await self._edited():
                return  # another task applied it
            await self._wait_until_unchanged()
            try:
                await self._reload()
            except ConfigRefused as refused:
                log.error("the edited configuration is not applied: %s", refused)
            except Exception:  # the turn continues with the previous configuration
                log.exception("the edited configuration could not be applied")

    async def reload(self) -> Config:
        """Read all files again. Raises ConfigRefused."""
        async with self._reloading:
            return await self._reload()

    async def _reload(self) -> Config:
        followers, loaded = tuple(self._followers), list[Config]()
        try:
            applies = await asyncio.to_thread(self._prepare_all, followers, loaded)
        except Exception as error:  # not for a cancellation: the edit was not applied and must be detected again
            fatal = error.diagnostics if isinstance(error, ConfigRefused) else None
            self._rejected_edit = fatal or (Diagnostic("configuration", f"could not be read: {error}", None, "error"),)
            self._watch = loaded[0].watch if loaded else self._watch
            raise
        config = loaded[0]
        self.current, self._watch, self._rejected_edit = config, config.watch, ()
        with self._batches.batch():
            for prepare, apply in zip(followers, applies, strict=True):
                if prepare in self._followers:
                    apply()
        if self._applied is not None:
            self._applied()
        return config

    def _prepare_all(self, followers: tuple[Prepare, ...], loaded: list[Config]) -> list[Apply]:
        """Adds the configuration to `loaded`, even if it is refused."""
        loaded.append(config := self._load())
        if config.refused:
            raise ConfigRefused(config.diagnostics())
        return [prepare(config) for prepare in followers]

    async def _edited(self) -> bool:
        if len(self._watch) <= CHECKED_INLINE:
            return self._watch.changed()
        return await asyncio.to_thread(self._watch.changed)

    async def _wait_until_unchanged(self) -> None:
        deadline = time.monotonic() + LONGEST_WAIT
        while time.monotonic() < deadline:
            age = (time.time_ns() - await asyncio.to_thread(self._watch.newest)) / 1e9
            if not 0 <= age < UNCHANGED_SECONDS:
                return
            await asyncio.sleep(UNCHANGED_SECONDS - age)
