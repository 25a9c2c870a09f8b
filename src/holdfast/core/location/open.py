"""Opening a Location: its services, built once, in the order in which they depend on each other."""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.agent.agents import Agents
from holdfast.core.agent.builtin import builtin_agents
from holdfast.core.agent.callable_agents import CallableAgents
from holdfast.core.catalog.boot import PluginBoot
from holdfast.core.catalog.catalog import Catalog
from holdfast.core.command.builtin import builtin_commands
from holdfast.core.command.commands import Commands
from holdfast.core.config.config import load_config
from holdfast.core.config.environment import home_directory
from holdfast.core.config.reload import LiveConfig
from holdfast.core.config.trust import CopyTrust
from holdfast.core.config.watch import Watch
from holdfast.core.context.registry import SystemContextRegistry
from holdfast.core.form.forms import Forms
from holdfast.core.form.global_forms import GlobalForms
from holdfast.core.lazy import Lazy
from holdfast.core.location.location_context import open_location_context
from holdfast.core.location.location_mcp import model_sampling, open_mcp, server_prompts
from holdfast.core.location.mcp_tools import open_mcp_tools
from holdfast.core.location.services import LocationServices
from holdfast.core.location.settings import (
    image_limits,
    output_limits,
    pty_settings,
    remembered,
    sandbox_settings,
    session_settings,
    snapshot_limits,
    subagent_settings,
    user_only_diagnostics,
)
from holdfast.core.location.terminals import Terminals
from holdfast.core.location.toolbox import BuiltinTools
from holdfast.core.permission.authority import Authorities
from holdfast.core.permission.permission import Permissions
from holdfast.core.permission.requests import RequestServices
from holdfast.core.plugin.external import ExternalPlugins, external_plugins
from holdfast.core.plugin.plugin import PluginProblem
from holdfast.core.plugin.plugin_location import PluginLocation
from holdfast.core.plugin.plugins import Plugins
from holdfast.core.plugin.problems import PluginProblems
from holdfast.core.plugin.request import RequestHooks
from holdfast.core.plugin.terminal import TerminalHooks
from holdfast.core.process.process import Processes
from holdfast.core.process.sandbox.sandbox import Sandbox
from holdfast.core.process.sandbox.sandbox import SandboxPaths as SandboxSurroundings
from holdfast.core.prompt.lookup import Lookup
from holdfast.core.prompt.mentions import Mentions
from holdfast.core.prompt.prompt_resources import PromptResources
from holdfast.core.question.question import Questions
from holdfast.core.runner.learned import LearnedLimits
from holdfast.core.runner.runner import Runner
from holdfast.core.runner.services import LocationState, ModelServices, PeopleRequests, RunnerServices, ToolServices
from holdfast.core.scope import Scope
from holdfast.core.session.ancestors import Ancestors
from holdfast.core.session.nodes import node_tag
from holdfast.core.snapshot.snapshot import Snapshots
from holdfast.core.state import Batches, Phase
from holdfast.core.tool.authorization import PermissionAuthorizer
from holdfast.core.tool.builtin.isolation import Isolation
from holdfast.core.tool.registry import ToolRegistry
from holdfast.schema.live_event import PluginAdded

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.config.config import Config
    from holdfast.core.config.trust import Trust
    from holdfast.core.location.process_services import ProcessServices
    from holdfast.core.project.copies import ProjectCopies
    from holdfast.core.project.project import Project
    from holdfast.core.pty.ptys import Ptys
    from holdfast.schema.location import Location
    from holdfast.schema.record import Record

log = logging.getLogger(__name__)


async def open_location(process: ProcessServices, location: Location, project: Project) -> LocationServices:
    """What is built before an error is closed again."""
    async with AsyncExitStack() as stack:
        services = _open(process, location, project, stack)
        try:
            await services.mcp.open()
        except BaseException:
            await services.close()
            raise
        return services


