"""The configuration of a Location: what was read, what is wrong with it, and reading it again."""

from __future__ import annotations

from holdfast.protocol.endpoint import Endpoint, Envelope, LocationQuery
from holdfast.protocol.scope import at_location
from holdfast.schema.configuration import ConfigDirectory, ConfigDocument, ConfigReport
from holdfast.schema.errors import ConflictError

ENDPOINTS: tuple[Endpoint, ...] = tuple(
    map(
        at_location,
        (
            Endpoint(
                group="config",
                name="get",
                operation="v2.config.get",
                method="GET",
                path="/api/config",
                summary="The configuration files and folders of a Location, lowest priority first, without secrets.",
                query=LocationQuery,
                envelope=Envelope.BARE,
                success=list[ConfigDocument | ConfigDirectory],
                extension=True,
            ),
            Endpoint(
                group="config",
                name="report",
                operation="holdfast.config.report",
                method="GET",
                path="/api/config/report",
                summary="What in the configuration does not count, and what of the project needs trust.",
                query=LocationQuery,
                envelope=Envelope.DATA,
                success=ConfigReport,
                extension=True,
            ),
            Endpoint(
                group="config",
                name="reload",
                operation="holdfast.config.reload",
                method="POST",
                path="/api/config/reload",
                summary="Read the configuration again; it counts from the next turn on. A broken file changes nothing.",
                query=LocationQuery,
                envelope=Envelope.DATA,
                success=ConfigReport,
                errors=(ConflictError,),
                extension=True,
            ),
        ),
    )
)
