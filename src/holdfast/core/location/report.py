"""Everything that is wrong or ignored in the configuration of a Location, gathered from its parts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.core.catalog.redirects import NEVER_COUNTS
from holdfast.core.diagnostic import Diagnostic
from holdfast.core.permission.wildcard import matches
from holdfast.schema.configuration import ConfigProblem, ConfigReport, ConfigSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.config.config import Config
    from holdfast.core.config.trust import TrustSource
    from holdfast.core.location.services import LocationServices

BOOT_SECONDS = 10.0
"""How long a report waits for plugins that are being loaded."""
ACTIONS = frozenset(
    """read edit bash glob grep skill subagent task todowrite webfetch websearch question external_directory
    sandbox_escape doom_loop""".split()  # noqa: SIM905
)
"""What is asked for beside the names of tools that are registered."""
OTHER_NAMES = {"shell": "bash", "write": "edit", "patch": "edit", "apply_patch": "edit"}
"""What OpenCode calls an action in other generations."""


async def report_of(services: LocationServices) -> ConfigReport:
    """Waits for plugins that are being loaded, up to a bound: what is wrong with them belongs here."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BOOT_SECONDS):
            await services.plugins.booted()
    catalog = services.catalog.diagnostics()  # on the loop, where the catalog is built
    return await asyncio.to_thread(_config_report, services, catalog)


def _never(services: LocationServices, source: TrustSource) -> tuple[str, ...]:
    """What the settings of a source would do that no trust lets them."""
    found = []
    for grant in source.grants:
        if len(grant.trail) == 2 and grant.trail[0] == "providers":
            id = str(grant.trail[1])
            if (origin := services.catalog.foreign_origin(id, grant.value)) is not None:
                found.append(NEVER_COUNTS.format(id=id, origin=origin))
    return tuple(found)


def _config_report(services: LocationServices, catalog: Iterable[Diagnostic]) -> ConfigReport:
    """Reads the project's configuration folders: not for the loop."""
    config = services.config.current
    found = (
        *services.config.diagnostics(),
        *services.agents.diagnostics(),
        *services.commands.diagnostics(),
        *catalog,
        *services.snapshots.diagnostics(),
        *services.sandbox.diagnostics(),
        *services.context.diagnostics(),
        *unused_rules(config, (*services.tools.names, *services.mcp_tools.names()), services.mcp_tools.prefixes()),
    )
    problems = [
        ConfigProblem(
            severity=one.severity, path=one.path, line=one.line, message=one.message, suggestion=one.suggestion
        )
        for one in found
    ]
    problems += (
        ConfigProblem(
            severity="warning",
            path=problem.declared or problem.id,
            message=f"plugin {problem.id}: {problem.message}" if problem.declared else problem.message,
        )
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
                directory=source.directory or None,
                never=_never(services, source) or None,
            )
            for source in config.sources()
        ),
    )


def unused_rules(config: Config, tools: Iterable[str], prefixes: tuple[str, ...] = ()) -> Iterator[Diagnostic]:
    """Permission rules about an action that nothing here asks for: a misspelled denial protects nothing. What a server
    offers is not always known: any name with one of the `prefixes` may be a tool."""
    known = ACTIONS | frozenset(tools)
    for document in config.documents():
        for trail, rules in _rules(document.data):
            for action in dict.fromkeys(rule["action"] for rule in rules):
                if any(matches(action, name) for name in known) or action.startswith(prefixes):
                    continue
                import difflib

                near = difflib.get_close_matches(action[:50], known, n=1)
                other = OTHER_NAMES.get(action) or (near[0] if near else None)
                message = f"{trail}: no tool here asks for {action[:50]}; rules about it have no effect"
                yield Diagnostic(str(document.path), message, suggestion=other)


def _rules(data: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    yield "permissions", data.get("permissions", [])
    for id, agent in data.get("agents", {}).items():
        yield f"agents.{id}.permissions", agent.get("permissions", [])
