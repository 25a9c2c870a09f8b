"""Finds the authorization server of an MCP server.

The server's challenge, or a well-known address, leads to the metadata of the resource, and this to the authorization
server. A server without such metadata is one of 2025-03-26: its origin is the authorization server."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import msgspec

from holdfast.mcp.errors import shown
from holdfast.mcp.oauth.errors import DiscoveryFailed, OAuthError, OAuthUnreachable
from holdfast.mcp.oauth.metadata import ResourceMetadata, ServerMetadata, check_metadata, default_metadata
from holdfast.mcp.oauth.scope import Scopes, union
from holdfast.mcp.oauth.url import appended, canonical, check_url, covers, inserted, origin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.mcp.oauth.challenge import BearerChallenge
    from holdfast.mcp.oauth.requests import OAuthRequests, Reply

RESOURCE = "oauth-protected-resource"
SERVER = "oauth-authorization-server"
OPENID = "openid-configuration"
MOST_SERVERS = 3
"""Authorization servers of one resource that are tried."""

T = TypeVar("T")


class Discovered(msgspec.Struct, frozen=True):
    resource: str
    """What the token is for: the value of the `resource` parameter."""
    server: ServerMetadata
    scopes: Scopes | None
    """The scopes that the resource names; None if it names none."""


async def discover(requests: OAuthRequests, server_url: str, challenge: BearerChallenge) -> Discovered:
    """Raises OAuthError."""
    resource = await _resource(requests, server_url, challenge)
    if resource is None:
        return Discovered(canonical(server_url), await _origin_as_server(requests, server_url), None)
    server = await _first_server(requests, resource.authorization_servers)
    scopes = union(resource.scopes_supported) if resource.scopes_supported is not None else None
    return Discovered(resource.resource or canonical(server_url), server, scopes)


async def _resource(requests: OAuthRequests, server_url: str, challenge: BearerChallenge) -> ResourceMetadata | None:
    """None if the server has no metadata of a resource."""
    named = challenge.resource_metadata
    addresses = [check_url(named, "address of the resource metadata")] if named is not None else []
    well_known = f"{origin(server_url)}/.well-known/{RESOURCE}"
    path = urlsplit(server_url).path
    if path != "/":
        addresses.append(f"{well_known}{path}")  # with the slash at its end, which many servers leave out
    addresses += [inserted(server_url, RESOURCE), well_known]

    def read(reply: Reply) -> ResourceMetadata:
        return _checked_resource(reply.decode(ResourceMetadata, "metadata of the resource"), server_url)

    return await _first(requests, addresses, read)


def _checked_resource(found: ResourceMetadata, server_url: str) -> ResourceMetadata:
    if found.resource is not None:
        check_url(found.resource, "resource")
        if not covers(found.resource, server_url):
            raise DiscoveryFailed(f"The metadata is of another resource: {shown(found.resource)}")
    if not found.authorization_servers:
        raise DiscoveryFailed("The metadata of the resource names no authorization server")
    return found


async def _first_server(requests: OAuthRequests, issuers: Sequence[str]) -> ServerMetadata:
    """Of the first issuer with usable metadata. Otherwise the failure of the first one is raised."""
    failure: OAuthError | None = None
    for issuer in issuers[:MOST_SERVERS]:
        try:
            check_url(issuer, "authorization server")
            if (found := await _server(requests, issuer)) is not None:
                return found
            raise DiscoveryFailed(f"The authorization server {shown(issuer)} has no metadata")
        except OAuthError as error:
            failure = failure or error
    raise failure or DiscoveryFailed("There is no authorization server")


async def _origin_as_server(requests: OAuthRequests, server_url: str) -> ServerMetadata:
    own = origin(server_url)
    return await _server(requests, own) or default_metadata(own)


async def _server(requests: OAuthRequests, issuer: str) -> ServerMetadata | None:
    """None if the issuer has no metadata."""

    def read(reply: Reply) -> ServerMetadata:
        return check_metadata(reply.decode(ServerMetadata, "metadata of the authorization server"), issuer)

    addresses = (inserted(issuer, SERVER), inserted(issuer, OPENID), appended(issuer, OPENID))
    return await _first(requests, tuple(dict.fromkeys(addresses)), read)


async def _first(requests: OAuthRequests, addresses: Sequence[str], read: Callable[[Reply], T]) -> T | None:
    """The first document that can be used. None if there is no document at any address; otherwise the first failure is
    raised."""
    failure: OAuthError | None = None
    for address in dict.fromkeys(addresses):
        try:
            reply = await requests.get(address)
            if reply.status >= 500:
                raise OAuthUnreachable(f"{origin(address)} failed with status {reply.status}")
            if reply.ok and _is_json_object(reply.body):
                return read(reply)
        except OAuthError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return None


def _is_json_object(body: bytes) -> bool:
    """A page of a site that answers every address is no document."""
    return body.lstrip()[:1] == b"{"
