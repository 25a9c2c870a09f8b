"""The versions of the protocol and what differs between them. No other module compares versions.

Up to 2025-11-25 a connection begins with `initialize`, and its version and capabilities hold for all messages. Since
2026-07-28 there is no such state: each request carries them in `_meta`, `server/discover` tells what the server speaks,
a server sends no requests but asks for input with its result, and changes are announced on a stream that the client
opens with `subscriptions/listen`."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.mcp.capabilities import ClientCapabilities, ElicitationCapability, Implementation, RootsCapability

META = "io.modelcontextprotocol/"
VERSION_KEY = f"{META}protocolVersion"
CLIENT_KEY = f"{META}clientInfo"
CAPABILITIES_KEY = f"{META}clientCapabilities"
LOG_LEVEL_KEY = f"{META}logLevel"
SERVER_KEY = f"{META}serverInfo"
SUBSCRIPTION_KEY = f"{META}subscriptionId"


class Version(msgspec.Struct, frozen=True):
    name: str
    stateless: bool = False
    """No `initialize`; see above."""
    batches: bool = False
    """A message may be an array of messages. None is ever sent from here."""
    elicitation: bool = False
    elicitation_url: bool = False
    structured: bool = True
    """Results may have structured content and links to resources."""
    structured_any: bool = False
    """Structured content may be any JSON, not only an object."""
    tasks: bool = False
    """A tool may demand to be called as a task, which is not done here."""
    resumable: bool = True
    """Over HTTP a broken stream may be taken up again with `Last-Event-ID`."""


VERSIONS = {
    version.name: version
    for version in (
        # Only ever a server's own choice: those that offer nothing but the old HTTP transport speak it.
        Version("2024-11-05", structured=False),
        Version("2025-03-26", batches=True, structured=False),
        Version("2025-06-18", elicitation=True),
        Version("2025-11-25", elicitation=True, elicitation_url=True, tasks=True),
        Version(
            "2026-07-28",
            stateless=True,
            elicitation=True,
            elicitation_url=True,
            structured_any=True,
            resumable=False,
        ),
    )
}
"""From the oldest to the newest."""
STATELESS = tuple(name for name, version in VERSIONS.items() if version.stateless)
HANDSHAKE = tuple(name for name, version in VERSIONS.items() if not version.stateless)
LATEST_STATELESS = STATELESS[-1]
LATEST_HANDSHAKE = HANDSHAKE[-1]


class ClientFeatures(msgspec.Struct, frozen=True):
    """What a client can be asked for."""

    roots: bool = False
    elicitation: bool = False
    sampling: bool = False


def client_capabilities(version: Version, features: ClientFeatures) -> ClientCapabilities:
    elicitation = None
    if features.elicitation and version.elicitation:
        elicitation = ElicitationCapability(form={}, url={}) if version.elicitation_url else ElicitationCapability()
    return ClientCapabilities(
        roots=RootsCapability() if features.roots else None,
        elicitation=elicitation,
        sampling={} if features.sampling else None,
    )


class Stamp:
    """Adds to the parameters of a request what the version demands."""

    def __init__(self, version: Version, client: Implementation, features: ClientFeatures) -> None:
        self.version = version
        self._meta: dict[str, Any] = {}
        if version.stateless:
            self._meta = {
                VERSION_KEY: version.name,
                CLIENT_KEY: client,
                CAPABILITIES_KEY: client_capabilities(version, features),
            }

    def request(self, params: dict[str, Any], *, log_level: str | None = None) -> dict[str, Any]:
        if not self._meta:
            return params
        meta = {**self._meta, **params.get("_meta", {})}
        if log_level is not None:
            meta[LOG_LEVEL_KEY] = log_level
        return {**params, "_meta": meta}
