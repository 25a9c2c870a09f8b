"""What the servers of a Location need of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.clock import Clock
    from holdfast.core.lazy import Lazy
    from holdfast.core.mcp.authorizations import McpAuthorizations
    from holdfast.core.mcp.seam import People, Sampler
    from holdfast.core.mcp.start_places import StartPlaces
    from holdfast.core.mcp.stored_manifests import StoredManifests
    from holdfast.core.process.process import Processes
    from holdfast.schema.record import Record


class ServerHost(Frozen):
    directory: Path
    """Of the Location."""
    places: StartPlaces
    """Where local servers start."""
    logs: Path
    """The folder of the servers' logs."""
    processes: Processes
    manifests: StoredManifests
    authorizations: Lazy[McpAuthorizations]
    clock: Clock
    announce: Callable[[Record], None]
    people: Callable[[], People | None]
    """Whom a server may ask; None: nobody."""
    sampler: Callable[[], Sampler | None]
    """What gives a server answers of a model; None: nothing."""
