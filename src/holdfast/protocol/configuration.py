"""The configuration of a Location: what was read, what is wrong with it, reading it again, and the sandbox."""

from __future__ import annotations

from typing import Any

from holdfast.protocol.endpoint import Endpoint, Envelope, LocationQuery
from holdfast.protocol.scope import at_location
from holdfast.schema.configuration import ConfigDirectory, ConfigDocument, ConfigReport, SandboxInfo
from holdfast.schema.errors import ConflictError


class SandboxQuery(LocationQuery):
    probe: bool | None = None
    """Whether to look for a back end even if the sandbox is off."""


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
                name="effective",
                operation="holdfast.config.effective",
                method="GET",
                path="/api/config/effective",
                summary="The configuration files of a Location, merged into one object, without secrets.",
                query=LocationQuery,
                envelope=Envelope.DATA,
                success=dict[str, Any],
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
            Endpoint(
                group="sandbox",
                name="get",
                operation="holdfast.sandbox.get",
                method="GET",
                path="/api/sandbox",
                summary="How the commands of a Location's agents are confined, and what this machine can enforce.",
                query=SandboxQuery,
                envelope=Envelope.DATA,
                success=SandboxInfo,
                extension=True,
            ),
        ),
    )
)
