"""The tools that come along, made for one Location."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.filesystem.location_files import LocationFiles
from holdfast.core.location.settings import bash_settings, file_settings, remembered
from holdfast.core.permission.rules import DENY_EVERYTHING, evaluate
from holdfast.core.process.environment import child_environment
from holdfast.core.search.search import Search, find_ripgrep
from holdfast.core.tool.builtin.apply_patch import apply_patch_tool
from holdfast.core.tool.builtin.bash import bash_tool
from holdfast.core.tool.builtin.edit import edit_tool
from holdfast.core.tool.builtin.glob import glob_tool
from holdfast.core.tool.builtin.grep import grep_tool
from holdfast.core.tool.builtin.question import question_tool
from holdfast.core.tool.builtin.read import read_tool
from holdfast.core.tool.builtin.skill import skill_tool
from holdfast.core.tool.builtin.todowrite import todowrite_tool
from holdfast.core.tool.builtin.webfetch import webfetch_tool
from holdfast.core.tool.builtin.websearch import configured_backends, websearch_tool
from holdfast.core.tool.builtin.write import write_tool
from holdfast.core.web.address import AddressPolicy
from holdfast.core.web.fetch import Fetcher
from holdfast.schema.live_event import FileEdited

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.agent.agents import Agents
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.location.commons import Commons
    from holdfast.core.location.location_context import LocationContext
    from holdfast.core.process.process import Processes
    from holdfast.core.process.sandbox.sandbox import Sandbox
    from holdfast.core.question.question import Questions
    from holdfast.core.scope import Scope
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.core.tool.tool import Tool
    from holdfast.schema.location import Location
    from holdfast.schema.permission import Effect


def register_tools(
    registry: ToolRegistry,
    commons: Commons,
    location: Location,
    config: LiveConfig,
    agents: Agents,
    context: LocationContext,
    authorizer: Authorizer,
    questions: Questions,
    processes: Processes,
    sandbox: Sandbox,
    scope: Scope,
) -> None:
    directory = Path(location.directory)
    managed = commons.outputs.is_managed

    def edited(path: Path) -> None:
        commons.log.announce(FileEdited(file=str(path)), location=location)

    def references() -> dict[str, Path]:
        return {reference.name: Path(reference.path) for reference in context.references.list()}

    def readable(agent: str, resource: str) -> Effect:
        authority = agents.authority(agent) or DENY_EVERYTHING
        return evaluate(authority.rules, "read", resource, authority.fences)

    settings = remembered(config, file_settings)
    files = LocationFiles(
        directory,
        settings=settings,
        managed=managed,
        references=references,
        on_edit=edited,
    )

    def bash() -> Tool[Any, Any]:
        return bash_tool(
            files.paths,
            processes,
            authorizer,
            host=commons.environment,
            settings=commands,
            store=commons.outputs,
            sandbox=sandbox,
            attended=commons.unattended() == "wait",
        )

    commands = remembered(config, bash_settings)
    search = Search(processes, child_environment(commons.environment), find_ripgrep(commons.environment))
    web = Fetcher(AddressPolicy(own_ports=commons.own_ports))
    tools: dict[str, Tool[Any, Any]] = {
        "read": read_tool(files, authorizer, on_read=context.note_read),
        "write": write_tool(files, authorizer),
        "edit": edit_tool(files, authorizer),
        "apply_patch": apply_patch_tool(files, authorizer),
        "bash": bash(),
        "glob": glob_tool(files.paths, search, authorizer, external_paths=lambda: settings().external_paths),
        "grep": grep_tool(files.paths, search, authorizer, readable, external_paths=lambda: settings().external_paths),
        "skill": skill_tool(context.skills, authorizer),
        "todowrite": todowrite_tool(commons.todos, authorizer),
        "webfetch": webfetch_tool(web, authorizer, lambda agent: (agents.authority(agent) or DENY_EVERYTHING).rules),
    }
    if commons.unattended() == "wait":
        tools["question"] = question_tool(questions, authorizer)
    if backends := configured_backends(commons.environment):
        tools["websearch"] = websearch_tool(Fetcher(), authorizer, backends)
    registry.register(tools, scope)
    _follow_sandbox(registry, sandbox, bash, config, scope)


def _follow_sandbox(
    registry: ToolRegistry, sandbox: Sandbox, bash: Callable[[], Tool[Any, Any]], config: LiveConfig, scope: Scope
) -> None:
    """Another mode is another description: the tool is registered anew, and only then."""
    shown = (sandbox.settings.mode, sandbox.settings.network)
    undo: Callable[[], None] = lambda: None  # noqa: E731

    def refresh() -> None:
        nonlocal shown, undo
        current = (sandbox.settings.mode, sandbox.settings.network)
        if current != shown:
            before, shown = undo, current
            undo = registry.register({"bash": bash()}, scope)
            before()

    config.follow(lambda new: refresh, scope)
