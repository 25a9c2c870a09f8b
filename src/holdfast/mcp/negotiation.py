"""Agrees with a server on a version of the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.mcp.capabilities import Implementation, InitializeParams, ServerCapabilities, read_capabilities
from holdfast.mcp.errors import HttpRefused, McpError, NoCommonVersion, ProtocolError, ServerError, Timeout
from holdfast.mcp.messages import UNSUPPORTED_VERSION
from holdfast.mcp.param_headers import routing_headers
from holdfast.mcp.reading import decode
from holdfast.mcp.timeouts import PROBE_SECONDS
from holdfast.mcp.versions import (
    HANDSHAKE,
    LATEST_HANDSHAKE,
    LATEST_STATELESS,
    SERVER_KEY,
    STATELESS,
    VERSIONS,
    ClientFeatures,
    Stamp,
    Version,
    client_capabilities,
)
from holdfast.mcp.wire import Wire, meta_field

if TYPE_CHECKING:
    from holdfast.mcp.connection import Connection


class Agreement(msgspec.Struct, frozen=True):
    version: Version
    capabilities: ServerCapabilities
    server: Implementation | None
    instructions: str | None


class _Unsupported(msgspec.Struct):
    supported: list[str]


class _Initialized(Wire):
    protocol_version: str
    capabilities: Any = None
    server_info: Any = None
    instructions: str | None = None


class _Discovered(Wire):
    supported_versions: list[str]
    capabilities: Any = None
    instructions: str | None = None
    meta: Any = meta_field()


class Negotiation:
    """`version` admits only that one. `last_version` is what the server spoke before: it spares a question to servers
    that do not know `server/discover`."""

    def __init__(
        self,
        connection: Connection,
        client: Implementation,
        features: ClientFeatures,
        *,
        version: str | None = None,
        last_version: str | None = None,
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        if version is not None and version not in VERSIONS:
            raise ValueError(f"unknown protocol version {version!r}; known are {', '.join(VERSIONS)}")
        self._connection = connection
        self._client = client
        self._features = features
        self._version = version
        self._probe_first = (version or last_version or LATEST_STATELESS) in STATELESS
        self._probe_seconds = probe_seconds

    async def agree(self) -> Agreement:
        """The caller limits its time. Raises McpError."""
        if self._version in STATELESS:
            return await self._discover(None)
        if self._version in HANDSHAKE:
            return await self._initialize(self._version)
        if self._probe_first and (found := await self._probe()) is not None:
            return found
        try:
            return await self._initialize(LATEST_HANDSHAKE)
        except ServerError as error:
            if error.code != UNSUPPORTED_VERSION:
                raise
            return await self._discover(None)  # it speaks only without a handshake, or answered the probe too late

    async def _probe(self) -> Agreement | None:
        """None: the server has to be asked with `initialize`."""
        try:
            return await self._discover(self._probe_seconds)
        except ServerError as error:
            offered = _supported(error) if error.code == UNSUPPORTED_VERSION else None
            if offered and not set(offered) & VERSIONS.keys():
                raise NoCommonVersion(offered) from error
            return None
        except HttpRefused as error:
            if error.status >= 500:
                raise
            return None
        except (ProtocolError, Timeout):
            return None

    async def _discover(self, seconds: float | None) -> Agreement:
        version = VERSIONS[LATEST_STATELESS]
        params = Stamp(version, self._client, self._features).request({})
        raw = await self._connection.call(
            "server/discover",
            params,
            seconds=seconds,
            headers=routing_headers(version.name, "server/discover", params),
            cancellable=False,
        )
        result = decode(raw, _Discovered, "answer to server/discover")
        common = [name for name in STATELESS if name in result.supported_versions]
        if not common:
            raise NoCommonVersion(result.supported_versions)
        version = VERSIONS[common[-1]]
        self._connection.transport.adopt(version)
        # A server ends a subscription like this. With a handshake it has requests of its own under the same ids.
        self._connection.calls_may_be_cancelled = True
        server = result.meta.get(SERVER_KEY) if isinstance(result.meta, dict) else None
        return Agreement(version, read_capabilities(result.capabilities), _info(server), result.instructions)

    async def _initialize(self, offered: str) -> Agreement:
        params = InitializeParams(
            protocol_version=offered,
            capabilities=client_capabilities(VERSIONS[offered], self._features),
            client_info=self._client,
        )
        raw = await self._connection.call("initialize", msgspec.to_builtins(params), seconds=None, cancellable=False)
        result = decode(raw, _Initialized, "answer to initialize")
        if result.protocol_version not in HANDSHAKE or self._version not in (None, result.protocol_version):
            raise NoCommonVersion([result.protocol_version])
        version = VERSIONS[result.protocol_version]
        self._connection.transport.adopt(version)
        self._connection.batches = version.batches
        await self._connection.notify("notifications/initialized")
        self._connection.transport.listen()
        capabilities = read_capabilities(result.capabilities)
        return Agreement(version, capabilities, _info(result.server_info), result.instructions)


def _info(value: Any) -> Implementation | None:
    """Only for display, so one that is malformed is as good as none."""
    try:
        return msgspec.convert(value, Implementation)
    except (ValueError, RecursionError):
        return None


def _supported(error: McpError) -> list[str] | None:
    try:
        return msgspec.convert(getattr(error, "data", None), _Unsupported).supported
    except ValueError:
        return None
