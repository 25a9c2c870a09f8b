"""Gives imported Sessions another directory, as recorded moves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.project.project import subpath
from holdfast.schema.location import Location
from holdfast.schema.session_event import Moved

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.clock import Clock
    from holdfast.core.event.log import EventLog
    from holdfast.core.project.project import Project
    from holdfast.core.session.stored_trees import StoredTrees
    from holdfast.schema.bundle import ImportReport


class Relocation:
    def __init__(
        self, log: EventLog, trees: StoredTrees, project: Callable[[Location], Awaitable[Project]], clock: Clock
    ) -> None:
        self._log = log
        self._trees = trees
        self._project = project
        self._clock = clock

    async def relocate(self, report: ImportReport, destination: str) -> ImportReport:
        """Put the root of each tree at the destination, and what was in or below its directory there too. Other
        Sessions stay where they are."""
        directories = {session.id: session.directory for session in report.sessions}
        moved = []
        for session in report.sessions:
            above = await self._trees.ancestors(session.id)
            base = directories.get(above[0].id) if above else session.directory
            new = session.directory if base is None else _mapped(session.directory, base, destination)
            if new != session.directory:
                await self._move(session.id, new)
            moved.append(replace(session, directory=new, directory_exists=Path(new).is_dir()))
        return replace(report, sessions=tuple(moved))

    async def _move(self, session_id: str, directory: str) -> None:
        location = Location(directory=directory)
        project = await self._project(location)
        moved = Moved(
            timestamp=self._clock.now(),
            session_id=session_id,
            location=location,
            subdirectory=subpath(directory, project.listed_directory),
        )
        await self._log.publish(moved, location=location)


def _mapped(directory: str, base: str, destination: str) -> str:
    if directory == base:
        return destination
    if directory.startswith(base.rstrip("/") + "/"):
        return os.path.normpath(os.path.join(destination, os.path.relpath(directory, base)))
    return directory
