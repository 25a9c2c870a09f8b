"""The System Context of one Location: environment, instructions, skills, agents, references, MCP servers, plan mode.

The registry holds what is the same for every Session; what depends on the Session or its agent is composed after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.agent.guidance import AgentGuidance
from holdfast.core.config.environment import config_home, home_directory
from holdfast.core.context import configured, remote
from holdfast.core.context.entries import instruction_entries
from holdfast.core.context.file_cache import FileCache
from holdfast.core.context.instructions import InstructionFiles
from holdfast.core.context.isolated_copy import isolated_copy
from holdfast.core.context.model import model
from holdfast.core.context.nested import NestedInstructions
from holdfast.core.context.plan_mode import plan_mode
from holdfast.core.context.system_context import combine
from holdfast.core.context.turn_context import TurnContext
from holdfast.core.diagnostic import Diagnostic
from holdfast.core.location.context_settings import ContextSettings
from holdfast.core.location.settings import remembered
from holdfast.core.reference.checkouts import Checkouts
from holdfast.core.reference.location_references import LocationReferences
from holdfast.core.skill.builtin import CUSTOMIZE
from holdfast.core.skill.guidance import SkillGuidance
from holdfast.core.skill.skill import DirectorySource, SkillSources
from holdfast.core.skill.skills import Skills
from holdfast.core.state import Phase, State
from holdfast.core.tool.tool_events import record_with_call
from holdfast.schema.live_event import ReferenceUpdated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.agent.callable_agents import CallableAgents
    from holdfast.core.catalog.catalog import ResolvedModel
    from holdfast.core.config.config import Config
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.context.registry import SystemContextRegistry
    from holdfast.core.event.log import EventLog
    from holdfast.core.location.process_services import ProcessServices
    from holdfast.core.mcp.location_tools import McpTools
    from holdfast.core.process.process import Processes
    from holdfast.core.project.project import Project
    from holdfast.core.scope import Scope
    from holdfast.core.state import Batches
    from holdfast.core.tool.tool import ToolContext
    from holdfast.schema.agent import Agent
    from holdfast.schema.instruction import InstructionEntry
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session


class LocationContext:
    def __init__(
        self,
        location: Location,
        registry: SystemContextRegistry,
        application: SystemContextRegistry,
        skill_sources: State[SkillSources],
        skills: Skills,
        references: LocationReferences,
        nested: NestedInstructions,
        callable_agents: CallableAgents,
        mcp: McpTools,
        log: EventLog,
        diagnostics: Callable[[], list[Diagnostic]],
        fetched: Callable[[], dict[str, int]],
    ) -> None:
        """`fetched` returns remote instructions that are being fetched, with the time when that began."""
        self.fetched = fetched
        self._location = location
        self._registry = registry
        self._application = application
        self.skill_sources = skill_sources
        self.skills = skills
        self.references = references
        self._nested = nested
        self._callable_agents = callable_agents
        self._mcp = mcp
        self._log = log
        self.diagnostics = diagnostics
        """Reads the instruction files and returns what is wrong with them. Not for the event loop."""

    def compose(
        self, session: Session, agent: Agent, resolved: ResolvedModel, entries: Sequence[InstructionEntry] = ()
    ) -> TurnContext:
        """The sources for one turn of a Session, in the order in which the model reads them."""
        skills = SkillGuidance(self.skills, agent.permissions, agent.fences)
        agents = AgentGuidance(self._callable_agents, session, agent)
        system = combine(
            (
                self._registry.compose(),
                self._application.compose(),
                model(resolved.ref),
                skills.context(),
                agents.context(),
                self.references.context(),
                self._mcp.context(agent),
                self._nested.context(session.id),
                instruction_entries(entries),
                plan_mode(agent),
            )
        )
        return TurnContext(system, lambda: skills.hidden_tools() | agents.hidden_tools())

    def skill_directories(self) -> list[Path]:
        """The local directories in which skills are looked for now."""
        return [Path(source.path) for source in self.skill_sources.value.list() if isinstance(source, DirectorySource)]

    def begin(self, session: Session, discovered: Sequence[str], ancestors: int) -> None:
        """Take over what a drain of this Session has read when it began: another process may have executed it."""
        self._nested.begin(session.id, discovered)
        self._callable_agents.begin(session, ancestors)

    async def note_read(self, context: ToolContext, path: Path) -> None:
        """Record the nested instructions that a successful read discovers. The next boundary tells them."""
        discovered = await self._nested.discover(context.session_id, path)
        if discovered is not None and not record_with_call(discovered):
            await self._log.publish(discovered, location=self._location)

    async def close(self) -> None:
        await self.references.close()


def open_location_context(
    process: ProcessServices,
    location: Location,
    project: Project,
    config: LiveConfig,
    registry: SystemContextRegistry,
    processes: Processes,
    callable_agents: CallableAgents,
    mcp: McpTools,
    scope: Scope,
    batches: Batches,
) -> LocationContext:
    """Build a Location's context and register its contributions. Everything follows the configuration."""
    host, shared, sessions = process.host, process.context, process.sessions
    home = home_directory(host.environment)

    def instruction_files(cache: FileCache, *, quiet: bool = False) -> InstructionFiles:
        return InstructionFiles(
            Path(location.directory),
            project.directory,
            config_home(host.environment),
            cache,
            host.environment,
            host.owners,
            lambda: config.current.reads,
            quiet=quiet,
        )

    def settings_of(current: Config, files: InstructionFiles, cache: FileCache) -> ContextSettings:
        return ContextSettings(current, location, project, home, sessions.clock, files, cache)

    def diagnostics() -> list[Diagnostic]:
        cache = FileCache()
        files = instruction_files(cache, quiet=True)
        problems = files.problems(settings_of(config.current, files, cache).instructions.find_now)
        return [Diagnostic(location.directory, problem) for problem in problems]

    files = instruction_files(shared.files)
    settings = remembered(config, lambda current: settings_of(current, files, shared.files))
    checkouts = Checkouts(
        host.directories.repos,
        processes,
        host.environment,
        updated=lambda: sessions.log.announce(ReferenceUpdated(), location=location),
    )
    references = LocationReferences(host.directories.repos, checkouts, batches)
    skill_sources = State(lambda: SkillSources([CUSTOMIZE]), batches)
    references.declared.transform(lambda draft: settings().declare_references(draft), scope, phase=Phase.CONFIG)
    skill_sources.transform(lambda draft: settings().add_skill_sources(draft), scope, phase=Phase.CONFIG)

    def refusal(source: DirectorySource, path: str) -> str | None:
        return config.current.reads.refusal(path, anywhere=source.trusted) if source.by_project else None

    skills = Skills(lambda: skill_sources.value.list(), shared.skills, refusal)

    def reload() -> None:
        references.declared.reload()
        skill_sources.reload()
        skills.forget()

    config.follow(lambda new: reload, scope)
    ambient = files.ambient()
    registry.register("core/builtins", lambda: settings().builtins, scope)
    registry.register("core/instructions", lambda: ambient, scope)
    copies = process.tools.isolation.copies
    if (copy := copies.folder.containing(Path(location.directory))) is not None:
        gone = isolated_copy(lambda: copies.why_gone(copy.session_id))
        registry.register("core/isolated-copy", lambda: gone, scope)
    registry.register(configured.CONTRIBUTION, lambda: settings().instructions.context(), scope)
    registry.register(remote.CONTRIBUTION, lambda: shared.remote.context(settings().instructions.urls()), scope)
    nested = NestedInstructions(
        process.database, location, files, sessions.clock, lambda: settings().instructions.find()
    )
    return LocationContext(
        location,
        registry,
        shared.application,
        skill_sources,
        skills,
        references,
        nested,
        callable_agents,
        mcp,
        sessions.log,
        diagnostics,
        lambda: shared.remote.fetched(settings().instructions.urls()),
    )
