"""Opening a Location: everything that a Session finds around it, built once and wired here, in the order in which the
parts need each other. Nothing takes a Session id."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.agent.agents import Agents
from holdfast.core.agent.builtin import builtin_agents
from holdfast.core.catalog.catalog import Catalog
from holdfast.core.command.builtin import builtin_commands
from holdfast.core.command.commands import Commands
from holdfast.core.config.config import load_config
from holdfast.core.config.environment import home_directory
from holdfast.core.config.reload import LiveConfig
from holdfast.core.config.watch import Watch
from holdfast.core.context.registry import SystemContextRegistry
from holdfast.core.lazy import Lazy
from holdfast.core.location.services import LocationServices
from holdfast.core.location.settings import (
    image_limits,
    output_limits,
    pty_settings,
    remembered,
    sandbox_diagnostics,
    sandbox_settings,
    session_settings,
    snapshot_limits,
)
from holdfast.core.location.surface import Surface
from holdfast.core.location.toolbox import register_tools
from holdfast.core.permission.permission import Permissions
from holdfast.core.plugin.external import Found, external_plugins
from holdfast.core.plugin.host import Location as PluginLocation
from holdfast.core.plugin.plugin import PluginProblem
from holdfast.core.plugin.plugins import Plugins
from holdfast.core.plugin.request import RequestHooks
from holdfast.core.plugin.terminal import TerminalHooks
from holdfast.core.process.process import Processes
from holdfast.core.process.sandbox.sandbox import Sandbox
from holdfast.core.process.sandbox.sandbox import Surroundings as SandboxSurroundings
from holdfast.core.question.question import Questions
from holdfast.core.runner.learned import LearnedLimits
from holdfast.core.runner.runner import Runner
from holdfast.core.runner.services import LocationState, ModelServices, PeopleRequests, RunnerServices, ToolServices
from holdfast.core.scope import Scope
from holdfast.core.snapshot.snapshot import Snapshots
from holdfast.core.state import Batches, Phase
from holdfast.core.tool.authorization import Authorization
from holdfast.core.tool.registry import ToolRegistry
from holdfast.schema.live_event import PluginAdded

if TYPE_CHECKING:
    from holdfast.core.config.config import Config
    from holdfast.core.location.commons import Commons
    from holdfast.core.project.copies import ProjectCopies
    from holdfast.core.project.project import Project
    from holdfast.core.pty.ptys import Ptys
    from holdfast.schema.location import Location
    from holdfast.schema.record import Record

log = logging.getLogger(__name__)


async def open_location(commons: Commons, location: Location, project: Project) -> LocationServices:
    directory, scope, batches = Path(location.directory), Scope(), Batches()

    def announce(payload: Record) -> None:
        commons.log.announce(payload, location=location)

    def load() -> Config:
        return load_config(
            directory,
            project.directory,
            commons.environment,
            commons.host_configuration,
            trust=commons.trust,
            owners=commons.owners,
            watch=Watch(),
        )

    config = LiveConfig(load, batches, lambda: commons.wake_pending(location))
    agents, context = Agents(batches), SystemContextRegistry(commons.epochs.metrics)
    commands = Commands(batches, skills=lambda: surface.skills.list())
    permissions = Permissions(
        log=commons.log,
        database=commons.database,
        ids=commons.ids,
        clock=commons.clock,
        location=location,
        project=project,
        authority_of=agents.authority,
        unattended=commons.unattended(),
        wake=commons.wake,
        ending=commons.ending,
    )
    questions = Questions(
        log=commons.log,
        database=commons.database,
        ids=commons.ids,
        clock=commons.clock,
        location=location,
        unattended=commons.unattended(),
        wake=commons.wake,
        ending=commons.ending,
    )
    authorizer = Authorization(permissions)
    hooks = RequestHooks(lambda id, message: plugins.diagnose(id, message))
    terminal_hooks = TerminalHooks(lambda id, message: plugins.diagnose(id, message))
    with batches.batch():
        catalog = Catalog(
            config.current,
            commons.environment,
            models=commons.models,
            credentials=commons.credentials,
            clock=commons.clock,
            ids=commons.ids,
            batches=batches,
            announce=announce,
            boot=lambda: plugins.booted() if plugins.booting else None,
        )
        # Policy lives in the catalog and hears of a new configuration before anyone else.
        config.follow(lambda new: lambda: catalog.reconfigure(new), scope)
        agents.state.transform(builtin_agents(commons.directories, directory), scope, phase=Phase.BUILTIN)
        agents.follow(config, commons.environment, scope)
        commands.state.transform(builtin_commands(project.directory), scope, phase=Phase.BUILTIN)
        commands.follow(config, scope)
        processes = Processes(sandbox=commons.sandboxes, before_start=commons.before_start)
        surface = Surface(commons, location, project, config, context, processes, scope, batches)
        tools = ToolRegistry(
            commons.application_tools,
            commons.outputs,
            limits=remembered(config, output_limits),
            images=remembered(config, image_limits),
            batches=batches,
        )
        sandbox = _sandbox(commons, directory, project, config)
        register_tools(
            tools, commons, location, config, agents, surface, authorizer, questions, processes, sandbox, scope
        )
    plugins = Plugins(
        PluginLocation(
            agents=agents.state,
            commands=commands.state,
            context=context,
            tools=tools,
            authorizer=authorizer,
            requests=hooks,
            events=commons.log.bus,
            catalog=catalog,
            integrations=catalog.integrations,
            references=surface.references,
            skills=surface.skill_sources,
            terminals=terminal_hooks,
        ),
        batches,
        lambda id: announce(PluginAdded(id=id)),
    )
    find_plugins = partial(external_plugins, environment=commons.environment)
    _start_plugins(plugins, find_plugins(config.current))
    config.follow(lambda new: partial(_start_plugins, plugins, find_plugins(new)), scope)

    def open_copies() -> ProjectCopies:
        from holdfast.core.project.copies import ProjectCopies

        return ProjectCopies(project, commons.environment, processes, commons.ids)

    def open_terminals() -> Ptys:
        from holdfast.core.pty.ptys import Ptys

        if commons.before_start is not None:
            commons.before_start()
        settings = remembered(config, pty_settings)
        return Ptys(location, commons.environment, ids=commons.ids, announce=announce, settings=settings)

    snapshots = Snapshots(
        project, commons.directories.data / "snapshot", commons.environment, remembered(config, snapshot_limits)
    )

    runner = Runner(
        RunnerServices(
            sessions=commons.sessions,
            models=ModelServices(catalog, commons.transport, LearnedLimits(commons.clock), hooks),
            tools=ToolServices(tools, authorizer, snapshots, PeopleRequests(permissions, questions)),
            here=LocationState(
                location=location,
                agents=agents,
                context=surface,
                settings=remembered(config, lambda current: session_settings(current, commons.environment)),
                refresh=config.refresh,
            ),
        )
    )
    return LocationServices(
        location=location,
        project=project,
        config=config,
        agents=agents,
        commands=commands,
        catalog=catalog,
        permissions=permissions,
        questions=questions,
        tools=tools,
        surface=surface,
        plugins=plugins,
        snapshots=snapshots,
        processes=processes,
        sandbox=sandbox,
        terminals=Lazy(open_terminals),
        terminal_hooks=terminal_hooks,
        copies=Lazy(open_copies),
        runner=runner,
        scope=scope,
    )


def _sandbox(commons: Commons, directory: Path, project: Project, config: LiveConfig) -> Sandbox:
    own = commons.directories
    for problem in sandbox_diagnostics(config.current):
        log.warning("%s: %s", problem.path, problem.message)
    return Sandbox(
        commons.sandboxes,
        remembered(config, lambda current: sandbox_settings(current, commons.sandbox)),
        SandboxSurroundings(
            directory=directory,
            root=project.directory if project.store is not None else None,
            home=home_directory(commons.environment),
            hidden=(own.config, own.data, own.state),
            readable=(own.tool_output, own.repos, own.plans, own.config / "skill", own.config / "skills"),
        ),
        own_ports=commons.own_ports,
        diagnostics=lambda: sandbox_diagnostics(config.current),
    )


def _start_plugins(plugins: Plugins, found: Found) -> None:
    """In the background; what is not named any more leaves."""
    plugins.start(found.plugins, (PluginProblem(problem.path, problem.message) for problem in found.diagnostics))
