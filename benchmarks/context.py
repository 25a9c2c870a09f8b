"""What a boundary costs when nothing changed: 20 sources, 10 of them instruction files on disk. `make bench`.

Measured as a drain does it: compose the context, prepare the epoch. It must not depend on how many turns there were."""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.context.date import date
from holdfast.core.context.environment import environment
from holdfast.core.context.epoch import Epochs
from holdfast.core.context.file_cache import FileCache
from holdfast.core.context.instructions import InstructionFiles
from holdfast.core.context.metrics import Metrics
from holdfast.core.context.model import model
from holdfast.core.context.nested import NestedInstructions
from holdfast.core.context.registry import SystemContextRegistry
from holdfast.core.context.source import JsonCodec, Source
from holdfast.core.context.system_context import combine, make
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.unit import Statement, Unit
from holdfast.core.event.log import EventLog
from holdfast.core.project.project import Project
from holdfast.core.scope import Scope
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.schema.location import Location
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.model import ModelRef
from holdfast.schema.session import RecordTime, SessionRecord
from holdfast.schema.session_event import InstructionDiscovered, SessionCreated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.context.epoch import Epoch
    from holdfast.core.context.instructions import InstructionFile
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.database.unit import Committed
    from holdfast.schema.record import Record

DEPTH = 7
NESTED = 2
PLAIN = 15
LIMIT_MILLIS = 0.4
GROWTH_LIMIT = 1.2
TURNS = 2_000
ROUNDS = 300
MODEL = ModelRef(id="m", provider_id="p")

_VALUE = JsonCodec(dict[str, str])


class Committer:
    """The commits of a drain, without a lease."""

    def __init__(self, log: EventLog, database: SqliteDatabase, session_id: str, location: Location) -> None:
        self._log = log
        self._database = database
        self._session_id = session_id
        self._location = location

    async def publish(
        self, *payloads: Record, before: Sequence[Statement] = (), local: Sequence[Statement] = ()
    ) -> Committed:
        if payloads:
            return await self._log.publish(*payloads, location=self._location, before=before, local=local)
        return await self._database.submit(Unit(self._session_id, before=tuple(before), local=tuple(local)))


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        early, late, changed = await _measure(Path(folder).resolve())
    print(f"    {early:.3f} ms at turn 10, {late:.3f} ms at turn {TURNS}, {changed:.3f} ms with one change to admit")
    checks = (
        (f"an unchanged boundary, milliseconds: {late:.3f} (<= {LIMIT_MILLIS})", late <= LIMIT_MILLIS),
        (f"turn {TURNS} against turn 10: {late / early:.2f} (<= {GROWTH_LIMIT})", late / early <= GROWTH_LIMIT),
    )
    for text, good in checks:
        print(f"{'ok ' if good else 'BAD'} {text}")
    return 0 if all(good for _, good in checks) else 1


async def _measure(folder: Path) -> tuple[float, float, float]:
    """A Session at turn 10 and one at turn 2,000, in turn, on the same Location."""
    bench = await Bench.open(folder)
    young, old = await bench.session(), await bench.session()
    for _ in range(10):
        await bench.boundary(young)
    for _ in range(TURNS):
        await bench.boundary(old)
    times: dict[str, list[float]] = {young: [], old: []}
    for _ in range(ROUNDS):
        for session_id, taken in times.items():
            started = time.perf_counter()
            changed = await bench.boundary(session_id)
            taken.append(time.perf_counter() - started)
            assert not changed
    changes: list[float] = []
    for number in range(50):
        bench.values["bench/source-0"] = {"value": str(number)}
        started = time.perf_counter()
        changed = await bench.boundary(old)
        changes.append(time.perf_counter() - started)
        assert changed
    await bench.close()
    return _typical(times[young]), _typical(times[old]), _typical(changes)


