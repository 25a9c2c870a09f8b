"""The configuration that is in force, and taking over a new one.

Invariants
- A new configuration counts completely or not at all: everything that may fail has been done before the first domain
  hears of it, and all domains change in one batch, in the order in which they follow. Policy follows first.
- A file that cannot be used leaves the former configuration in force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from holdfast.core.config.config import Config, describe

if TYPE_CHECKING:
    from holdfast.core.config.document import Diagnostic
    from holdfast.core.scope import Scope
    from holdfast.core.state import Batches

Take: TypeAlias = Callable[[], None]
Prepare: TypeAlias = Callable[[Config], Take]
"""Reads what it needs, in a thread, and may raise; what it returns takes it over and may not."""


class ConfigRefused(Exception):
    """The configuration on disk has a fatal problem; the former one stays in force."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        fatal = tuple(problem for problem in diagnostics if problem.severity == "error")
        super().__init__("; ".join(map(describe, fatal)))
        self.diagnostics = fatal


class LiveConfig:
    def __init__(self, load: Callable[[], Config], batches: Batches) -> None:
        self._load = load
        self._batches = batches
        self._followers: list[Prepare] = []
        self._reloading = asyncio.Lock()
        self.current = load()

    def follow(self, prepare: Prepare, scope: Scope) -> None:
        """Take over each new configuration until the scope closes."""
        self._followers.append(prepare)
        scope.add(lambda: self._followers.remove(prepare))

    async def reload(self) -> Config:
        """Read everything again. Raises ConfigRefused."""
        async with self._reloading:
            followers = tuple(self._followers)
            config, takes = await asyncio.to_thread(self._prepared, followers)
            self.current = config
            with self._batches.batch():
                for prepare, take in zip(followers, takes, strict=True):
                    if prepare in self._followers:
                        take()
            return config

    def _prepared(self, followers: tuple[Prepare, ...]) -> tuple[Config, list[Take]]:
        config = self._load()
        if config.refused:
            raise ConfigRefused(config.diagnostics())
        return config, [prepare(config) for prepare in followers]
