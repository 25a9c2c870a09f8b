"""Exporting a Session, as a bundle or for reading, and importing a bundle."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import of_session
from holdfast.schema.bundle import ImportReport
from holdfast.schema.errors import ConflictError
from holdfast.schema.record import Record


class ExportQuery(Record):
    format: Literal["bundle", "json", "markdown", "html"] | None = None
    """`bundle`, the default: a file that can be imported, with the whole tree. The others are the conversation of this
    Session for reading; `html` is one page without references."""
    redact: bool | None = None
    """Replace what looks like a secret, and the home directory."""


class ImportPayload(Record):
    bundle: str
    """The bytes of the bundle in Base64. A larger one is imported with `holdfast import`."""
    directory: str | None = None
    """Of the server's machine: takes the place of the directory that the Sessions were in."""
    accept_changes: bool | None = None
    """Let the bundle also rename, move and otherwise change Sessions that are here, not only continue them."""


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True)
    for endpoint in (
        *of_session(
            endpoint(
                "sessions.export",
                "GET /export",
                "holdfast.session.export",
                "The Session as a bundle, which can be imported elsewhere, or its conversation as JSON, Markdown or "
                "one HTML page. At most 64 MiB.",
                role="read",
                query=ExportQuery,
                raw=bytes,
                media_types=("application/vnd.holdfast.bundle", "application/json", "text/markdown", "text/html"),
                errors=(ConflictError,),
                handler="bundles.export",
            ),
        ),
        endpoint(
            "sessions.import_bundle",
            "POST /api/session/import",
            "holdfast.session.import",
            "Import all Sessions of a bundle, or none. Nothing is executed: unfinished work waits for a decision.",
            role="admin",
            adds="session",
            payload=ImportPayload,
            data=ImportReport,
            errors=(ConflictError,),
            handler="bundles.import_bundle",
        ),
    )
)
