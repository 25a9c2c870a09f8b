"""Moving a Session to another directory of its project, or giving it the label that its directory has here. Its work is
interrupted first, and what waits for a person is declined: no call runs in another directory than the one that was
shown with it. The epoch ends with the move."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.project.directory import canonical_directory
from holdfast.core.project.project import subpath
from holdfast.core.runtime.end_work import interrupt_work
from holdfast.core.session.errors import ChangesNotMoved, DestinationMismatch
from holdfast.core.session.roots import label_of
from holdfast.core.snapshot.errors import TransferError
from holdfast.schema.deferred import deferred
from holdfast.schema.location import Location
from holdfast.schema.session_event import Moved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.clock import Clock
    from holdfast.core.event.log import EventLog
    from holdfast.core.process.git import Git
    from holdfast.core.project.project import Project
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.session.store import SessionStore
    from holdfast.core.snapshot import transfer
    from holdfast.schema.session import Session
else:
    transfer = deferred("holdfast.core.snapshot.transfer")


class Moves:
    def __init__(
        self,
        log: EventLog,
        store: SessionStore,
        execution: Execution,
        project: Callable[[Location], Awaitable[Project]],
        clock: Clock,
        git: Git,
    ) -> None:
        self._log = log
        self._store = store
        self._execution = execution
        self._project = project
        self._clock = clock
        self._git = git

    async def move(self, session_id: str, directory: str, *, move_changes: bool = False) -> None:
        session = await self._store.get(session_id)
        placement = self._execution.placement
        placement.check_files(session.location)
        directory = canonical_directory(directory)
        destination = placement.located(Location(directory=directory))
        same_label = label_of(destination) in (None, label_of(session.location))
        if same_label and directory == canonical_directory(session.location.directory):
            return
        project = await self._project(destination)
        if project.id != session.project_id:
            raise DestinationMismatch(session.project_id, project.id)
        await interrupt_work(self._execution, self._store, session_id)
        try:
            await self._carry(session, destination, project, move_changes=move_changes)
        except TransferError as error:
            raise ChangesNotMoved(error.step, error.directory, error.reason) from error
        finally:
            self._execution.wake(session_id)

    async def _carry(self, session: Session, destination: Location, project: Project, *, move_changes: bool) -> None:
        session_id, directory = session.id, destination.directory
        source = await self._project(session.location)
        changes = None
        if move_changes and source.store is not None and source.directory != project.directory:
            changes = await transfer.capture(self._git, source.directory, Path(session.location.directory))
            await transfer.apply(self._git, changes, project.directory)
        moved = Moved(
            timestamp=self._clock.now(),
            session_id=session_id,
            location=destination,
            subdirectory=subpath(directory, project.listed_directory),
        )
        await self._log.publish(moved, location=destination)
        if changes is not None:
            await transfer.discard(self._git, changes)
