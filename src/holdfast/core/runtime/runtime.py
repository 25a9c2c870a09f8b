"""The whole runtime of one process: opens storage, wires the parts, closes them in order."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast.core.catalog.models_dev import ModelsDev
from holdfast.core.clock import Clock, Ids, SystemClock
from holdfast.core.config.environment import directories
from holdfast.core.config.node import configured_node
from holdfast.core.config.telemetry import configured_traces
from holdfast.core.config.trust import TRUST_EVERYTHING, TrustStore
from holdfast.core.context.epoch import Epochs
from holdfast.core.context.file_cache import FileCache
from holdfast.core.context.metrics import Metrics
from holdfast.core.context.registry import SystemContextRegistry
from holdfast.core.context.remote import RemoteInstructions, WebFetch
from holdfast.core.credential.store import CredentialStore
from holdfast.core.database.erasure import erase_former_contents
from holdfast.core.database.info import describe_store
from holdfast.core.database.opening import open_database
from holdfast.core.database.place import place_identity
from holdfast.core.event.log import EventLog, Mismatch
from holdfast.core.event.tree_tail import TreeTail
from holdfast.core.filesystem.ownership import Owners
from holdfast.core.location.open import open_location
from holdfast.core.location.process_services import (
    ContextServices,
    HostSettings,
    ProcessServices,
    ProviderServices,
    SharedTools,
)
from holdfast.core.location.service_map import ServiceMap
from holdfast.core.location.settings import image_limits, session_settings
from holdfast.core.mcp.background_starts import BackgroundStarts
from holdfast.core.mcp.leftovers import McpLeftovers
from holdfast.core.observe.observer import Observer
from holdfast.core.process.git import Git
from holdfast.core.process.protection import ProcessProtection
from holdfast.core.process.sandbox.backends import Backends
from holdfast.core.process.sandbox.confinement import SANDBOX, sandbox_choice
from holdfast.core.project.directory import canonical_directory
from holdfast.core.project.project import Project, find_project
from holdfast.core.project.repository import find_root
from holdfast.core.runner.left_work import LeftWork
from holdfast.core.runner.open_answers import OpenAnswers
from holdfast.core.runner.services import SessionServices
from holdfast.core.runner.titles import Titles
from holdfast.core.runtime.doctor import Doctor
from holdfast.core.runtime.environment_checks import EnvironmentChecks
from holdfast.core.runtime.execution import Execution
from holdfast.core.runtime.forks import Forks
from holdfast.core.runtime.maintenance_pace import MaintenancePace
from holdfast.core.runtime.moves import Moves
from holdfast.core.runtime.one_shot import OneShotAnswers
from holdfast.core.runtime.open_requests import OpenRequests
from holdfast.core.runtime.overview import Overview
from holdfast.core.runtime.paths import Paths as Paths
from holdfast.core.runtime.paths import default_paths as default_paths
from holdfast.core.runtime.paths import own_folders
from holdfast.core.runtime.placement import Placement
from holdfast.core.runtime.prompt_check import PromptCheck
from holdfast.core.runtime.purges import Purges
from holdfast.core.runtime.recovery import Recovery
from holdfast.core.runtime.reverts import Reverts
from holdfast.core.runtime.session_search import SessionSearch
from holdfast.core.runtime.sessions import Sessions
from holdfast.core.runtime.sign_in_forms import SignInForms
from holdfast.core.runtime.states import SessionStates
from holdfast.core.runtime.storage_choice import storage_place
from holdfast.core.runtime.system import System
from holdfast.core.runtime.takeover import Takeover
from holdfast.core.runtime.tree_changes import TreeChanges
from holdfast.core.runtime.trees import Trees
from holdfast.core.runtime.waits import Waits
from holdfast.core.session.attachments import Attachments
from holdfast.core.session.budgets import Budgets
from holdfast.core.session.id_locks import IdLocks
from holdfast.core.session.inbox import Inbox
from holdfast.core.session.instruction_entries import InstructionEntries
from holdfast.core.session.liveness import liveness_on
from holdfast.core.session.node_secrets import NodeSecrets
from holdfast.core.session.nodes import Nodes
from holdfast.core.session.ownership import Ownership
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.core.session.records import SessionRecords
from holdfast.core.session.store import SessionStore
from holdfast.core.session.stored_trees import StoredTrees
from holdfast.core.session.tasks import Tasks
from holdfast.core.session.todo import Todos
from holdfast.core.session.wakeups import Wakeups
from holdfast.core.skill.downloads import SkillDownloads
from holdfast.core.snapshot.copy_offer import CopyOffers, CopyServices
from holdfast.core.snapshot.copy_sessions import CopySessions
from holdfast.core.snapshot.copy_sweep import CopySweep
from holdfast.core.snapshot.isolated_copies import IsolatedCopies
from holdfast.core.snapshot.pruning import SnapshotPruning
from holdfast.core.tool.output import OutputStore
from holdfast.core.tool.registry import ApplicationTools
from holdfast.core.web.fetch import Fetcher
from holdfast.llm.offline import SCHEME, OfflineTransport
from holdfast.llm.route.network import NetworkTransport
from holdfast.llm.route.transport import SchemeTransport, Transport
from holdfast.private_files import close_to_others
from holdfast.schema.deferred import deferred
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location, LocationInfo, LocationProject
from holdfast.schema.manifest import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from holdfast.core.access.audit_trail import AuditTrail
    from holdfast.core.access.tokens import AccessTokens
    from holdfast.core.bundle.bundles import Bundles
    from holdfast.core.bundle.opencode.importing import TranscriptImporter
    from holdfast.core.config.environment import Directories
    from holdfast.core.filesystem.editor_files import EditorFiles
    from holdfast.core.filesystem.image import ImageLimits
    from holdfast.core.inspect import inspection as inspecting
    from holdfast.core.inspect.audit import SessionAudit
    from holdfast.core.inspect.inspection import Inspection
    from holdfast.core.inspect.usage import Usage
    from holdfast.core.location.services import LocationServices
    from holdfast.core.page_access.page_access import PageAccess
    from holdfast.core.permission.permission import Unattended
    from holdfast.core.permission.requests import Attended
    from holdfast.core.permission.rules import Authority
    from holdfast.core.process.sandbox.confinement import Setting
    from holdfast.core.runtime.disk_use import DiskUses
    from holdfast.core.runtime.gauges import Gauges
    from holdfast.core.runtime.retention_runs import RetentionRuns
    from holdfast.core.session.activity import RecoveryPolicy
    from holdfast.schema.model import ModelRef
else:
    inspecting = deferred("holdfast.core.inspect.inspection")

HOST_DOCUMENT = "host program"
"""How diagnostics name the configuration that a host passes."""
HOST_PRESET = "preset of the host program"


class HostOptions(Frozen):
    """What a host program decides for its runtime."""

    unattended: Unattended = "wait"
    """What happens when something needs a person: a server waits, a one-shot run denies."""
    trust: bool = False
    """Vouch for the configuration of every project that is opened; otherwise the user's own decisions count."""
    config: dict[str, Any] | None = None
    """A configuration document of the host, in the form of a configuration file."""
    preset: dict[str, Any] | None = None
    """A configuration document that counts before all files, and whose permission rules only narrow."""
    attended: Attended | None = None
    """Whether anybody would see a request of a Session, with its ancestors, that only a preset makes; None is
    always. It is denied otherwise."""
    sandbox: Setting | None = None
    """The mode in which commands run; None leaves it to the environment and the user's configuration."""
    protect: bool = False
    """Hide the secrets in this process's environment from its children. Only for a process that is the runtime's."""
    titles: bool = True
    """Give Sessions without a title one after their first exchange."""
    editor: EditorFiles | None = None
    """Reads and writes files that an editor has open; see core/filesystem/editor_files.py."""
    goes_on: bool = True
    """Whether Sessions that other processes paused go on in this one when it changes their budget."""


