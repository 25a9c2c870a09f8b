"""The tools of MCP servers in a request: `mcp_search` and `mcp_call`, and those that the epoch offers by their names.

Invariants
- Equal offers give the same registrations in the same order, so that the requests of an epoch have the same bytes.
- No connection plays a part: what was offered stays, whatever becomes of its server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.core.mcp.call_tool import call_tool
from holdfast.core.mcp.calls import McpCalls
from holdfast.core.mcp.catalogue import Catalogue
from holdfast.core.mcp.offer import NO_TOOLS, definition_tokens, read_offer
from holdfast.core.mcp.search_tool import search_tool
from holdfast.core.mcp.tool_names import named_tools
from holdfast.core.tool.registration import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from holdfast.core.mcp.seam import KnownServer, Manifest, Servers
    from holdfast.core.tool.authorization import PermissionAuthorizer
    from holdfast.core.tool.registration import Registration

CACHED_OFFERS = 64

log = logging.getLogger(__name__)


class OfferedTools:
    """One per Location, made when its first server is used."""

    def __init__(
        self,
        servers: Servers,
        names: Callable[[], Collection[str]],
        tokens: Callable[[], int],
        authorizer: PermissionAuthorizer,
        registered: Callable[[], Iterable[str]],
    ) -> None:
        """`names` gives those of all configured servers, `tokens` what tools may take in a request, and `registered`
        the names of all other tools."""
        self._servers = servers
        self._names = names
        self._tokens = tokens
        self._calls = McpCalls(servers, names, authorizer)
        self._constant = (
            search_tool(servers, lambda: self.catalogue, authorizer.authority),
            call_tool(self._calls, servers, lambda: self.catalogue, lambda: frozenset(registered())),
        )
        self._constant_tokens = sum(definition_tokens(tool.definition) for tool in self._constant)
        self._catalogue: Catalogue | None = None
        self._made: dict[tuple[str, bool], tuple[Registration, ...]] = {}
        self._missing: set[str] = set()
        """Hashes whose absence was logged."""

    @property
    def catalogue(self) -> Catalogue:
        """The same object until something is known that was not, or a setting changes."""
        known, names, tokens = self._servers.known(), frozenset(self._names()), self._tokens()
        current = self._catalogue
        if current is None or not (
            _is_same(current.known, known) and current.servers == names and current.tokens == tokens
        ):
            current = self._catalogue = Catalogue(known, names, tokens, self._constant_tokens)
        return current

    async def of(self, offer: str) -> tuple[Registration, ...]:
        """What a request offers whose epoch has this offer."""
        key = (offer, self._servers.configured)
        if (made := self._made.get(key)) is not None:
            return made
        hashes = read_offer(offer)
        manifests, complete = await self._manifests(hashes)
        tools = (*(self._constant if key[1] else ()), *self._registrations(manifests, hashes))
        if complete:
            if len(self._made) >= CACHED_OFFERS:
                self._made.clear()
            self._made[key] = tools
        return tools

    def names(self) -> Iterable[str]:
        """Of all tools that can be called now."""
        return (*(tool.name for tool in self._constant), *self.catalogue.by_name)

    async def _manifests(self, hashes: Mapping[str, str]) -> tuple[dict[str, Manifest], bool]:
        found: dict[str, Manifest] = {}
        offered = {server: hash for server, hash in hashes.items() if hash != NO_TOOLS}
        for server, hash in offered.items():
            manifest = await self._servers.manifest(hash)
            if manifest is None and hash not in self._missing:
                self._missing.add(hash)
                log.warning("what the MCP server %s offered is not stored any more: its tools are missing", server)
            if manifest is not None:
                found[server] = manifest
        return found, len(found) == len(offered)

    def _registrations(self, manifests: Mapping[str, Manifest], servers: Iterable[str]) -> tuple[Registration, ...]:
        made: list[Registration] = []
        for named in named_tools(manifests, servers):
            try:
                made.append(self._calls.registration(named))
            except RegistrationError as error:
                log.warning("the tool %r of the MCP server %s is left out: %s", named.tool.name, named.server, error)
        return tuple(made)


def _is_same(one: tuple[KnownServer, ...], other: tuple[KnownServer, ...]) -> bool:
    """A server that connects again has the same manifest."""
    return one is other or [(item.name, item.hash) for item in one] == [(item.name, item.hash) for item in other]
