"""What a doctor looks at beside the rows: the disk, the processes on the store, the rights of files, the clock, models
and MCP servers. Each check costs little, writes nothing and starts nothing."""

from __future__ import annotations

import asyncio
import shutil
import stat
from typing import TYPE_CHECKING

from holdfast.core.database.info import ROLE_FIX, superuser_problem
from holdfast.core.database.schema_check import SchemaObject, foreign_objects
from holdfast.schema.frozen import Frozen
from holdfast.schema.overview import DoctorFinding
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.database.database import Database
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.runtime.system import System
    from holdfast.schema.location import Location
    from holdfast.schema.overview import SystemInfo

LEAST_FREE = 1024**3
"""Bytes of free space below which a disk counts as nearly full."""
LARGEST_LOG = 1024**3
"""Bytes of SQLite's write-ahead log. More means that something keeps it from being folded into the file."""
CLOCK_MILLISECONDS = 60_000
"""How far the newest change may be ahead of this machine's clock."""
MOST_NAMED = 10
"""Foreign parts of a schema that a finding names."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class _Newest(Frozen):
    time: int | None


class EnvironmentChecks:
    def __init__(
        self,
        system: System,
        database: Database,
        data: Path,
        locations: ServiceMap[LocationServices],
        location: Location,
    ) -> None:
        """`data` is the folder with the files of this installation."""
        self._system = system
        self._database = database
        self._data = data
        self._locations = locations
        self._location = location

    async def findings(self) -> list[DoctorFinding]:
        info = await self._system.info()
        return [
            *await asyncio.to_thread(self._disk, info),
            *await self._store(info),
            *_processes(info),
            *await asyncio.to_thread(lambda: [*_rights(self._data)]),
            *await self._clock(info.now),
            *await self._services(),
        ]

    def _disk(self, info: SystemInfo) -> list[DoctorFinding]:
        store, found = info.store, []
        free = store.free_bytes if store.free_bytes is not None else _free(self._data)
        if free is not None and free < LEAST_FREE:
            found.append(
                DoctorFinding(
                    check="disk",
                    level="warning",
                    what=f"{_size(free)} are free on the disk of {self._data}; commits fail when it is full",
                    fix="free some space, or move the data: HOLDFAST_DATA names another folder",
                )
            )
        if store.log_bytes is not None and store.log_bytes > LARGEST_LOG:
            found.append(
                DoctorFinding(
                    check="disk",
                    level="warning",
                    what=f"the write-ahead log of {store.name} has {_size(store.log_bytes)}",
                    fix="end processes that read from it for long; the last one that closes the file shortens it",
                )
            )
        if store.outage is not None:
            found.append(
                DoctorFinding(
                    check="database",
                    level="error",
                    what=f"commits wait: {store.outage}",
                    fix="they go on by themselves when the reason is gone; nothing that was accepted is lost",
                )
            )
        return found

    async def _store(self, info: SystemInfo) -> list[DoctorFinding]:
        found = []
        objects = await self._database.fetch("store.objects", {}, into=SchemaObject)
        if objects and (foreign := foreign_objects(objects)):
            what = f"{info.store.name} is not as Holdfast made it: it has {', '.join(foreign[:MOST_NAMED])}"
            fix = "a trigger or a view can let commits do something else; remove it, or restore a backup"
            found.append(DoctorFinding(check="database", level="error", what=what, fix=fix))
        if (problem := await superuser_problem(self._database)) is not None:
            found.append(DoctorFinding(check="database", level="warning", what=problem, fix=ROLE_FIX))
        return found

    async def _clock(self, now: int) -> list[DoctorFinding]:
        (newest,) = await self._database.fetch("overview.newest_change", {}, into=_Newest)
        ahead = (newest.time or 0) - now
        if ahead <= CLOCK_MILLISECONDS:
            return []
        what = f"the newest Session was changed {ahead / 60_000:.0f} minutes after the present time of this machine"
        fix = "set the clock (`timedatectl set-ntp true`); ages and the order of lists are wrong until then"
        return [DoctorFinding(check="clock", level="warning", what=what, fix=fix)]

    async def _services(self) -> list[DoctorFinding]:
        """Models and MCP servers of the directory of this process."""
        found = []
        async with self._locations.use(self._location) as services:
            if services.catalog.default() is None:
                what = "no provider is connected: only the offline model demo/echo can be used"
                fix = "`holdfast auth login PROVIDER` connects one, or set its key, such as ANTHROPIC_API_KEY"
                found.append(DoctorFinding(check="models", level="warning", what=what, fix=fix))
            for server in services.mcp.all():
                if (error := server.status.error) is not None:
                    what = f"the MCP server {server.name} failed: {error}"
                    fix = f"`holdfast mcp log {server.name}` tells more"
                    found.append(DoctorFinding(check="mcp", level="warning", what=what, fix=fix))
        return found


def _free(folder: Path) -> int | None:
    """None if it is not there, as it need not be while Sessions are in PostgreSQL."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _processes(info: SystemInfo) -> Iterator[DoctorFinding]:
    for process in info.processes:
        called = process.name or f"process {process.pid}"
        if process.state == "gone" and process.sessions:
            yield DoctorFinding(
                check="processes",
                level="warning",
                what=f"{called} ended with {_sessions(process.sessions)}; nobody goes on with that yet",
                fix="`holdfast serve` goes on with it, or the next prompt to it does",
            )
        if process.state == "alive" and process.version not in (None, __version__):
            yield DoctorFinding(
                check="processes",
                level="warning",
                what=f"{called} is of version {process.version}, this one of {__version__}",
                fix="start it anew with the same version",
            )


def _rights(data: Path) -> Iterator[DoctorFinding]:
    """Files that other users can read although they hold conversations or secrets."""
    for path in (data, *(data / name for name in ("holdfast.db", "credentials.json"))):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if mode & OTHERS:
            wanted = "700" if stat.S_ISDIR(mode) else "600"
            yield DoctorFinding(
                check="files",
                level="warning",
                what=f"other users of this machine can open {path} (mode {stat.S_IMODE(mode):o})",
                fix=f"`chmod {wanted} {path}`",
            )


def _size(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.0f} MiB"


def _sessions(count: int) -> str:
    return "work on 1 Session" if count == 1 else f"work on {count} Sessions"
