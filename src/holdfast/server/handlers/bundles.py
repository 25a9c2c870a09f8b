"""Handlers of `protocol/bundles.py`. What is exported and imported here is in memory, and therefore bounded."""

from __future__ import annotations

import asyncio
import base64
import binascii
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import Conflict, Forbidden, InvalidRequest, SessionNotFound
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
        return await call.runtime.bundles.import_from(
            Path(file.name),
            directory=payload.directory,
            accept_changes=payload.accept_changes is True,
            most=LARGEST_IMPORT,
        )


async def _check_reached(call: ApiCall, session_id: str) -> None:
    """Raises Forbidden for a Session of another project that belongs into the bundle, such as the source of a fork."""
    find = call.runtime.store.find
    session = await find(session_id)
    try:
        if session is None:
            raise SessionNotFound(session_id)
        await call.caller.check_session(session, find)
    except SessionNotFound:
        raise Forbidden(
            f"The token {call.caller.name} is limited to {', '.join(call.caller.projects)}, and the bundle would have "
            "Sessions from elsewhere that this one comes from. Ask for json, markdown or html."
        ) from None


async def _bundle(call: ApiCall, *, redact: bool) -> RawBody:
    assert call.session is not None
    with tempfile.TemporaryFile(prefix="holdfast-export-") as file:
        check = partial(_check_reached, call) if call.caller.projects else None
        await call.runtime.bundles.export_into([call.session.id], file, redact=redact, check=check)
        if file.tell() > LARGEST:
            raise Conflict(
                f"The bundle has {file.tell():,} bytes, and at most {LARGEST:,} are sent; use `holdfast export`",
                resource="session",
            )
        file.seek(0)
        return RawBody(file.read(), MEDIA_TYPE)
