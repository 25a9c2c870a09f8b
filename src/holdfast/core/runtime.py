"""The whole runtime of one process: opens storage, wires the parts, closes them in order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from holdfast.core.catalog.catalog import Catalog, ResolvedModel
from holdfast.core.clock import Clock, Ids, SystemClock
from holdfast.core.config.config import load_config
from holdfast.core.context.date import date as date_source
from holdfast.core.context.environment import environment as environment_source
from holdfast.core.context.epoch import Epochs
from holdfast.core.context.metrics import Metrics
from holdfast.core.context.model import model as model_source
from holdfast.core.context.registry import SystemContextRegistry, compose
from holdfast.core.context.system_context import SystemContext, combine
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.event.log import EventLog, Mismatch
from holdfast.core.filesystem.location_files import LocationFiles
from holdfast.core.location.project import Project, find_project
from holdfast.core.location.service_map import ServiceMap
from holdfast.core.location.services import LocationServices
from holdfast.core.scope import Scope
from holdfast.core.session.execution import Execution
from holdfast.core.session.inbox import Inbox
from holdfast.core.session.ownership import Lease, Ownership
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.core.session.runner.runner import Runner
from holdfast.core.session.runner.surroundings import Surroundings
from holdfast.core.session.sessions import Sessions
from holdfast.core.session.settings import SessionSettings
from holdfast.core.session.store import SessionStore
from holdfast.core.snapshot.snapshot import Snapshots
from holdfast.core.tool.builtin.authorize import AllowAll
from holdfast.core.tool.builtin.read import read_tool
from holdfast.core.tool.registry import ToolRegistry
from holdfast.llm.offline import SCHEME, OfflineTransport
from holdfast.llm.route.network import NetworkTransport
from holdfast.llm.route.transport import SchemeTransport, Transport
from holdfast.schema.agent import Agent, new_agent
from holdfast.schema.location import Location, LocationInfo, LocationProject
from holdfast.schema.manifest import MANIFEST

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.schema.model import ModelRef
    from holdfast.schema.session import Session


class Paths(NamedTuple):
    """Where this installation keeps its data."""

    data: Path

    @property
    def database(self) -> Path:
        return self.data / "holdfast.db"

    @property
    def owners(self) -> Path:
        return self.data / "owners"


def default_paths(environment: dict[str, str]) -> Paths:
    home = Path(environment.get("HOME", "~")).expanduser()
    base = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return Paths(Path(environment.get("HOLDFAST_DATA") or base / "holdfast"))


class Runtime:
    """Use as `async with Runtime(...)`. Closing interrupts what runs, records it, and lets go of everything."""

    def __init__(
        self,
        *,
        paths: Paths | None = None,
        directory: Path | None = None,
        environment: dict[str, str] | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._environment = dict(os.environ) if environment is None else environment
        self.paths = paths or default_paths(self._environment)
        self.directory = (directory or Path.cwd()).resolve()
        self._clock = clock or SystemClock()
        self._ids = ids or Ids(self._clock)
        self._transport = transport or self._default_transport()

    async def __aenter__(self) -> Self:
        self.database = SqliteDatabase(self.paths.database)
        self.log = EventLog(self.database, MANIFEST, SESSION_PROJECTORS, self._ids)
        self.store = SessionStore(self.database)
        self._inbox = Inbox(self.log, self.store, self._ids, self._clock)
        self._ownership = Ownership(self.database, self.log, self._ids, self._clock, self.paths.owners)
        self._epochs = Epochs(self.database, self._ids, self._clock, Metrics())
        self._locations: ServiceMap[LocationServices] = ServiceMap(self._build_services)
        self.execution = Execution(self.log, self.store, self._locations, self._ownership)
        self.sessions = Sessions(
            log=self.log,
            store=self.store,
            inbox=self._inbox,
            execution=self.execution,
            ids=self._ids,
            clock=self._clock,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Executions end first, while everything they record with is still open.
        await self.execution.close()
        await self.sessions.close()
        await self._ownership.close()
        await self.log.close()
        await self._locations.close()
        await self._transport.close()
        self.database.close()

    def new_event_id(self) -> str:
        return self._ids.event()

    @property
    def location(self) -> Location:
        """Where a Session is created when nobody says otherwise."""
        return Location(directory=str(self.directory))

    async def project(self, location: Location) -> Project:
        directory = Path(location.directory)
        rows = await self.database.fetch("project.of_worktree", {"worktree": str(_worktree(directory))})
        return await find_project(directory, str(rows[0][0]) if rows else None)

    async def location_info(self, location: Location) -> LocationInfo:
        project = await self.project(location)
        return LocationInfo(
            directory=location.directory,
            workspace_id=location.workspace_id,
            project=LocationProject(id=project.id, directory=str(project.directory)),
        )

    async def default_model(self) -> ModelRef | None:
        async with self._locations.use(self.location) as services:
            return services.catalog.default()

    async def verify(self) -> list[Mismatch]:
        """Projection rows that differ from what the log says."""
        return [mismatch for id in await self.log.aggregates() for mismatch in await self.log.verify(id)]

    async def rebuild(self) -> int:
        """Project every aggregate anew; how many there were."""
        aggregates = await self.log.aggregates()
        for aggregate_id in aggregates:
            await self.log.rebuild(aggregate_id)
        return len(aggregates)

    def _default_transport(self) -> Transport:
        script = self._environment.get("HOLDFAST_SCRIPT")
        network = NetworkTransport()
        offline = OfflineTransport(Path(script) if script else None)
        return SchemeTransport({"http": network, "https": network, SCHEME: offline})

    async def _build_services(self, location: Location) -> LocationServices:
        directory = Path(location.directory)
        project = await self.project(location)
        config = load_config(directory, project.directory, self._environment)
        catalog = Catalog(config, self._environment)
        scope = Scope()
        tools = ToolRegistry()
        files = LocationFiles(directory)
        tools.register({"read": read_tool(files, AllowAll())}, scope)
        registry = SystemContextRegistry()
        registry.register(
            "core/builtins", lambda: combine([environment_source(location, project), date_source(self._clock)]), scope
        )

        async def context(session: Session, agent: Agent, resolved: ResolvedModel) -> SystemContext:
            return await compose([registry.load, lambda: model_source(resolved.ref)])

        async def abandon(session_id: str, lease: Lease) -> None:
            pass

        snapshots = Snapshots(project, self.paths.data / "snapshot")
        runner = Runner(
            Surroundings(
                location=location,
                log=self.log,
                store=self.store,
                inbox=self._inbox,
                ownership=self._ownership,
                epochs=self._epochs,
                catalog=catalog,
                tools=tools,
                authorizer=AllowAll(),
                snapshots=snapshots,
                transport=self._transport,
                ids=self._ids,
                clock=self._clock,
                settings=lambda: SessionSettings(),
                agent=lambda session: new_agent(session.agent or "build"),
                context=context,
                abandon_requests=abandon,
                settled=lambda session, resolved: None,
            )
        )
        return LocationServices(project, catalog, tools, runner, scope)


def _worktree(directory: Path) -> Path:
    return next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), Path("/"))
