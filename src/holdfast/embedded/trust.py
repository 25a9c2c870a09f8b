"""Decisions about projects, as a user makes them: what is trusted, and what was declined."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.config.environment import directories
from holdfast.core.config.trust import TrustStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.schema.configuration import ConfigSource


class ProjectTrust:
    """Shared by all processes of this user. A running server takes a change over when it reads its files again."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._store = TrustStore(directories(os.environ if environment is None else environment).state)

    def grant(self, sources: Iterable[ConfigSource]) -> None:
        """Trust exactly what these sources want; what they want later has to be granted anew."""
        self._store.decide(((Path(source.path), source.digest) for source in sources), trusted=True)

    def decline(self, sources: Iterable[ConfigSource]) -> None:
        """Remember the refusal, so that nobody is asked again about the same settings."""
        self._store.decide(((Path(source.path), source.digest) for source in sources), trusted=False)

    def undecided(self, sources: Iterable[ConfigSource]) -> tuple[ConfigSource, ...]:
        """Those about which nobody said anything in their present form."""
        return tuple(source for source in sources if not self._store.decided(Path(source.path), source.digest))

    def revoke(self, folder: str | Path) -> tuple[Path, ...]:
        """Forget every decision about this folder and what is in it; the paths that were trusted."""
        return self._store.revoke(Path(folder))

    def list(self) -> tuple[Path, ...]:
        """What is trusted."""
        return tuple(Path(path) for path, found in sorted(self._store.list().items()) if found.trusted)
