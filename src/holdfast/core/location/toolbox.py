"""The built-in tools of a Location."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.filesystem.location_files import LocationFiles
from holdfast.core.location.settings import bash_settings, file_settings, remembered, subagent_settings
from holdfast.core.process.environment import child_environment
from holdfast.core.project.directory import canonical_directory
from holdfast.core.search.search import Search, find_ripgrep
from holdfast.core.tool.builtin.apply_patch import apply_patch_tool
from holdfast.core.tool.builtin.apply_subagent import ApplySubagent, apply_subagent_tool
from holdfast.core.tool.builtin.bash import ShellCommands, bash_tool
from holdfast.core.tool.builtin.edit import edit_tool
from holdfast.core.tool.builtin.glob import glob_tool
from holdfast.core.tool.builtin.grep import grep_tool
from holdfast.core.tool.builtin.read import read_tool
from holdfast.core.tool.builtin.skill import skill_tool
from holdfast.core.tool.builtin.subagent import Subagents, subagent_tool
from holdfast.core.tool.builtin.tasks import tasks_tool
from holdfast.core.tool.builtin.todowrite import todowrite_tool
from holdfast.core.tool.builtin.webfetch import webfetch_tool
from holdfast.core.tool.builtin.websearch import configured_services, websearch_tool
from holdfast.core.tool.builtin.write import write_tool
from holdfast.core.web.address import AddressPolicy
from holdfast.core.web.fetch import Fetcher
from holdfast.schema.deferred import deferred
from holdfast.schema.live_event import FileEdited

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.agent.agents import Agents
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.location.location_context import LocationContext
    from holdfast.core.location.process_services import ProcessServices
    from holdfast.core.process.process import Processes
    from holdfast.core.process.sandbox.sandbox import Sandbox
    from holdfast.core.question.question import Questions
    from holdfast.core.scope import Scope
    from holdfast.core.tool.authorization import PermissionAuthorizer
    from holdfast.core.tool.builtin import question
    from holdfast.core.tool.builtin.isolation import Isolation
    from holdfast.core.tool.registry import ToolRegistry
    from holdfast.core.tool.tool import Tool
    from holdfast.schema.location import Location
else:
    question = deferred("holdfast.core.tool.builtin.question")


class BuiltinTools:
    """The tools of one Location that come with Holdfast."""

    def __init__(
        self,
        process: ProcessServices,
        location: Location,
        config: LiveConfig,
        agents: Agents,
        context: LocationContext,
        authorizer: PermissionAuthorizer,
        questions: Questions,
        processes: Processes,
        sandbox: Sandbox,
        isolation: Isolation,
    ) -> None:
        self._process = process
        self._host = process.host
        self._location = location
        self._config = config
        self._agents = agents
        self._context = context
        self._authorizer = authorizer
        self._questions = questions
        self._processes = processes
        self._sandbox = sandbox
        self._isolation = isolation
        self._root = Path(canonical_directory(str(isolation.root)))
        self.search = Search(
            processes, child_environment(process.host.environment), find_ripgrep(process.host.environment)
        )
        self._settings = remembered(config, file_settings)
        self._commands = remembered(config, bash_settings)
        self._subagents = remembered(config, subagent_settings)
        self.files = LocationFiles(
            Path(location.directory),
            settings=self._settings,
            managed=process.tools.outputs.is_managed,
            references=self._context.references.directories,
            on_edit=self._edited,
            editor=process.host.editor,
            own=process.host.own.with_skills(self._context.skill_directories),
        )

    def register(self, registry: ToolRegistry, scope: Scope) -> None:
        registry.register(self._tools(), scope)
        _follow_sandbox(registry, self._sandbox, self._bash, self._config, scope)

    def _tools(self) -> dict[str, Tool[Any, Any]]:
        host, files, search, authorizer = self._host, self.files, self.search, self._authorizer
        external_paths, authority = self._external_paths, authorizer.authority
        web = Fetcher(AddressPolicy(own_ports=lambda: host.own_ports))
        tasks, store = self._process.tools.tasks, self._process.sessions.store
        subagents = Subagents(tasks, store, self._agents, authorizer, self._subagents, self._isolation)
        tools: dict[str, Tool[Any, Any]] = {
            "read": read_tool(files, authorizer, on_read=self._context.note_read),
            "write": write_tool(files, authorizer),
            "edit": edit_tool(files, authorizer, authority),
            "apply_patch": apply_patch_tool(files, authorizer),
            "bash": self._bash(),
            "glob": glob_tool(files.paths, search, authorizer, external_paths=external_paths),
            "grep": grep_tool(
                files.paths, search, authorizer, authorizer.authority, external_paths=self._external_paths
            ),
            "skill": skill_tool(self._context.skills, authorizer),
            "subagent": subagent_tool(subagents),
            "tasks": tasks_tool(tasks, subagents),
            "todowrite": todowrite_tool(self._process.tools.todos, authorizer),
            "webfetch": webfetch_tool(web, authorizer, authority),
        }
        if self._isolation.possible:
            applying = ApplySubagent(self._isolation, store, files, authorizer, self._edited)
            tools["apply_subagent"] = apply_subagent_tool(applying)
        if host.unattended == "wait":
            tools["question"] = question.question_tool(self._questions, authorizer)
        if backends := configured_services(host.environment):
            tools["websearch"] = websearch_tool(Fetcher(), authorizer, backends)
        return tools

    def _bash(self) -> Tool[Any, Any]:
        return bash_tool(
            self.files.paths,
            self._processes,
            self._authorizer,
            host=self._host.environment,
            settings=self._commands,
            store=self._process.tools.outputs,
            sandbox=self._sandbox,
            root=self._root,
            attended=self._host.unattended == "wait",
        )

    def shell_commands(self) -> ShellCommands:
        """For commands that a person runs in a Session."""
        return ShellCommands(
            self.files.paths,
            self._processes,
            self._authorizer,
            self._host.environment,
            self._commands,
            self._sandbox,
            self._root,
        )

    def _external_paths(self) -> Literal["ask", "deny"]:
        return self._settings().external_paths

    def _edited(self, path: Path) -> None:
        self._process.sessions.log.announce(FileEdited(file=str(path)), location=self._location)


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
