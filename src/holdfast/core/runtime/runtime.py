"""The whole runtime of one process: opens storage, wires the parts, closes them in order."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast.core.catalog.models_dev import ModelsDev
from holdfast.core.clock import Clock, Ids, SystemClock
from holdfast.core.config.environment import directories
from holdfast.core.config.trust import TRUST_EVERYTHING, TrustStore
from holdfast.core.context.epoch import Epochs
from holdfast.core.context.file_cache import FileCache
from holdfast.core.context.metrics import Metrics
from holdfast.core.context.registry import SystemContextRegistry
from holdfast.core.context.remote import RemoteInstructions, WebFetch
from holdfast.core.credential.store import CredentialStore
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.event.log import EventLog, Mismatch
from holdfast.core.filesystem.ownership import Owners
from holdfast.core.location.commons import Commons
from holdfast.core.location.open import open_location
from holdfast.core.location.service_map import ServiceMap
from holdfast.core.location.settings import image_limits, session_settings
from holdfast.core.process.git import Git
from holdfast.core.process.protection import ProcessProtection
from holdfast.core.process.sandbox.backends import Backends
from holdfast.core.process.sandbox.confinement import SANDBOX, sandbox_choice
from holdfast.core.project.directory import canonical_directory
from holdfast.core.project.project import Project, find_project
from holdfast.core.project.repository import find_root
from holdfast.core.runner.services import SessionServices
from holdfast.core.runner.titles import Titles
from holdfast.core.runtime.execution import Execution
from holdfast.core.runtime.moves import Moves
from holdfast.core.runtime.recovery import Recovery
from holdfast.core.runtime.reverts import Reverts
from holdfast.core.runtime.sessions import Sessions
from holdfast.core.runtime.waits import Waits
from holdfast.core.session.attachments import Attachments
from holdfast.core.session.inbox import Inbox
from holdfast.core.session.ownership import Ownership
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.core.session.records import SessionRecords
from holdfast.core.session.store import SessionStore
from holdfast.core.session.todo import Todos
from holdfast.core.skill.downloads import SkillDownloads
from holdfast.core.tool.output import OutputStore
from holdfast.core.tool.registry import ApplicationTools
from holdfast.core.web.fetch import Fetcher
from holdfast.llm.offline import SCHEME, OfflineTransport
from holdfast.llm.route.network import NetworkTransport
from holdfast.llm.route.transport import SchemeTransport, Transport
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location, LocationInfo, LocationProject
from holdfast.schema.manifest import MANIFEST

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.core.config.trust import Trust
    from holdfast.core.filesystem.image import ImageLimits
    from holdfast.core.location.services import LocationServices
    from holdfast.core.permission.permission import Unattended
    from holdfast.core.process.sandbox.confinement import Setting
    from holdfast.core.runner.settings import RecoveryPolicy
    from holdfast.schema.model import ModelRef


HOST_DOCUMENT = "host program"
"""How diagnostics name the configuration that a host passes."""


class Paths(Frozen):
    """Where this installation keeps its data."""

    data: Path

    @property
    def database(self) -> Path:
        return self.data / "holdfast.db"

    @property
    def credentials(self) -> Path:
        return self.data / "credentials.json"

    @property
    def owners(self) -> Path:
        return self.data / "owners"


def default_paths(environment: dict[str, str]) -> Paths:
    home = Path(environment.get("HOME", "~")).expanduser()
    base = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return Paths(Path(environment.get("HOLDFAST_DATA") or base / "holdfast"))


class Runtime:
    """Use as `async with Runtime(...)`. Closing stops what runs at the nearest safe point, records it, and lets go of
    everything; the next process goes on with it."""

    def __init__(
        self,
        *,
        paths: Paths | None = None,
        directory: Path | None = None,
        environment: dict[str, str] | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        unattended: Unattended = "wait",
        trust: bool = False,
        config: dict[str, Any] | None = None,
        protect: bool = False,
        titles: bool = True,
        sandbox: Setting | None = None,
    ) -> None:
        """`unattended` says what happens when something needs a person: a server waits, a one-shot run denies. `trust`
        vouches for the configuration of every project that is opened; otherwise the user's own decisions count.
        `config` is a document of the host program, in the form of a configuration file. `protect` hides the secrets in
        this process's environment from its children; only for a process that is the runtime's alone. `sandbox` sets the
        mode in which commands run; without it the environment and the user's configuration do."""
        self._environment = dict(os.environ) if environment is None else environment
        self.paths = paths or default_paths(self._environment)
        self.directory = Path(canonical_directory(str((directory or Path.cwd()).absolute())))
        self._clock = clock or SystemClock()
        self._ids = ids or Ids(self._clock)
        self._transport = transport or self._default_transport()
        self._unattended: Unattended = unattended
        self.trust_store = TrustStore(directories(self._environment).state)
        self._protect = protect
        self._host_configuration = [(Path(HOST_DOCUMENT), config)] if config else []
        self._trust: Trust = TRUST_EVERYTHING if trust else self.trust_store
        self._titled = titles
        self._sandbox = sandbox_choice(sandbox or self._environment.get(SANDBOX))
        self.application_tools = ApplicationTools()
        self.application_context = SystemContextRegistry()

    async def __aenter__(self) -> Self:
        self.database = SqliteDatabase(self.paths.database)
        self.log = EventLog(self.database, MANIFEST, SESSION_PROJECTORS, self._ids)
        self.store = SessionStore(self.database)
        attachments = Attachments(self._image_limits)
        self._inbox = Inbox(self.log, self.store, self._ids, self._clock, attachments)
        self._ownership = Ownership(self.database, self.log, self._ids, self._clock, self.paths.owners)
        self.metrics = Metrics()
        self.epochs = Epochs(self.database, self._ids, self._clock, self.metrics)
        records = SessionRecords(self.log, self.store, self._ids, self._clock)
        self._titles = Titles(self.log, self.store, records, self._transport, self._clock, enabled=self._titled)
        self.todos = Todos(self.log, self.database, self._clock)
        here = directories(self._environment).replace(data=self.paths.data)
        self.models = ModelsDev(here.cache, self._environment, announce=self.log.announce)
        self.outputs = OutputStore(here.tool_output, self._ids, self._clock)
        self.credentials = CredentialStore(self.paths.credentials, self._ids, self._clock)
        anywhere = Fetcher()
        self._remote = RemoteInstructions(
            WebFetch(anywhere), here.cache / "instructions", self._environment, self._clock
        )
        self._downloads = SkillDownloads(here.cache, anywhere)
        self.own_ports: set[int] = set()
        self._sweeping = asyncio.get_running_loop().create_task(self.outputs.sweep_hourly(), name="holdfast-sweep")
        self._session_services = SessionServices(
            log=self.log,
            store=self.store,
            inbox=self._inbox,
            ownership=self._ownership,
            epochs=self.epochs,
            titles=self._titles,
            ids=self._ids,
            clock=self._clock,
        )
        self._commons = Commons(
            environment=self._environment,
            directories=here,
            database=self.database,
            log=self.log,
            sessions=self._session_services,
            epochs=self.epochs,
            transport=self._transport,
            ids=self._ids,
            clock=self._clock,
            credentials=self.credentials,
            models=self.models,
            outputs=self.outputs,
            application_tools=self.application_tools,
            application_context=self.application_context,
            files=FileCache(),
            remote_instructions=self._remote,
            skill_downloads=self._downloads,
            own_ports=lambda: self.own_ports,
            todos=self.todos,
            unattended=lambda: self._unattended,
            owners=None if self._trust is TRUST_EVERYTHING else Owners.here(self._environment),
            trust=self._trust,
            wake_pending=self._wake_pending,
            before_start=ProcessProtection().apply if self._protect else None,
            host_configuration=self._host_configuration,
            wake=lambda session_id: self.execution.wake(session_id),
            ending=lambda: self.execution.closed,
            sandboxes=Backends(self._environment),
            sandbox=self._sandbox,
        )
        self._waking: set[asyncio.Task[list[str]]] = set()
        self._wakes = True
        self.locations: ServiceMap[LocationServices] = ServiceMap(self._build_services)
        self.execution = Execution(self.log, self.store, self.locations, self._ownership, self._clock)
        self.recovery = Recovery(
            self.log, self.database, self.store, self.execution, self._ownership, self._recovery_policy
        )
        self.sessions = Sessions(
            log=self.log,
            store=self.store,
            inbox=self._inbox,
            execution=self.execution,
            records=records,
            reverts=Reverts(self.log, self.store, self.execution, self.locations, self._clock),
            moves=Moves(self.log, self.store, self.execution, self.project, self._clock, Git(self._environment)),
            recovery=self.recovery,
            waits=Waits(self.database, self.store, self.execution, self._ownership, self._clock),
            ids=self._ids,
            clock=self._clock,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Executions end first, while everything they record with is still open.
        await self.recovery.close()
        await self._end_waking()
        await self.execution.close()
        await self.sessions.close()
        await self._titles.close()
        await self.locations.close()
        await self._ownership.close()
        await self.log.close()
        self._sweeping.cancel()
        await asyncio.wait({self._sweeping})
        await self._remote.close()
        await self._downloads.close()
        await self.models.close()
        await self._transport.close()
        self.database.close()

    @property
    def environment(self) -> dict[str, str]:
        return self._environment

    def new_event_id(self) -> str:
        return self._ids.event()

    @property
    def location(self) -> Location:
        """Where a Session is created when nobody says otherwise."""
        return Location(directory=str(self.directory))

    async def project(self, location: Location) -> Project:
        directory = Path(location.directory)
        root = find_root(directory)
        rows = await self.database.fetch("project.of_worktree", {"worktree": str(root)}) if root is not None else ()
        return await find_project(directory, str(rows[0][0]) if rows else None, environment=self._environment)

    async def location_info(self, location: Location) -> LocationInfo:
        project = await self.project(location)
        return LocationInfo(
            directory=location.directory,
            workspace_id=location.workspace_id,
            project=LocationProject(id=project.id, directory=str(project.listed_directory)),
        )

    async def default_model(self) -> ModelRef | None:
        async with self.locations.use(self.location) as services:
            return services.catalog.default()

    async def reload(self) -> dict[Location, Exception]:
        """Read the configuration of every open Location again; the Locations where that failed, and why. There the
        former configuration stays in force."""
        failed: dict[Location, Exception] = {}
        for location in self.locations.opened():
            try:
                async with self.locations.use(location) as services:
                    await services.config.reload()
            except Exception as error:  # noqa: BLE001 - one Location's failure says nothing about the next
                failed[location] = error
        return failed

    def _wake_pending(self, location: Location) -> None:
        if not self._wakes:
            return
        waking = self.execution.recover_wakes(location)
        task = asyncio.get_running_loop().create_task(waking, name="holdfast-wake")
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    async def _end_waking(self) -> None:
        self._wakes = False
        for task in (waking := tuple(self._waking)):
            task.cancel()
        if waking:
            await asyncio.wait(waking)

    async def _recovery_policy(self, location: Location) -> RecoveryPolicy:
        async with self.locations.use(location) as services:
            return session_settings(services.config.current, self._environment).recovery

    async def _image_limits(self, location: Location) -> ImageLimits:
        async with self.locations.use(location) as services:
            return image_limits(services.config.current)

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
        return await open_location(self._commons, location, await self.project(location))
