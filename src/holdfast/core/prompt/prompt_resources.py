"""Resources of MCP servers that a prompt attaches, as files or with mentions. They are read once, before the prompt is
admitted.

Invariants
- Reading one is a call of its server: it needs the permission `<server>_resources` for the address of the resource,
  asked for the prompt's agent.
- A file of the caller that cannot be read refuses the prompt; a mention becomes a note.
- Nothing of MCP is imported while no server is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.filesystem.content import Unusable, is_data_uri
from holdfast.core.prompt.prompt_permissions import PromptPermissions
from holdfast.core.session.attachments import check_size
from holdfast.core.session.input_errors import AttachmentRefused
from holdfast.core.tool.builtin.authorize import Denied, narrowest_first
from holdfast.core.tool.tool import ToolContext

if TYPE_CHECKING:
    from holdfast.core.agent.agents import Agents
    from holdfast.core.mcp.resource_address import ResourceAddress
    from holdfast.core.mcp.servers import LocationServers
    from holdfast.core.session.attachment_source import Source
    from holdfast.core.tool.builtin.authorize import Authorizer
    from holdfast.schema.prompt import Prompt
    from holdfast.schema.session import Session

LABEL_CHARACTERS = 100


def names_resource(uri: str) -> bool:
    """Whether the address can be that of a resource: it is not that of a file, and not data."""
    scheme, colon, _ = uri[:LABEL_CHARACTERS].partition(":")
    return bool(colon) and scheme.isascii() and "/" not in scheme and scheme.lower() != "file" and not is_data_uri(uri)


class PromptResources:
    """Of one Location."""

    def __init__(self, servers: LocationServers, agents: Agents, permissions: Authorizer) -> None:
        self._servers = servers
        self._agents = agents
        self._permissions = permissions

    def servers(self) -> frozenset[str]:
        """The names of the servers that can be used."""
        return frozenset(server.name for server in self._servers.all() if server.enabled)

    async def files(self, session: Session, prompt: Prompt) -> dict[int, Source]:
        """What is behind those of the prompt's own files that are resources, by their index. Waits while a person
        decides about a permission; changes nothing, so that it can be cancelled. Raises AttachmentRefused."""
        check_size(prompt, session.id)
        found: dict[int, Source] = {}
        servers = self.servers()
        if not servers:
            return found
        from holdfast.core.mcp.resource_address import find_resource

        permissions = PromptPermissions(self._permissions)
        agent = self._agents.select((prompt.options and prompt.options.agent) or session.agent).id
        for index, file in enumerate(prompt.files or ()):
            if not names_resource(file.uri):
                continue
            try:
                address = find_resource(file.uri, servers, self._servers.known())
                if address is not None:
                    context = ToolContext(session.id, agent, "", file.uri[:LABEL_CHARACTERS])
                    await allow_resource(permissions, context, address)
                    found[index] = await self.read(address)
            except (Unusable, Denied) as refused:
                raise AttachmentRefused(session.id, index, file.name or file.uri, str(refused)) from refused
        return found

    async def read(self, address: ResourceAddress) -> Source:
        """Raises Unusable."""
        from holdfast.core.mcp.resource_reading import read_resource

        return await read_resource(self._servers, address)


async def allow_resource(permissions: Authorizer, context: ToolContext, address: ResourceAddress) -> None:
    """Raises Denied."""
    from holdfast.core.mcp.tool_names import resources_action

    metadata = {"server": address.server, "resource": address.uri}
    save = narrowest_first(address.uri)
    await permissions.allow(context, resources_action(address.server), [address.uri], save=save, metadata=metadata)
