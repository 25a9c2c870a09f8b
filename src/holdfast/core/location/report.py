"""Everything that is wrong or ignored in the configuration of a Location, gathered from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.configuration import ConfigProblem, ConfigReport, ConfigSource

if TYPE_CHECKING:
    from holdfast.core.location.services import LocationServices


def config_report(services: LocationServices) -> ConfigReport:
    """Reads the project's configuration folders: not for the loop."""
    config = services.config.current
    found = (
        *config.diagnostics(),
        *services.agents.diagnostics(),
        *services.commands.diagnostics(),
        *services.catalog.diagnostics(),
        *services.snapshots.diagnostics(),
        *services.sandbox.diagnostics(),
    )
    problems = [
        ConfigProblem(
            severity=one.severity, path=one.path, line=one.line, message=one.message, suggestion=one.suggestion
        )
        for one in found
    ]
    problems += (
        ConfigProblem(severity="warning", path=problem.id, message=problem.message)
        for problem in services.plugins.problems()
    )
    return ConfigReport(
        files=tuple(str(document.path) for document in config.documents()),
        problems=tuple(dict.fromkeys(problems)),
        sources=tuple(
            ConfigSource(
                path=str(source.path),
                trusted=source.trusted,
                digest=source.digest,
                wants=tuple(grant.wants for grant in source.grants),
            )
            for source in config.sources()
        ),
    )
