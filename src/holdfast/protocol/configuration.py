"""The configuration of a Location: what was read, what is wrong with it, and reading it again."""

from __future__ import annotations

from holdfast.protocol.endpoint import Endpoint, LocationQuery, endpoint
from holdfast.protocol.scope import at_location
from holdfast.schema.configuration import ConfigDirectory, ConfigDocument, ConfigReport
from holdfast.schema.errors import ConflictError

ENDPOINTS: tuple[Endpoint, ...] = at_location(
    endpoint(
        "config.get",
        "GET /api/config",
        "v2.config.get",
        "The configuration files and folders of a Location, lowest priority first, without secrets.",
        query=LocationQuery,
        bare=list[ConfigDocument | ConfigDirectory],
        extension=True,
    ),
    endpoint(
        "config.report",
        "GET /api/config/report",
        "holdfast.config.report",
        "Problems in the configuration, and settings of the project that need trust.",
        query=LocationQuery,
        data=ConfigReport,
        extension=True,
    ),
    endpoint(
        "config.reload",
        "POST /api/config/reload",
        "holdfast.config.reload",
        "Read the configuration again, effective from the next turn. A file with an error changes nothing.",
        query=LocationQuery,
        data=ConfigReport,
        errors=(ConflictError,),
        extension=True,
    ),
)
