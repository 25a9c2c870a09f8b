"""The runtime in this process, with what only this machine can tell: how its configuration was read."""

from __future__ import annotations

from typing import Any

from holdfast.embedded.holdfast import Holdfast
from holdfast.schema.record import Record


class Problem(Record):
    """Something in a configuration file that does not count as its author meant it."""

    severity: str
    path: str
    line: int | None = None
    message: str
    suggestion: str | None = None

    @property
    def place(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class ConfigReport(Record):
    files: tuple[str, ...]
    """That were read, low to high priority."""
    problems: tuple[Problem, ...]

    @property
    def refused(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)


class Host(Holdfast):
    async def config_report(self) -> ConfigReport:
        async with self._runtime.locations.use(self._runtime.location) as services:
            config = services.config.current
            found = (
                *config.diagnostics(),
                *services.agents.diagnostics(),
                *services.commands.diagnostics(),
                *services.catalog.diagnostics(),
            )
            problems = (
                Problem(
                    severity=one.severity,
                    path=one.path,
                    line=one.line,
                    message=one.message,
                    suggestion=one.suggestion,
                )
                for one in found
            )
            files = tuple(str(document.path) for document in config.documents())
            return ConfigReport(files=files, problems=tuple(dict.fromkeys(problems)))

    async def effective_config(self) -> dict[str, Any]:
        """Everything merged, without secrets."""
        async with self._runtime.locations.use(self._runtime.location) as services:
            return services.config.current.effective()
