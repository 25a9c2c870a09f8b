"""Which hosts the metadata of an MCP server may lead to: those that are as near as the server itself, or farther."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.web import errors as web
from holdfast.core.web.address import system_resolve
from holdfast.core.web.near_addresses import NearAddresses
from holdfast.mcp.oauth.errors import AddressRefused, OAuthUnreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.web.address import Address, Resolve

HOST_CHARACTERS = 200


class ServerAddresses:
    """An AddressCheck for the sign-in at one MCP server."""

    def __init__(self, server_url: str, *, resolve: Resolve = system_resolve) -> None:
        self._near = NearAddresses(server_url, resolve=resolve)

    async def addresses(self, host: str, port: int, *, proxied: bool) -> Sequence[Address] | None:
        try:
            return await self._near.addresses(host, port, proxied=proxied)
        except web.AddressRefused as error:
            raise AddressRefused(host) from error
        except web.FetchFailed as error:
            raise OAuthUnreachable(f"The host {host[:HOST_CHARACTERS]} was not found") from error
