"""Keeps manifests in the database, by hash, and which one each server had last."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.database.unit import Statement, Unit, Value
from holdfast.core.mcp.seam import KnownServer, Manifest
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.mcp.configured_servers import ConfiguredServer
    from holdfast.core.mcp.manifest import MadeManifest

KEPT_MILLIS = 7 * 24 * 3600 * 1000
"""How long a manifest is kept that is neither a server's newest nor offered by an epoch."""

log = logging.getLogger(__name__)


class StoredServer(Frozen):
    """What was stored of a server last. `version` is that of the protocol."""

    known: KnownServer
    version: str


class StoredManifests:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._decoder = msgspec.json.Decoder(Manifest)

    async def newest(self, server: ConfiguredServer) -> StoredServer | None:
        for hash, version, data in await self._database.fetch("mcp.newest", {"key": server.key}):
            if (manifest := self._decode(data)) is not None:
                return StoredServer(KnownServer(server.name, str(hash), manifest), str(version))
        return None

    async def get(self, hash: str) -> Manifest | None:
        for (data,) in await self._database.fetch("mcp.manifest", {"hash": hash}):
            return self._decode(data)
        return None

    async def store(self, server: ConfiguredServer, made: MadeManifest, version: str) -> None:
        """From now on this is the newest manifest of the server. Old ones that nothing refers to are removed."""
        now = self._clock.now()
        newest: dict[str, Value] = {"key": server.key, "hash": made.hash, "version": version, "now": now}
        await self._database.submit(
            Unit(
                server.key,
                local=(
                    Statement("mcp.store_manifest", {"hash": made.hash, "data": made.data, "now": now}),
                    Statement("mcp.use_newest", {"key": server.key, "now": now}),
                    Statement("mcp.set_newest", newest),
                    Statement("mcp.forget", {"before": now - KEPT_MILLIS}),
                ),
            )
        )

    def _decode(self, data: object) -> Manifest | None:
        """None if a later version wrote it in another form."""
        assert isinstance(data, bytes)
        try:
            return self._decoder.decode(data)
        except (ValueError, RecursionError) as error:
            log.warning("a stored manifest of an MCP server cannot be read: %s", error)
            return None
