"""Stores the user's decisions about settings of projects that need trust."""

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
    """Shared by all processes of the user. A running server applies a change when it reloads its configuration."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._store = TrustStore(directories(os.environ if environment is None else environment).state)

    def grant(self, sources: Iterable[ConfigSource]) -> None:
        """Trust the present settings of these sources; changed settings need a new decision."""
        self._store.decide(((Path(source.path), source.digest) for source in sources), trusted=True)

    def decline(self, sources: Iterable[ConfigSource]) -> None:
        """Store the refusal, so that the user is not asked again about the same settings."""
        self._store.decide(((Path(source.path), source.digest) for source in sources), trusted=False)

    def undecided(self, sources: Iterable[ConfigSource]) -> tuple[ConfigSource, ...]:
        """The sources for whose present settings there is no decision."""
        return tuple(source for source in sources if not self._store.decided(Path(source.path), source.digest))

    def revoke(self, folder: str | Path) -> tuple[Path, ...]:
        """Remove all decisions about this folder and everything in it. Returns the paths that were trusted."""
        return self._store.revoke(Path(folder))

    def list(self) -> tuple[Path, ...]:
        """The trusted paths."""
        return tuple(Path(path) for path, found in sorted(self._store.list().items()) if found.trusted)
