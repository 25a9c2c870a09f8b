"""Handlers of `protocol/bundles.py`. What is exported and imported here is in memory, and therefore bounded."""

from __future__ import annotations

import asyncio
import base64
import binascii
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import Conflict, InvalidRequest
from holdfast.server.types import RawBody

if TYPE_CHECKING:
    from holdfast.protocol import bundles as protocol
    from holdfast.schema.bundle import ImportReport
    from holdfast.server.types import ApiCall

LARGEST = 64 * 1024 * 1024
"""Bytes of an answer."""
LARGEST_IMPORT = 1024 * 1024 * 1024
"""Bytes of an imported bundle before compression."""
MEDIA_TYPE = "application/vnd.holdfast.bundle"


async def export(call: ApiCall) -> RawBody:
    query: protocol.ExportQuery = call.query
    assert call.session is not None
    if (query.format or "bundle") == "bundle":
        return await call.while_connected(_bundle(call, redact=bool(query.redact)))
    from holdfast.server.transcript.transcript import transcript  # brings everything that renders

    assert query.format is not None
    assert query.format != "bundle"
    written = await call.while_connected(
        transcript(call.runtime, call.session, query.format, redact=bool(query.redact), most=LARGEST)
    )
    return RawBody(written.data, written.media_type)


async def import_bundle(call: ApiCall) -> ImportReport:
    payload: protocol.ImportPayload = call.payload
    try:
        data = await asyncio.to_thread(base64.b64decode, payload.bundle, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest("The bundle is not Base64.", kind="Body", field="bundle") from error
    with tempfile.NamedTemporaryFile(prefix="holdfast-import-") as file:
        file.write(data)
        file.flush()
        return await call.runtime.bundles.import_from(Path(file.name), directory=payload.directory, most=LARGEST_IMPORT)


async def _bundle(call: ApiCall, *, redact: bool) -> RawBody:
    assert call.session is not None
    with tempfile.TemporaryFile(prefix="holdfast-export-") as file:
        await call.runtime.bundles.export_into([call.session.id], file, redact=redact)
        if file.tell() > LARGEST:
            raise Conflict(
                f"The bundle has {file.tell():,} bytes, and at most {LARGEST:,} are sent; use `holdfast export`",
                resource="session",
            )
        file.seek(0)
        return RawBody(file.read(), MEDIA_TYPE)
