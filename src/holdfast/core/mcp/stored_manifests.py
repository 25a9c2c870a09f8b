"""Keeps manifests in the database, by hash, and which one each server had last.

What a local server offers may depend on the directory that it runs in. So its newest manifest is kept for each
Location, and the newest of all Locations for those that have none yet."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.config.schema import LocalServer
from holdfast.core.database.unit import Statement, Unit, Value
from holdfast.core.mcp.leftovers import DAY_MILLIS, MANIFEST_MILLIS, SERVER_MILLIS
from holdfast.core.mcp.seam import KnownServer, Manifest
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.mcp.configured_servers import ConfiguredServer
    from holdfast.core.mcp.manifest import MadeManifest

log = logging.getLogger(__name__)


class StoredServer(Frozen):
    """What was stored of a server last. `version` is that of the protocol. Unless it is its `own`, another Location
    has stored it."""

    known: KnownServer
    version: str
    own: bool = True


class StoredManifests:
    def __init__(self, database: Database, clock: Clock, directory: str) -> None:
        """`directory` is that of the Location."""
        self._database = database
        self._clock = clock
        self._location = hashlib.sha256(directory.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._decoder = msgspec.json.Decoder(Manifest)

    async def newest(self, server: ConfiguredServer) -> StoredServer | None:
        since = self._clock.now() - SERVER_MILLIS
        for key in (own := self._own_key(server), server.key):
            for hash, version, data in await self._database.fetch("mcp.newest", {"key": key, "since": since}):
                if (manifest := self._decode(data)) is not None:
                    return StoredServer(KnownServer(server.name, str(hash), manifest), str(version), key == own)
        return None

    async def hashes(self, servers: Iterable[ConfiguredServer]) -> dict[str, str]:
        """The hashes of the newest manifests that this Location has of its own, by server name."""
        keys = {self._own_key(server): server.name for server in servers}
        asked = encode(list(keys)).decode()
        found = await self._database.fetch("mcp.newest_hashes", {"keys": asked})
        return {keys[str(key)]: str(hash) for key, hash in found}

    async def get(self, hash: str) -> Manifest | None:
        for (data,) in await self._database.fetch("mcp.manifest", {"hash": hash}):
            return self._decode(data)
        return None

    async def store(self, server: ConfiguredServer, made: MadeManifest, version: str) -> None:
        """From now on this is the newest manifest of the server. Old ones that nothing refers to are removed."""
        now = self._clock.now()
        newest: dict[str, Value] = {"hash": made.hash, "version": version, "now": now}
        keys = dict.fromkeys((server.key, self._own_key(server)))
        await self._database.submit(
            Unit(
                server.key,
                local=(
                    Statement("mcp.store_manifest", {"hash": made.hash, "data": made.data, "now": now}),
                    *(Statement("mcp.use_newest", {"key": key, "now": now}) for key in keys),
                    *(Statement("mcp.set_newest", {**newest, "key": key}) for key in keys),
                    Statement("mcp.forget", {"before": now - MANIFEST_MILLIS}),
                ),
            )
        )

    async def touch(self, servers: Iterable[ConfiguredServer]) -> None:
        """These servers are still in use: what is known of them is kept. Writes at most once a day."""
        keys = [key for server in servers for key in (server.key, self._own_key(server))]
        now = self._clock.now()
        values: dict[str, Value] = {"keys": encode(keys).decode(), "before": now - DAY_MILLIS}
        if await self._database.fetch("mcp.untouched", values):
            await self._database.submit(Unit("mcp", local=(Statement("mcp.touch", {**values, "now": now}),)))

    def _own_key(self, server: ConfiguredServer) -> str:
        return f"{server.key}:{self._location}" if isinstance(server.config, LocalServer) else server.key

    def _decode(self, data: object) -> Manifest | None:
        """None if a later version wrote it in another form."""
        assert isinstance(data, bytes)
        try:
            return self._decoder.decode(data)
        except (ValueError, RecursionError) as error:
            log.warning("a stored manifest of an MCP server cannot be read: %s", error)
            return None
