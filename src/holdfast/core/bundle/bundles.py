"""What others ask of bundles: export to a file, verify, import."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from holdfast.core.bundle.errors import BundleInvalid
from holdfast.core.bundle.export import Exporter
from holdfast.core.bundle.importing import Importer
from holdfast.core.bundle.in_thread import in_thread
from holdfast.core.bundle.relocation import Relocation
from holdfast.core.bundle.selection import Selecting
from holdfast.core.bundle.verification import MOST_BYTES, verify
from holdfast.core.project.directory import canonical_directory
from holdfast.core.redaction import Redaction
from holdfast.core.session.stored_trees import StoredTrees
from holdfast.schema.exceptions import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.event.log import EventLog
    from holdfast.core.project.project import Project
    from holdfast.core.session.store import SessionStore
    from holdfast.core.tool.output import OutputStore
    from holdfast.schema.bundle import BundleReport, ImportReport
    from holdfast.schema.location import Location

    Told = Callable[[str, int, int], None]
    """Gets what is done, how many Sessions are done, and how many there are."""

HOME = "/home/user"
"""Takes the place of the home directory in a redacted bundle: directories of Sessions are absolute."""


def _quiet(what: str, done: int, total: int) -> None:
    pass


class Bundles:
    def __init__(
        self,
        log: EventLog,
        database: Database,
        store: SessionStore,
        outputs: OutputStore,
        project: Callable[[Location], Awaitable[Project]],
        clock: Clock,
        environment: Mapping[str, str],
    ) -> None:
        """`environment` has the secrets and the home directory that a redaction replaces."""
        self._log = log
        self._environment = environment
        trees = StoredTrees(database)
        self._exporter = Exporter(log, database, Selecting(log, database, trees), outputs)
        self._importer = Importer(log, database, store, outputs, clock)
        self._relocation = Relocation(log, trees, project, clock)

    async def export(
        self, session_ids: Sequence[str] | None, path: Path, told: Told = _quiet, *, redact: bool = False
    ) -> BundleReport:
        """Write a bundle with the trees of these Sessions, or of all. The file is there when it is complete; one that
        was there is replaced then. With `redact`, secrets and the home directory are replaced in it."""
        async with complete_file(path) as file:
            return await self._exporter.export(_given(session_ids), file, told, redaction=self._redaction(redact))

    async def export_into(
        self,
        session_ids: Sequence[str] | None,
        file: IO[bytes],
        *,
        redact: bool = False,
        check: Callable[[str], Awaitable[None]] | None = None,
    ) -> BundleReport:
        """As above, into a file that the caller owns. `check` raises for a Session that may not be in it."""
        return await self._exporter.export(_given(session_ids), file, redaction=self._redaction(redact), check=check)

    async def verify(self, path: Path, told: Told = _quiet) -> BundleReport:
        """Read a bundle to its end. Raises BundleInvalid."""
        with _opened(path) as file:
            return await in_thread(verify, file, self._log.adoption.check, MOST_BYTES, told)

    async def import_from(
        self,
        path: Path,
        *,
        directory: str | None = None,
        accept_changes: bool = False,
        most: int = MOST_BYTES,
        told: Told = _quiet,
    ) -> ImportReport:
        """Import all of a bundle, or nothing. `directory` takes the place of the one that the Sessions were in. With
        `accept_changes` a bundle may change Sessions that are here, not only continue their conversations."""
        destination = None
        if directory is not None:
            destination = canonical_directory(directory)
            if not await in_thread(Path(destination).is_dir):
                raise InvalidRequest(f"There is no directory {directory}. Nothing was imported.", field="directory")
        one = destination is not None
        report = await self._importer.import_bundle(
            lambda: _opened(path), most, told, one_directory=one, accept_changes=accept_changes
        )
        return await self._relocation.relocate(report, destination) if destination is not None else report

    def _redaction(self, active: bool) -> Redaction:
        return Redaction.of(self._environment, HOME) if active else Redaction.none()


@asynccontextmanager
async def complete_file(path: Path) -> AsyncIterator[IO[bytes]]:
    """A file that gets its name when all of it is written. Only its owner can read it."""
    handle, draft = _draft(path)  # not awaited: a cancellation must not come between the file and its name
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            await in_thread(os.fsync, file.fileno())
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _draft(path: Path) -> tuple[int, str]:
    return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600


def _given(session_ids: Sequence[str] | None) -> list[str] | None:
    return None if session_ids is None else list(session_ids)


def _opened(path: Path) -> IO[bytes]:
    """A regular file: opening a pipe would wait for its writer."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BundleInvalid(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BundleInvalid(f"{path} is no regular file; copy what it gives to a file first")
    return os.fdopen(handle, "rb")
