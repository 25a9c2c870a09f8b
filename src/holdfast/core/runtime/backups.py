"""`holdfast backup` and `restore`: which files are meant, and who uses them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.config.environment import directories
from holdfast.core.database import backup
from holdfast.core.database.errors import RestoreRefused, StorageError
from holdfast.core.database.place import public_place
from holdfast.core.runtime.paths import default_paths
from holdfast.core.runtime.restored import remove_access
from holdfast.core.runtime.storage_choice import storage_place
from holdfast.core.session.liveness import FileLiveness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.database.backup import BackupInfo

    Told = Callable[[str, int, int], None]


def back_up(target: Path, environment: Mapping[str, str], told: Told) -> BackupInfo:
    """Back up the database file of this installation, whoever uses it. Blocks."""
    file = _file(environment)
    if not file.is_file():
        raise StorageError(f"There is no database at {file}, so there is nothing to back up.")
    return backup.back_up(file, _managed(environment), target, told)


def check(path: Path, told: Told) -> BackupInfo:
    """Blocks."""
    return backup.check(path, told)


def restore(path: Path, environment: Mapping[str, str], told: Told, *, with_access: bool = False) -> BackupInfo:
    """Make the database of this installation from a backup, if there is none and no process is left that had one.
    `with_access` also takes over what lets others in and what was approved. Blocks."""
    file = _file(environment)
    owners = default_paths(dict(environment)).owners
    if living := _living(owners):
        raise RestoreRefused(
            f"A process uses {file.parent} ({living[0]}). End it first: a server with Ctrl-C or SIGTERM."
        )
    left_out: dict[str, int] = {}

    def prepare(draft: Path) -> None:
        if not with_access:
            left_out.update(remove_access(draft))

    info = backup.restore(path, file, _managed(environment), told, prepare)
    return info.replace(left_out=left_out)


def _file(environment: Mapping[str, str]) -> Path:
    place = storage_place(None, environment, default_paths(dict(environment)).database)
    if isinstance(place, Path):
        return place
    raise StorageError(
        f"Sessions are stored in {public_place(place)}. PostgreSQL has its own backups: `pg_dump --format=custom "
        "--file=FILE DATABASE` while servers run, and `pg_restore --dbname=DATABASE FILE` into an empty database."
    )


def _managed(environment: Mapping[str, str]) -> Path:
    return directories(environment).replace(data=default_paths(dict(environment)).data).tool_output


def _living(owners: Path) -> list[str]:
    """Processes that hold their lock. A lock that nobody holds is removed, as anywhere."""
    liveness = FileLiveness(owners)
    names = sorted(os.listdir(owners)) if owners.is_dir() else []
    return [name for name in names if liveness.lives(name, None)]