def _open(process: ProcessServices, location: Location, project: Project, opening: AsyncExitStack) -> LocationServices:
    host, sessions, directory = process.host, process.sessions, Path(location.directory)
    scope, batches, boot, problems = Scope(), Batches(), PluginBoot(), PluginProblems()
    opening.callback(scope.close)
    announce = partial(_announce, process, location)
    config = _config(process, location, project, batches)

    # What people are asked.
    agents, ancestors = Agents(batches), Ancestors(process.database, sessions.log.signals)
    authorities = Authorities(location, ancestors, agents.authority, process.authority_at)
    requests = _requests(process, location)
    permissions = Permissions(requests, project, authorities)
    questions, forms = Questions(requests, ancestors), Forms(requests, ancestors)
    global_forms = GlobalForms(sessions.ids, sessions.clock, announce)
    opening.callback(global_forms.close)
    authorizer = PermissionAuthorizer(permissions, sessions.ownership.identify)

    # What configuration changes, in one batch. The catalog holds the policy and follows the configuration first.
    snapshots = _snapshots(process, project, config)
    opening.callback(snapshots.close)
    with batches.batch():
        catalog = _catalog(process, config, batches, announce, boot)
        opening.push_async_callback(catalog.close)
        config.follow(lambda new: partial(catalog.reconfigure, new), scope)
        agents.state.transform(builtin_agents(host.directories, directory), scope, phase=Phase.BUILTIN)
        agents.follow(config, host.environment, scope)
        sandbox = _sandbox(process, directory, project, config)
        processes = Processes(sandbox=process.tools.sandboxes, before_start=host.before_start)
        contributions = SystemContextRegistry()
        callable_agents = CallableAgents(
            agents, sessions.store.ancestors, authorities, remembered(config, subagent_settings)
        )
        mcp = open_mcp(process, location, project, config, catalog, agents, processes, forms, scope)
        mcp_tools = open_mcp_tools(mcp.servers, config, agents, authorizer, lambda: tools.names, scope)
        context = open_location_context(
            process, location, project, config, contributions, processes, callable_agents, mcp_tools, scope, batches
        )
        commands = Commands(batches, skills=context.skills.list, prompts=lambda: server_prompts(mcp.servers))
        commands.state.transform(builtin_commands(project.directory), scope, phase=Phase.BUILTIN)
        commands.follow(config, scope)
        tools = ToolRegistry(
            process.tools.application,
            process.tools.outputs,
            limits=remembered(config, output_limits),
            images=remembered(config, image_limits),
            authorizer=authorizer,
            batches=batches,
        )
        isolation = Isolation(process.tools.isolation, project, snapshots, directory, process.tools.tasks.running)
        builtin = BuiltinTools(
            process, location, config, agents, context, authorizer, questions, processes, sandbox, isolation
        )
        builtin.register(tools, scope)
    resources = PromptResources(mcp.servers, agents, authorizer)
    mentions = Mentions(
        Lookup(builtin.files, home_directory(host.environment)),
        agents,
        context.references,
        authorizer,
        sessions.inbox.attachments,
        callable_agents,
        resources,
        image_limits=remembered(config, image_limits),
    )

    # Plugins, which may add to all of the above.
    request_hooks, terminal_hooks = RequestHooks(problems.report), TerminalHooks(problems.report)
    changeable = PluginLocation(
        agents=agents.state,
        commands=commands.state,
        context=contributions,
        tools=tools,
        requests=request_hooks,
        events=sessions.log.bus,
        catalog=catalog,
        integrations=catalog.integrations,
        references=context.references.declared,
        skills=context.skill_sources,
        terminals=terminal_hooks,
    )
    plugins = Plugins(changeable, batches, lambda id: announce(PluginAdded(id=id)), problems=problems, boot=boot)
    find_plugins = partial(external_plugins, environment=host.environment)
    _start_plugins(plugins, find_plugins(config.current))
    config.follow(lambda new: partial(_start_plugins, plugins, find_plugins(new)), scope)

    terminals = Terminals(location, Lazy(partial(_ptys, process, location, config)), terminal_hooks, plugins)

    # Closed in reverse: what asks people first, so that nobody waits for an answer; then what runs.
    for close in (terminals, sandbox, processes, mcp, context, plugins, forms, questions, permissions):
        opening.push_async_callback(close.close)
    runner_services = RunnerServices(
        sessions=sessions,
        models=ModelServices(catalog, process.providers.transport, LearnedLimits(sessions.clock), request_hooks),
        tools=ToolServices(
            tools,
            builtin.shell_commands(),
            authorizer,
            snapshots,
            PeopleRequests(permissions, questions, forms),
            authorities,
            mcp_tools,
        ),
        here=LocationState(
            location=location,
            agents=agents,
            context=context,
            settings=remembered(config, partial(session_settings, environment=host.environment)),
            refresh=config.refresh,
        ),
    )
    mcp.servers.sampler = Lazy(partial(model_sampling, runner_services))
    return LocationServices(
        location=location,
        project=project,
        config=config,
        agents=agents,
        commands=commands,
        callable_agents=callable_agents,
        mentions=mentions,
        resources=resources,
        catalog=catalog,
        mcp_authorizations=mcp.authorizations,
        mcp=mcp.servers,
        mcp_tools=mcp_tools,
        permissions=permissions,
        questions=questions,
        forms=forms,
        global_forms=global_forms,
        tools=tools,
        context=context,
        plugins=plugins,
        request_hooks=request_hooks,
        snapshots=snapshots,
        sandbox=sandbox,
        search=builtin.search,
        terminals=terminals,
        copies=Lazy(partial(_copies, process, project, processes)),
        runner=Runner(runner_services),
        opened=opening.pop_all(),
    )


