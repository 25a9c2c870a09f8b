"""Collects problems of plugins after their setup."""

from __future__ import annotations

import logging

from holdfast.core.plugin.plugin import PluginProblem

MOST_PROBLEMS = 200

log = logging.getLogger(__name__)


class PluginProblems:
    def __init__(self) -> None:
        self._problems: list[PluginProblem] = []

    def report(self, id: str, message: str) -> None:
        log.warning("plugin %s: %s", id, message)
        if (problem := PluginProblem(id, message)) not in self._problems:
            self._problems.append(problem)
            del self._problems[:-MOST_PROBLEMS]

    def forget(self, id: str) -> None:
        self._problems = [problem for problem in self._problems if problem.id != id]

    def list(self) -> tuple[PluginProblem, ...]:
        return tuple(self._problems)
