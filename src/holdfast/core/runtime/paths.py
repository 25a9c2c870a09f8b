"""Where an installation keeps its data. Apart from the runtime, so that a client finds its server without importing
that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.config.environment import APP_NAME, CONFIG_NAME, home_directory
from holdfast.core.filesystem.own_folders import OwnFolders
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.config.environment import Directories

SIDE_FILES = ("", "-wal", "-shm")
"""What SQLite adds to the name of a database."""


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


def own_folders(here: Directories, paths: Paths, database: Path | None, environment: Mapping[str, str]) -> OwnFolders:
    """What tools may do in the folders of this installation. `database` is a file that may be elsewhere."""
    user = Path(environment.get("XDG_CONFIG_HOME") or home_directory(environment) / ".config")
    configuration = (here.config, user / CONFIG_NAME, user / APP_NAME)
    return OwnFolders.of(
        closed=(
            *(here.data, here.state),
            *(() if database is None else (Path(f"{database}{suffix}") for suffix in SIDE_FILES)),
        ),
        outside=configuration,
        readable=(here.tool_output, here.repos),
        writable=(paths.copies, here.plans),
    )
