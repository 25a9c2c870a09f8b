"""Where an installation keeps its data. Apart from the runtime, so that a client finds its server without importing
that."""

from __future__ import annotations

from pathlib import Path

from holdfast.schema.frozen import Frozen


class Paths(Frozen):
    """Where this installation keeps its data. With an address of a database, everything but the Sessions."""

    data: Path

    @property
    def database(self) -> Path:
        return self.data / "holdfast.db"

    @property
    def credentials(self) -> Path:
        return self.data / "credentials.json"

    @property
    def copies(self) -> Path:
        """Isolated copies of projects, in which Sessions work."""
        return self.data / "copies"

    @property
    def owners(self) -> Path:
        return self.data / "owners"


def default_paths(environment: dict[str, str]) -> Paths:
    home = Path(environment.get("HOME", "~")).expanduser()
    base = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return Paths(Path(environment.get("HOLDFAST_DATA") or base / "holdfast"))