class Runtime:
    """The composition root: builds everything that lives as long as the process. Use as `async with Runtime(...)`.

    Closing stops what runs at the nearest safe point, records it, and closes everything in reverse order, whatever
    fails; the next process goes on with what was stopped."""

    def __init__(
        self,
        *,
        paths: Paths | None = None,
        directory: Path | None = None,
        environment: dict[str, str] | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        options: HostOptions | None = None,
        database: str | None = None,
    ) -> None:
        """`database` is the address of a PostgreSQL database, or `sqlite`; None leaves it to the environment and the
        user's configuration."""
        self._environment = dict(os.environ) if environment is None else environment
        self._options = options or HostOptions()
        self.paths = paths or default_paths(self._environment)
        self.directory = Path(canonical_directory(str((directory or Path.cwd()).absolute())))
        self._clock = clock or SystemClock()
        self._ids = ids or Ids(self._clock)
        self._transport = transport or self._default_transport()
        self.place = storage_place(database, self._environment, self.paths.database, self._options.config)
        self._trace_settings = configured_traces(self._environment)
        self.trust_store = TrustStore(directories(self._environment).state)
        self.own_ports: set[int] = set()
        self.application_tools = ApplicationTools()
        self.application_context = SystemContextRegistry()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _build(self, stack: AsyncExitStack) -> None:
        """Everything is closed in reverse: executions end first, while what they record with is still open."""
        clock, ids, here = self._clock, self._ids, directories(self._environment).replace(data=self.paths.data)
        database = self.place if isinstance(self.place, Path) else None
        self.own_folders = own_folders(here, self.paths, database, self._environment)

        for folder in (here.state, here.data):
            close_to_others(folder)

        # Storage and the Session model.
        self.database = open_database(self.place)
        stack.callback(self.database.close)
        stack.push_async_callback(self._transport.close)
        self.log = EventLog(self.database, MANIFEST, SESSION_PROJECTORS, ids)
        self.observer = Observer()
        self.log.observed = self.observer.committed
        self.store = SessionStore(self.database)
        liveness = liveness_on(self.database, self.paths.owners)
        self._ownership = Ownership(self.database, self.log, ids, clock, liveness)
        self.shared = liveness.beats_idle
        """Whether other machines use the database too."""
        self.node_secrets = NodeSecrets(self.database, ids, clock)
        self.nodes = Nodes(self.database, self._ownership, liveness, clock)
        self._inbox = Inbox(self.log, self.store, ids, clock, Attachments(self._image_limits))
        copies = IsolatedCopies(self.paths.copies, self._environment)
        records = SessionRecords(self.log, self.store, ids, clock, deleted=copies.discard)
        self.metrics = Metrics()
        self.epochs = Epochs(self.database, ids, clock, self.metrics)
        self.todos = Todos(self.log, self.database, clock)
        wakeups = Wakeups()
        self.budgets = Budgets(self.log, self.store, wakeups, clock, goes_on=self._options.goes_on)
        self._titles = Titles(
            self.log, self.store, records, self._transport, clock, self.budgets, enabled=self._options.titles
        )
        self.open_answers = OpenAnswers()
        sessions = SessionServices(
            log=self.log,
            store=self.store,
            inbox=self._inbox,
            ownership=self._ownership,
            epochs=self.epochs,
            titles=self._titles,
            budgets=self.budgets,
            open_answers=self.open_answers,
            ids=ids,
            clock=clock,
        )

        # What Locations share.
        trees = StoredTrees(self.database)
        self.outputs = OutputStore(here.tool_output, ids, clock)
        stack.push_async_callback(self._end, self._start(self.outputs.sweep_hourly(), "holdfast-sweep"))
        leftovers = McpLeftovers(self.database, clock, here.data / "mcp")
        stack.push_async_callback(self._end, self._start(leftovers.hourly(), "holdfast-mcp-leftovers"))
        copy_sessions = CopySessions(self.database, self.store, copies.folder)
        isolation = CopyServices(copies, copy_sessions, CopyOffers(copies, copy_sessions, self.outputs.save_file))
        sweep = CopySweep(copies, copy_sessions, clock)
        stack.push_async_callback(self._end, self._start(sweep.hourly(), "holdfast-copies"))
        tasks = Tasks(self.log, self.database, self.store, self._inbox, records, wakeups, clock, isolation.offers.text)
        self.credentials = CredentialStore(self.paths.credentials, ids, clock)
        self.models = ModelsDev(here.cache, self._environment, announce=self.log.announce)
        stack.push_async_callback(self.models.close)
        fetcher = Fetcher()
        skills = SkillDownloads(here.cache, fetcher)
        stack.push_async_callback(skills.close)
        remote = RemoteInstructions(WebFetch(fetcher), here.cache / "instructions", self._environment, clock)
        stack.push_async_callback(remote.close)
        self._process = ProcessServices(
            host=self._host_settings(here),
            sessions=sessions,
            database=self.database,
            providers=ProviderServices(self.models, self.credentials, self._transport),
            context=ContextServices(FileCache(), remote, skills, self.application_context),
            tools=SharedTools(
                self.application_tools,
                self.outputs,
                self.todos,
                tasks,
                isolation,
                Backends(self._environment),
                BackgroundStarts(),
            ),
            wakeups=wakeups,
            authority_at=self._authority_at,
        )
        stack.push_async_callback(self.log.close)
        stack.push_async_callback(self.budgets.close)
        stack.push_async_callback(self._ownership.close)
        self.locations: ServiceMap[LocationServices] = ServiceMap(self._build_services)
        stack.push_async_callback(self.locations.close)
        stack.push_async_callback(self._titles.close)

        # Operations on Sessions.
        roots = configured_node(self._environment).roots if self.shared else None
        self.placement = Placement(
            self.nodes, self._ownership, shared=self.shared, keeps=copies.folder.has, configured=roots or ()
        )
        self.execution = Execution(
            *(
                self.log,
                self.store,
                self.locations,
                self._ownership,
                clock,
                wakeups,
                tasks,
                self.budgets,
                self.placement,
                LeftWork(sessions),
            ),
            failed=self.observer.counters.failed,
            goes_on=self._options.goes_on,
        )
        sign_ins = SignInForms(self.log, self.database, self.credentials, clock, wakeups, goes_on=self._options.goes_on)
        self.recovery = Recovery(sessions, self.database, self.execution, tasks, trees, self._recovery_policy, sign_ins)
        self.takeover = Takeover(self.nodes, self._ownership, self.recovery, self.observer.counters, self.node_secrets)
        states = SessionStates(self.database, self.store, trees, self.execution, clock)
        self.trees = Trees(trees, states)
        self.open_requests = OpenRequests(self.database, trees, self.recovery, self.locations)
        self.session_search = SessionSearch(self.database)
        self.overview = Overview(self.database, states, self.open_requests, self.execution, self.locations)
        self.system = System(self.database, self.place, self.nodes, self.overview, self.locations, clock)
        checks = EnvironmentChecks(self.system, self.database, self.paths.data, self.locations, self.location)
        self.doctor = Doctor(self.log, checks, self.locations, self.location)
        self.tree_tail = TreeTail(self.database, self.log.relay, ids, trees.member_ids)
        tree_changes = TreeChanges(sessions, trees, self.execution, records, tasks)
        pruning = SnapshotPruning(self.database, here.data / "snapshot", copies.folder, self._environment)
        self.purges = Purges(
            self.log,
            self.database,
            self.store,
            trees,
            tree_changes,
            self.outputs,
            copies,
            pruning,
            partial(erase_former_contents, self.place),
            pace := MaintenancePace(self.execution.active),
        )
        self._pruning, self._pace = pruning, pace
        self.sessions = Sessions(
            sessions,
            execution=self.execution,
            records=records,
            reverts=Reverts(self.log, self.store, self.execution, self.locations, clock),
            moves=Moves(self.log, self.store, self.execution, self.project, clock, Git(self._environment)),
            forks=Forks(self.log, self.store, self.database, self.epochs, ids, clock),
            recovery=self.recovery,
            waits=Waits(self.database, self.store, self.execution, self._ownership, self.locations, clock),
            check=PromptCheck(self.locations, self.epochs),
            tree_changes=tree_changes,
            purges=self.purges,
        )
        self.instructions = InstructionEntries(self.log, self.store, clock)
        self.resolving = IdLocks()
        self.one_shot = OneShotAnswers(sessions, self.locations, self._transport, self._environment)
        self._start_traces(stack, trees)
        for part in (tasks, self.sessions, self.execution, self.recovery, sign_ins, self.takeover):
            stack.push_async_callback(part.close)

    def _start_traces(self, stack: AsyncExitStack, trees: StoredTrees) -> None:
        """Nothing of it is imported where no traces are wanted. It closes after all executions have ended."""
        if (settings := self._trace_settings) is None:
            return
        from holdfast.core.traces.exporter import TraceExporter
        from holdfast.core.traces.sending import TraceSender
        from holdfast.core.traces.session_traces import SessionTraces

        traces = SessionTraces(self.database, trees)
        exporter = TraceExporter(traces, TraceSender(settings), self.observer.counters)
        self.observer.traced = exporter.committed
        stack.push_async_callback(exporter.close)

    @cached_property
    def gauges(self) -> Gauges:
        """Only who reads metrics needs it."""
        from holdfast.core.runtime.gauges import Gauges

        return Gauges(self.database, self.place, self.overview, self.execution, self.placement, self.observer.started)

    @cached_property
    def inspection(self) -> Inspection:
        """Only who looks at Sessions needs it."""
        return inspecting.Inspection(self.log, MANIFEST, self.database, self.locations, self._environment, self._clock)

    @cached_property
    def usage(self) -> Usage:
        """Only reports need it."""
        from holdfast.core.inspect.usage import Usage

        return Usage(self.database, self.store, self._clock)

    @cached_property
    def bundles(self) -> Bundles:
        """Only exports and imports need it."""
        from holdfast.core.bundle.bundles import Bundles

        return Bundles(self.log, self.database, self.store, self.outputs, self.project, self._clock, self.environment)

    @cached_property
    def retention(self) -> RetentionRuns:
        """Only servers and who asks for it need it."""
        from holdfast.core.runtime.retention_runs import RetentionRuns

        return RetentionRuns(
            self.database,
            self.place,
            self.purges,
            self._pruning,
            lambda: self.bundles,
            self._environment,
            self._clock,
            self._pace,
        )

    @cached_property
    def disk_uses(self) -> DiskUses:
        """Only who asks for it needs it."""
        from holdfast.core.runtime.disk_use import DiskUses

        return DiskUses(self.database, self.place, self.paths.data)

    @cached_property
    def transcripts(self) -> TranscriptImporter:
        """Only imports of foreign conversations need it."""
        from holdfast.core.bundle.opencode.importing import TranscriptImporter

        return TranscriptImporter(self.bundles, self.database)

    @property
    def environment(self) -> dict[str, str]:
        return self._environment

    @property
    def store_identity(self) -> str:
        """Tells whether another process on this data directory has the same database."""
        return place_identity(self.place, self._environment)

    @cached_property
    def page_access(self) -> PageAccess:
        """Who may use the page. Most processes have none, so that this is imported at the first use."""
        from holdfast.core.page_access.page_access import PageAccess

        return PageAccess(self.database, self._ids, self._clock)

    @cached_property
    def access_tokens(self) -> AccessTokens:
        """Only a process that somebody calls with a token, or to manage them, needs it."""
        from holdfast.core.access.tokens import AccessTokens

        return AccessTokens(self.database, self._ids, self._clock)

    @cached_property
    def audit_trail(self) -> AuditTrail:
        """Only a process that somebody calls needs it."""
        from holdfast.core.access.audit_trail import AuditTrail

        return AuditTrail(self.database, self._ids, self._clock)

    @cached_property
    def session_audit(self) -> SessionAudit:
        """Only who asks for an audit needs it."""
        from holdfast.core.inspect.audit import SessionAudit

        return SessionAudit(self.log, self.database, MANIFEST, self.audit_trail, StoredTrees(self.database).member_ids)

    def limit_pending_inputs(self, most: int) -> None:
        """Refuse further inputs of a Session that has so many which the model has not seen."""
        self._inbox.pending_limit = most

    async def count_sessions(self) -> int:
        """Goes through an index of all of them."""
        ((number,),) = await self.database.fetch_large("session.number", {})
        assert isinstance(number, int)
        return number

    def new_event_id(self) -> str:
        return self._ids.event()

    def now(self) -> int:
        """This process's clock, in milliseconds since the epoch."""
        return self._clock.now()

    @property
    def location(self) -> Location:
        """Where a Session is created when nobody says otherwise."""
        return self.placement.located(Location(directory=str(self.directory)))

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

    async def default_model(self, location: Location | None = None) -> ModelRef | None:
        async with self.locations.use(location or self.location) as services:
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

    async def _recovery_policy(self, location: Location) -> RecoveryPolicy:
        async with self.locations.use(location) as services:
            return session_settings(services.config.current, self._environment).recovery

    async def _image_limits(self, location: Location) -> ImageLimits:
        async with self.locations.use(location) as services:
            return image_limits(services.config.current)

    async def _authority_at(self, location: Location, agent: str | None) -> Authority | None:
        async with self.locations.use(location) as services:
            await services.config.refresh()
            await services.catalog.ready()  # plugins may add agents
            return services.agents.authority(agent)

    async def describe_store(self) -> str:
        """The store in one line, without secrets."""
        return await describe_store(self.database, self.place)

    async def verify(self) -> list[Mismatch]:
        """Projection rows that differ from what the log says."""
        return [mismatch async for mismatch in self.log.verify(await self.log.aggregates())]

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
        return await open_location(self._process, location, await self.project(location))

    def _host_settings(self, here: Directories) -> HostSettings:
        options, environment = self._options, self._environment
        return HostSettings(
            environment=environment,
            directories=here,
            configuration=[(Path(HOST_DOCUMENT), options.config)] if options.config else [],
            preset=(Path(HOST_PRESET), options.preset) if options.preset else None,
            unattended=options.unattended,
            attended=options.attended,
            trust=TRUST_EVERYTHING if options.trust else self.trust_store,
            owners=None if options.trust else Owners.here(environment),
            sandbox=sandbox_choice(options.sandbox or environment.get(SANDBOX)),
            before_start=ProcessProtection().apply if options.protect else None,
            own_ports=self.own_ports,
            editor=options.editor,
            own=self.own_folders,
        )

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work, name=name)

    async def _end(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.wait({task})
