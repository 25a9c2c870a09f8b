"""Where the other servers on a database are found: registered on this machine, or in the rows of nodes."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Protocol

from holdfast.client.discovery import running_servers
from holdfast.schema.frozen import Frozen
from holdfast.server.handlers.events import NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from holdfast.client.http import HttpTransport
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.core.session.node_secrets import NodeSecrets
    from holdfast.core.session.nodes import Nodes


class Peer(Frozen):
    """Another server on the database."""

    id: str
    url: str
    connect: Callable[[], HttpTransport]
    headers: Mapping[str, str] = {}
    """What identifies this process to it, besides what the transport sends."""


class PeerSource(Protocol):
    async def others(self) -> list[Peer]:
        """The servers that run now, without this process."""


class RegisteredServers:
    """Servers of this user on this machine with the same data directory and database."""

    def __init__(self, environment: Mapping[str, str], data: Path, store: str = "") -> None:
        self._environment = environment
        self._data = data
        self._store = store

    async def others(self) -> list[Peer]:
        from holdfast.client.connect import transport_to

        found = running_servers(self._environment, data=self._data, store=self._store)
        return [
            Peer(server.id, server.url, partial(transport_to, server.url, self._environment))
            for server in found
            if server.pid != os.getpid()
        ]


class NodeAddresses:
    """Nodes of the database with an address, on whichever machine."""

    def __init__(self, nodes: Nodes, secrets: NodeSecrets) -> None:
        self._nodes = nodes
        self._secrets = secrets

    async def others(self) -> list[Peer]:
        from holdfast.client.http import HttpTransport

        found = [node for node in await self._nodes.living() if node.address and node.id != self._nodes.id]
        if found:
            await self._secrets.refresh()
        return [
            Peer(node.id, node.address, partial(HttpTransport, node.address), {NODE: self._secrets.token(node.id)})
            for node in found
            if node.address
        ]


def peer_source(runtime: Runtime, environment: Mapping[str, str]) -> PeerSource:
    if runtime.shared:
        return NodeAddresses(runtime.nodes, runtime.node_secrets)
    return RegisteredServers(environment, runtime.paths.data, runtime.store_identity)
