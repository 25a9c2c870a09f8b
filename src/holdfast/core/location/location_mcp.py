"""The MCP servers of a Location and their sign-ins. Nothing of MCP is imported while no server is configured."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.lazy import Lazy
from holdfast.core.mcp.servers import LocationServers
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.agent.agents import Agents
    from holdfast.core.catalog.catalog import Catalog
    from holdfast.core.command.server_prompts import ServerPrompts
    from holdfast.core.config.config import Config
    from holdfast.core.config.reload import LiveConfig
    from holdfast.core.credential.integration import IntegrationDraft
    from holdfast.core.form.forms import Forms
    from holdfast.core.location.process_services import ProcessServices
    from holdfast.core.mcp.authorizations import McpAuthorizations
    from holdfast.core.mcp.configured_servers import ConfiguredServer
    from holdfast.core.mcp.people import FormPeople
    from holdfast.core.mcp.server_host import ServerHost
    from holdfast.core.process.process import Processes
    from holdfast.core.project.project import Project
    from holdfast.core.runner.sampling import ModelSampling
    from holdfast.core.runner.services import RunnerServices
    from holdfast.core.scope import Scope
    from holdfast.schema.location import Location


class LocationMcp(Frozen):
    servers: LocationServers
    authorizations: Lazy[McpAuthorizations]
    people: Lazy[FormPeople]

    async def close(self) -> None:
        await self.servers.close()
        if self.people.made is not None:
            await self.people.made.close()
        if self.authorizations.made is not None:
            await self.authorizations.made.close()


def open_mcp(
    process: ProcessServices,
    location: Location,
    project: Project,
    config: LiveConfig,
    catalog: Catalog,
    agents: Agents,
    processes: Processes,
    forms: Forms,
    scope: Scope,
) -> LocationMcp:
    """Follows the configuration. The integrations of remote servers, and the agents' rules for their tools, are rebuilt
    whenever the servers change."""
    credentials, clock, data = process.providers.credentials, process.sessions.clock, process.host.directories.data

    def host() -> ServerHost:
        from holdfast.core.mcp.server_host import ServerHost
        from holdfast.core.mcp.start_places import StartPlaces
        from holdfast.core.mcp.stored_manifests import StoredManifests

        scope.add(credentials.on_change(servers.credential_changed))
        return ServerHost(
            directory=Path(location.directory),
            places=StartPlaces(
                Path(location.directory), project.directory, data / "mcp-start", process.host.environment
            ),
            logs=data / "mcp",
            processes=processes,
            manifests=StoredManifests(process.database, clock, location.directory),
            authorizations=authorizations,
            clock=clock,
            announce=partial(process.sessions.log.announce, location=location),
            people=people,
            sampler=lambda: servers.sampler(),
        )

    def make_people() -> FormPeople:
        from holdfast.core.mcp.people import FormPeople

        return FormPeople(forms, lambda name: authorizations().of(name))

    def make_authorizations() -> McpAuthorizations:
        from holdfast.core.mcp.authorizations import McpAuthorizations
        from holdfast.core.mcp.remote_servers import remote_servers

        return McpAuthorizations(lambda: remote_servers(servers.wanted()), credentials, clock)

    def configure(draft: IntegrationDraft) -> None:
        if servers.wanted():
            authorizations().configure(draft)

    def changed() -> None:
        catalog.integrations.reload()
        agents.state.reload()

    people = Lazy(make_people)
    authorizations = Lazy(make_authorizations)
    servers = LocationServers(host, process.tools.mcp_starts, changed)
    catalog.integrations.extend(configure)
    servers.use(_configured(config.current), config.current.directory_trusted)
    config.follow(lambda new: partial(servers.use, _configured(new), new.directory_trusted), scope)
    return LocationMcp(servers, authorizations, people)


def server_prompts(servers: LocationServers) -> ServerPrompts | None:
    """The prompts that can be called like commands."""
    if not servers.configured:
        return None
    from holdfast.core.command.server_prompts import ServerPrompts

    return ServerPrompts(servers)


def model_sampling(services: RunnerServices) -> ModelSampling:
    """What gives servers answers of a model."""
    from holdfast.core.runner.sampling import ModelSampling

    return ModelSampling(services)


def _configured(config: Config) -> Mapping[str, ConfiguredServer]:
    documents = config.documents()
    if not any(document.data.get("mcp", {}).get("servers") for document in documents):
        return {}
    from holdfast.core.mcp.configured_servers import configured_servers

    return configured_servers(documents)
