"""What the model is told about its surroundings in a Location: instructions, skills, references, environment, date,
and whether it plans.

The registry holds what is the same for every Session; what depends on the Session or its agent is composed after it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.config.document import DOT, Directory
from holdfast.core.config.environment import config_home, home_directory
from holdfast.core.context.configured import ConfiguredInstructions, Entry
from holdfast.core.context.date import date, find_zone
from holdfast.core.context.environment import environment
from holdfast.core.context.instructions import InstructionFiles
from holdfast.core.context.model import model
from holdfast.core.context.nested import NestedInstructions
from holdfast.core.context.plan_mode import plan_mode
from holdfast.core.context.registry import compose
from holdfast.core.context.system_context import EMPTY, combine
from holdfast.core.reference.checkouts import Checkouts
from holdfast.core.reference.guidance import reference_context
from holdfast.core.reference.reference import References
from holdfast.core.skill.builtin import CUSTOMIZE
from holdfast.core.skill.guidance import SkillGuidance, permitted
from holdfast.core.skill.skill import SkillSources, configured_sources, directory_sources
from holdfast.core.skill.skills import Skills
from holdfast.core.state import Phase, State
from holdfast.core.tool.tool_events import record_with_call
from holdfast.schema.live_event import ReferenceUpdated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from holdfast.core.catalog.catalog import ResolvedModel
    from holdfast.core.config.config import Config
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.context.registry import SystemContextRegistry
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.location.process_services import ProcessServices
    from holdfast.core.process.process import Processes
    from holdfast.core.project.project import Project
    from holdfast.core.reference.reference import Reference
    from holdfast.core.scope import Scope
    from holdfast.core.state import Batches
    from holdfast.core.tool.tool import ToolContext
    from holdfast.schema.agent import Agent
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session

REMEMBERED = 1_000


class Surface:
    def __init__(
        self,
        process: ProcessServices,
        location: Location,
        project: Project,
        config: LiveConfig,
        registry: SystemContextRegistry,
        processes: Processes,
        scope: Scope,
        batches: Batches,
    ) -> None:
        self._process = process
        host = process.host
        self._location = location
        self._project = project
        self._registry = registry
        self._directory = Path(location.directory)
        self._home = home_directory(host.environment)
        self._instructions = InstructionFiles(
            self._directory,
            project.directory,
            config_home(host.environment),
            process.context.files,
            host.environment,
            host.owners,
        )
        self._without_nested: set[str] = set()
        self._resolved: tuple[References, tuple[Reference, ...]] | None = None
        self.references: State[References] = State(References, batches)
        self._checkouts = Checkouts(
            host.directories.repos,
            processes,
            host.environment,
            updated=lambda: process.sessions.log.announce(ReferenceUpdated(), location=location),
        )
        self.skill_sources: State[SkillSources] = State(lambda: SkillSources([CUSTOMIZE]), batches)
        self.skills = Skills(lambda: self.skill_sources.value.list(), process.context.skills)
        self._guidance = SkillGuidance(self.skills)
        self._take(config.current)
        self.references.transform(self._declare, scope, phase=Phase.CONFIG)
        self.skill_sources.transform(self._add_skills, scope, phase=Phase.CONFIG)
        config.follow(lambda new: partial(self._reload, new), scope)
        registry.register("core/builtins", lambda: self._builtins, scope)
        registry.register("core/instructions", self._instructions.ambient, scope)
        registry.register("core/instructions-configured", lambda: self._configured.load(), scope)
        registry.register(
            "core/instructions-remote", lambda: process.context.remote.load(self._configured.urls()), scope
        )
        self.nested = NestedInstructions(
            process.database, location, self._instructions, process.sessions.clock, lambda: self._configured.find()
        )

    async def context(self, session: Session, agent: Agent, resolved: ResolvedModel) -> SystemContext:
        """For one turn of a Session, in the order in which it is read."""
        return await compose(
            (
                self._registry.load,
                self._process.context.application.load,
                lambda: model(resolved.ref),
                lambda: self._guidance.context(agent.permissions, agent.fences),
                self._references,
                partial(self._nested, session.id),
                lambda: plan_mode(agent),
            )
        )

    def begin(self, session_id: str) -> None:
        """A drain begins, or something was discovered: look again at what reads brought to light."""
        self._without_nested.discard(session_id)

    async def close(self) -> None:
        await self._checkouts.close()

    def hidden_tools(self, agent: Agent) -> frozenset[str]:
        """What would be of no use to this agent, as its guidance has just seen it."""
        skills = self.skills.latest
        if skills is None or permitted(skills, agent.permissions, agent.fences):
            return frozenset()
        return frozenset({"skill"})

    def known_references(self) -> tuple[Reference, ...]:
        return self._referenced[0]

    def _references(self) -> SystemContext:
        known, context = self._referenced
        if known:
            self._checkouts.refresh(known)  # in the background, and only what is due
        return context

    @property
    def _referenced(self) -> tuple[tuple[Reference, ...], SystemContext]:
        """Worked out once for each set of references; which checkouts exist is looked at each time there are any."""
        draft = self.references.value
        if self._resolved is None or self._resolved[0] is not draft:
            known = draft.resolve(self._process.host.directories.repos)
            self._resolved = (draft, known)
        known = self._resolved[1]
        return known, reference_context(known) if known else EMPTY

    async def note_read(self, context: ToolContext, path: Path) -> None:
        """A successful read may bring instructions to light, which the next boundary admits."""
        discovered = await self.nested.discover(context.session_id, path)
        if discovered is not None:
            self.begin(context.session_id)
            if not record_with_call(discovered):
                await self._process.sessions.log.publish(discovered, location=self._location)

    def _nested(self, session_id: str) -> SystemContext | Awaitable[SystemContext]:
        return EMPTY if session_id in self._without_nested else self._load_nested(session_id)

    async def _load_nested(self, session_id: str) -> SystemContext:
        if await self.nested.known(session_id):
            return await compose([partial(self.nested.load, session_id)])
        if len(self._without_nested) >= REMEMBERED:
            self._without_nested.clear()
        self._without_nested.add(session_id)
        return EMPTY

    def _take(self, config: Config) -> None:
        self._config = config
        zone = find_zone(config.latest("timezone"))
        self._builtins = combine([environment(self._location, self._project), date(self._process.sessions.clock, zone)])
        entries = [
            Entry(text, document.base, document.trusted)
            for document in config.documents()
            for text in document.data.get("instructions", ())
        ]
        self._configured = ConfiguredInstructions(entries, self._instructions, self._process.context.files, self._home)

    def _reload(self, config: Config) -> None:
        self._take(config)
        self.references.reload()
        self.skill_sources.reload()

    def _declare(self, draft: References) -> None:
        for document in self._config.documents():
            draft.declare(document.data.get("references", {}), document.directory, self._home)

    def _possible_folders(self) -> Iterator[Path]:
        """Where a project may put its skills later, while it is open."""
        if self._instructions.project_enabled:
            root = self._project.directory if self._project.store is not None else self._directory
            for folder in (*reversed(self._directory.parents), self._directory):
                if folder.is_relative_to(root):
                    yield folder / DOT

    def _add_skills(self, draft: SkillSources) -> None:
        found = [entry.path for entry in self._config.entries() if isinstance(entry, Directory)]
        folders = list(dict.fromkeys((*found, *self._possible_folders())))
        entries = [text for document in self._config.documents() for text in document.data.get("skills", ())]
        for source in (*directory_sources(folders), *configured_sources(entries, self._directory, self._home)):
            draft.add(source)
