"""The configuration of a Location: its files, its problems, reloading it, and the sandbox."""

from __future__ import annotations

from typing import Any

from holdfast.protocol.endpoint import Endpoint, LocationQuery, endpoint
from holdfast.protocol.scope import at_location
from holdfast.schema.configuration import ConfigDirectory, ConfigDocument, ConfigReport, SandboxInfo
from holdfast.schema.errors import ConflictError


class SandboxQuery(LocationQuery):
    probe: bool | None = None
    """Whether to look for a back end even if the sandbox is off."""


ENDPOINTS: tuple[Endpoint, ...] = at_location(
    endpoint(
        "config.get",
        "GET /api/config",
        "v2.config.get",
        "The configuration files and folders of a Location, lowest priority first, without secrets.",
        role="read",
        query=LocationQuery,
        bare=list[ConfigDocument | ConfigDirectory],
        extension=True,
    ),
    endpoint(
        "config.report",
        "GET /api/config/report",
        "holdfast.config.report",
        "Problems in the configuration, and settings of the project that need trust.",
        role="read",
        query=LocationQuery,
        data=ConfigReport,
        extension=True,
    ),
    endpoint(
        "config.effective",
        "GET /api/config/effective",
        "holdfast.config.effective",
        "The configuration files of a Location, merged into one object, without secrets.",
        role="read",
        data=dict[str, Any],
        extension=True,
    ),
    endpoint(
        "config.reload",
        "POST /api/config/reload",
        "holdfast.config.reload",
        "Read the configuration again, effective from the next turn. A file with an error changes nothing.",
        role="admin",
        query=LocationQuery,
        data=ConfigReport,
        errors=(ConflictError,),
        extension=True,
    ),
    endpoint(
        "sandbox.get",
        "GET /api/sandbox",
        "holdfast.sandbox.get",
        "How the commands of a Location's agents are confined, and what this machine can enforce.",
        role="read",
        query=SandboxQuery,
        data=SandboxInfo,
        extension=True,
    ),
)