def _announce(process: ProcessServices, location: Location, payload: Record) -> None:
    process.sessions.log.announce(payload, location=location)


def _snapshots(process: ProcessServices, project: Project, config: LiveConfig) -> Snapshots:
    """An isolated copy shares the store of the worktree that it was copied from."""
    host, copy = process.host, process.tools.isolation.copies.folder.containing(project.directory)
    shared = Path(copy.trees) if copy is not None and copy.state == "ready" else None
    limits = remembered(config, snapshot_limits)
    return Snapshots(project, host.directories.data / "snapshot", host.environment, limits, shared=shared)


def _config(process: ProcessServices, location: Location, project: Project, batches: Batches) -> LiveConfig:
    host, copies = process.host, process.tools.isolation.copies.folder
    trust: Trust = host.trust
    if copies.containing(project.directory) is not None:
        trust = CopyTrust(trust, copies.original)

    own = host.own.around(os.path.realpath(project.directory))

    def load() -> Config:
        return load_config(
            Path(location.directory),
            project.directory,
            host.environment,
            host.configuration,
            preset=host.preset,
            trust=trust,
            owners=host.owners,
            watch=Watch(),
            own=own,
        )

    return LiveConfig(load, batches, partial(process.wakeups.location, location))


def _requests(process: ProcessServices, location: Location) -> RequestServices:
    sessions = process.sessions
    return RequestServices(
        log=sessions.log,
        database=process.database,
        ids=sessions.ids,
        clock=sessions.clock,
        location=location,
        unattended=process.host.unattended,
        attended=process.host.attended,
        wake=process.wakeups.session,
        ending=process.wakeups.ending,
    )


def _catalog(
    process: ProcessServices,
    config: LiveConfig,
    batches: Batches,
    announce: Callable[[Record], None],
    boot: PluginBoot,
) -> Catalog:
    return Catalog(
        config.current,
        process.host.environment,
        models=process.providers.models,
        credentials=process.providers.credentials,
        clock=process.sessions.clock,
        ids=process.sessions.ids,
        batches=batches,
        announce=announce,
        boot=boot,
    )


def _sandbox(process: ProcessServices, directory: Path, project: Project, config: LiveConfig) -> Sandbox:
    host, own = process.host, process.host.directories
    copy = process.tools.isolation.copies.folder.containing(project.directory)
    for problem in user_only_diagnostics(config.current):
        log.warning("%s: %s", problem.path, problem.message)
    return Sandbox(
        process.tools.sandboxes,
        remembered(config, lambda current: sandbox_settings(current, host.sandbox)),
        SandboxSurroundings(
            directory=directory,
            root=project.directory if project.store is not None else None,
            home=home_directory(host.environment),
            hidden=(own.config, own.data, own.state),
            readable=(
                *(own.tool_output, own.repos, own.plans, own.config / "skill", own.config / "skills"),
                *((project.directory,) if copy is not None else ()),  # it is below the data directory, which is hidden
            ),
            environment=host.environment,
        ),
        own_ports=lambda: host.own_ports,
        diagnostics=lambda: user_only_diagnostics(config.current),
    )


def _start_plugins(plugins: Plugins, found: ExternalPlugins) -> None:
    """In the background. Plugins that are not named any more are removed."""
    plugins.start(found.plugins, (PluginProblem(problem.path, problem.message) for problem in found.diagnostics))


def _copies(process: ProcessServices, project: Project, processes: Processes) -> ProjectCopies:
    """Made when it is first asked for, and so are the terminals."""
    from holdfast.core.project.copies import ProjectCopies

    return ProjectCopies(project, process.host.environment, processes, process.sessions.ids)


def _ptys(process: ProcessServices, location: Location, config: LiveConfig) -> Ptys:
    from holdfast.core.pty.ptys import Ptys

    host = process.host
    if host.before_start is not None:
        host.before_start()
    announce = partial(_announce, process, location)
    settings = remembered(config, pty_settings)
    sessions = process.sessions
    tag = node_tag(sessions.ownership.id)
    return Ptys(location, host.environment, ids=sessions.ids, announce=announce, settings=settings, tag=tag)
