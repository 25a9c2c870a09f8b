"""One remote server, as it is configured."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from holdfast.mcp.oauth.scope import Scopes


class ServerSettings(msgspec.Struct, frozen=True):
    url: str
    headers: Mapping[str, str] = {}
    """Sent to the server with every request, and nowhere else."""
    client_id: str | None = None
    """An https address is that of a client id metadata document."""
    client_secret: str | None = None
    issuer: str | None = None
    """The authorization server that knows the client. A secret is sent to no other."""
    scopes: Scopes | None = None
    """Requested instead of what the server names."""
    callback_port: int | None = None
    redirect_uri: str | None = None

    def __repr__(self) -> str:
        return f"ServerSettings({urlsplit(self.url).hostname})"


class ClientIdentity(msgspec.Struct, frozen=True):
    """The program that signs in."""

    name: str
    document_url: str | None = None
    """Its client id metadata document, if it has one."""
