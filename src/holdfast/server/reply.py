"""Answers: envelopes, status and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.protocol.endpoint import Envelope
from holdfast.schema.codec import encode
from holdfast.server.types import Content, HistoryOf, PageOf, RawBody

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.schema.errors import ProjectCopyError, PublicError
    from holdfast.schema.location import LocationInfo
    from holdfast.server.types import Headers, Send

JSON = "application/json"
# A file of a project is shown as what it is, and runs nothing under this server's name.
INERT: Headers = [(b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"sandbox")]


def enclose(envelope: Envelope, result: Any, location: LocationInfo | None) -> Content:
    """The body that an endpoint's result travels in."""
    match envelope:
        case Envelope.VOID | Envelope.STREAM:
            return Content(204, b"")
        case Envelope.RAW:
            raw: RawBody = result
            return Content(200, raw.data, raw.media_type, INERT)
        case Envelope.DATA:
            return Content(200, encode({"data": result}))
        case Envelope.LOCATION:
            return Content(200, encode({"location": location, "data": result}))
        case Envelope.PAGE:
            page: PageOf = result
            return Content(200, encode({"data": page.items, "cursor": {"previous": page.previous, "next": page.next}}))
        case Envelope.HISTORY:
            history: HistoryOf = result
            return Content(200, encode({"data": history.items, "hasMore": history.has_more}))
        case Envelope.BARE:
            return Content(200, encode(result))


def failed(error: PublicError | ProjectCopyError) -> Content:
    challenge: Headers = [(b"www-authenticate", b'Basic realm="Secure Area"')] if error.status == 401 else []
    return Content(error.status, encode(error), JSON, challenge)


async def send_content(send: Send, content: Content, headers: Headers) -> None:
    described: Headers = [(b"content-type", content.media_type.encode("latin-1"))] if content.body else []
    length: Headers = [] if content.status == 204 else [(b"content-length", str(len(content.body)).encode())]
    start = [*described, *length, *content.headers, *headers]
    await send({"type": "http.response.start", "status": content.status, "headers": start})
    await send({"type": "http.response.body", "body": content.body})


def cors(origin: str | None) -> Headers:
    """`origin` is that of the page which may read the answer, if any."""
    headers: Headers = [(b"vary", b"Origin")]
    if origin is not None:
        headers.append((b"access-control-allow-origin", origin.encode("latin-1")))
    return headers


def preflight(asked: Mapping[str, str], cross_origin: Headers) -> Headers:
    wanted = asked.get("access-control-request-headers", "")
    return [
        *(header for header in cross_origin if header[0] != b"vary"),
        (b"vary", b"Access-Control-Request-Headers, Origin"),
        (b"access-control-allow-methods", b"GET, HEAD, PUT, PATCH, POST, DELETE"),
        (b"access-control-allow-headers", wanted.encode("latin-1")),
        (b"access-control-max-age", b"86400"),
    ]