class Bench:
    def __init__(self, folder: Path, directory: Path, nested: list[str]) -> None:
        self._nested = nested
        self._clock = SystemClock()
        self._ids = Ids(self._clock)
        self._database = SqliteDatabase(folder / "data.db")
        self._log = EventLog(self._database, MANIFEST, SESSION_PROJECTORS, self._ids)
        self._location = Location(directory=str(directory))
        self._epochs = Epochs(self._database, self._ids, self._clock, Metrics())
        self._current: dict[str, Epoch] = {}

        files = InstructionFiles(directory, folder / "project", folder / "config", FileCache(), {})
        self._told = NestedInstructions(self._database, self._location, files, self._clock, _nothing)
        project = Project("id", folder / "project", folder / "project" / ".git")
        self._registry, scope = SystemContextRegistry(), Scope()
        builtins = combine((environment(self._location, project), date(self._clock)))
        self._registry.register("core/builtins", lambda: builtins, scope)
        ambient = files.ambient()
        self._registry.register("core/instructions", lambda: ambient, scope)
        self.values = {
            f"bench/source-{number}": {"value": hashlib.sha256(b"%d" % number).hexdigest()} for number in range(PLAIN)
        }
        plain = combine(_plain(key, self.values) for key in self.values)
        self._registry.register("zz/plain", lambda: plain, scope)

    @classmethod
    async def open(cls, folder: Path) -> Bench:
        directory, nested = _tree(folder / "project")
        bench = cls(folder, directory, nested)
        project = Statement("project.ensure", {"id": "global", "worktree": "/", "vcs": None, "time_created": 0})
        await bench._database.submit(Unit("global", local=(project,)))
        return bench

    async def session(self) -> str:
        id = self._ids.session()
        record = SessionRecord(
            id=id,
            slug="bench",
            project_id="global",
            directory=self._location.directory,
            title="bench",
            version="0",
            time=RecordTime(created=0, updated=0),
        )
        found = InstructionDiscovered(timestamp=0, session_id=id, location=self._location, paths=tuple(self._nested))
        await self._log.publish(SessionCreated(session_id=id, info=record), found)
        epoch = await self._epochs.initialize(id, self._context(id), self._publisher(id))
        assert len(epoch.snapshot) == PLAIN + 5, list(epoch.snapshot)
        self._current[id] = epoch
        return id

    async def boundary(self, session_id: str) -> bool:
        """Whether the model had to be told something."""
        epoch = self._current[session_id]
        prepared = await self._epochs.prepare(epoch, self._context(session_id), self._publisher(session_id))
        self._current[session_id] = prepared
        return prepared is not epoch

    async def close(self) -> None:
        await self._log.close()
        self._database.close()

    def _context(self, session_id: str) -> SystemContext:
        return combine((self._registry.compose(), model(MODEL), self._told.context(session_id)))

    def _publisher(self, session_id: str) -> Committer:
        return Committer(self._log, self._database, session_id, self._location)


async def _nothing() -> list[InstructionFile]:
    return []


def _typical(times: list[float]) -> float:
    """Milliseconds; the lower quartile, because whatever else the machine does only adds."""
    return statistics.quantiles(times, n=4)[0] * 1000


def _tree(project: Path) -> tuple[Path, list[str]]:
    """Instruction files all the way down, and two more beside it; old enough to be trusted by their times."""
    directory = project
    for level in range(DEPTH):
        directory = directory / f"level-{level}"
    directory.mkdir(parents=True)
    paths = [folder / "AGENTS.md" for folder in (directory, *directory.parents) if folder.is_relative_to(project)]
    nested = [project / f"beside-{number}" / "AGENTS.md" for number in range(NESTED)]
    for path in (*paths, *nested):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {path}\n" + "Keep it short.\n" * 500, encoding="utf-8")
    # Times alone do not make a file old: the change time cannot be set.
    time.sleep(2.1)
    return directory, [str(path) for path in nested]


def _plain(key: str, values: dict[str, dict[str, str]]) -> SystemContext:
    async def load() -> dict[str, str]:
        return values[key]

    return make(
        Source(
            key=key,
            codec=_VALUE,
            load=load,
            baseline=lambda current: f"{key} is {current}",
            update=lambda _, current: f"{key} is now {current}",
            removed=lambda _: f"{key} is gone",
            immediate=True,
        )
    )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
