"""The runtime in this process, with what the API has no operation for: commands, and how configuration was read."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast.embedded.holdfast import Holdfast
from holdfast.schema.frozen import Frozen
from holdfast.schema.prompt import FileInput, PromptInput
from holdfast.schema.record import Record
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from holdfast.schema.session import Session


class Problem(Record):
    """Something in a configuration file that does not count as its author meant it."""

    severity: str
    path: str
    line: int | None = None
    message: str
    suggestion: str | None = None

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        hint = f" (did you mean {self.suggestion}?)" if self.suggestion else ""
        return f"{self.severity}: {place}: {self.message}{hint}"


class ConfigReport(Record):
    files: tuple[str, ...]
    """That were read, low to high priority."""
    problems: tuple[Problem, ...]

    @property
    def refused(self) -> bool:
        """Whether a file could not be used as it was meant."""
        return any(problem.severity == "error" for problem in self.problems)


class Caller(Frozen):
    """Who runs a template's shell commands: a Session, before any message of its own."""

    session_id: str
    agent: str
    assistant_message_id: str
    tool_call_id: str


class Host(Holdfast):
    async def expand(self, session: Session, agent: str | None, name: str, arguments: str) -> PromptInput:
        """What a call of the command says. Its shell commands need permission like those of a model."""
        async with self._runtime.locations.use(session.location) as services:
            selected = services.agents.select(agent or session.agent)
            tools = services.tools.materialize(selected.agent.permissions if selected.agent else ())
            caller = cast("Any", Caller(session.id, selected.id, "", f"/{name}"))

            async def shell(command: str) -> str:
                output = await tools.bound(await tools.execute("bash", {"command": command}, caller))
                return "\n".join(part.text for part in output.content if isinstance(part, TextContent))

            called = await services.commands.invoke(name, arguments, shell)
        here = Path(session.location.directory)
        paths = ((mention, here / Path(mention).expanduser()) for mention in called.mentions)
        files = tuple(FileInput(uri=path.as_uri(), name=mention) for mention, path in paths if path.exists())
        return PromptInput(text=called.text, files=files) if files else PromptInput(text=called.text)

    async def config_report(self) -> ConfigReport:
        """What is wrong is in the report, and therefore not in the log as well."""
        log = logging.getLogger("holdfast.core.config")
        before = log.level
        log.setLevel(logging.CRITICAL)
        try:
            return await self._config_report()
        finally:
            log.setLevel(before)

    async def _config_report(self) -> ConfigReport:
        async with self._runtime.locations.use(self._runtime.location) as services:
            config = services.config.current
            found = (
                *config.diagnostics(),
                *services.agents.diagnostics(),
                *services.commands.diagnostics(),
                *services.catalog.diagnostics(),
                *services.sandbox.diagnostics(),
            )
            problems = (
                Problem(
                    severity=one.severity, path=one.path, line=one.line, message=one.message, suggestion=one.suggestion
                )
                for one in found
            )
            return ConfigReport(
                files=tuple(str(document.path) for document in config.documents()),
                problems=tuple(dict.fromkeys(problems)),
            )

    async def sandbox_line(self) -> str | None:
        """What to say about the sandbox before commands run; None where nobody asked for one."""
        async with self._runtime.locations.use(self._runtime.location) as services:
            if services.sandbox.settings.mode == "off":
                return None
            report = await services.sandbox.report()
        if report.summary:
            return f"sandbox {report.summary}" + (f"; {report.problem}" if report.problem else "")
        outcome = "commands are refused" if report.required else "commands run without one"
        return f"sandbox {report.mode} is not in force, {outcome}: {report.problem}"

    async def sandbox_lines(self) -> list[str]:
        """All that is known about the sandbox, for `holdfast doctor`."""
        line = await self.sandbox_line()
        async with self._runtime.locations.use(self._runtime.location) as services:
            report = await services.sandbox.report()
        if report.backend is None:
            found = f"this machine cannot confine commands: {report.problem}"
        else:
            found = f"this machine can confine commands ({report.backend})"
        return [line or "sandbox off", found, *(f"{report.backend}: {gap}" for gap in report.gaps)]

    async def effective_config(self) -> dict[str, Any]:
        """All files merged, without secrets."""
        async with self._runtime.locations.use(self._runtime.location) as services:
            return services.config.current.effective()
