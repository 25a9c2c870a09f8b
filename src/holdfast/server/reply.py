"""Builds and sends HTTP responses: envelopes, status and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.protocol.endpoint import Envelope
from holdfast.schema.codec import encode
from holdfast.server.types import HistoryOf, HttpReply, PageOf, RawBody

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.schema.errors import ProjectCopyError, PublicError
    from holdfast.schema.location import LocationInfo
    from holdfast.server.types import Headers, Send

JSON = "application/json"
PART_BYTES = 256 * 1024
IGNORED = b"x-holdfast-ignored"
"""Header with the keys of a request that mean nothing."""
MOST_KEYS = 10
KEY_CHARACTERS = 100
# Project files are served inert: they cannot run scripts under this server's origin.
INERT: Headers = [(b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"sandbox")]


def enclose(envelope: Envelope, result: Any, location: LocationInfo | None) -> HttpReply:
    """The response for an endpoint's result."""
    match envelope:
        case Envelope.VOID | Envelope.STREAM:
            return HttpReply(204, b"")
        case Envelope.RAW:
            raw: RawBody = result
            return HttpReply(200, raw.data, raw.media_type, INERT)
        case Envelope.DATA:
            return HttpReply(200, encode({"data": result}))
        case Envelope.LOCATION:
            return HttpReply(200, encode({"location": location, "data": result}))
        case Envelope.PAGE:
            page: PageOf = result
            return HttpReply(
                200, encode({"data": page.items, "cursor": {"previous": page.previous, "next": page.next}})
            )
        case Envelope.HISTORY:
            history: HistoryOf = result
            return HttpReply(200, encode({"data": history.items, "hasMore": history.has_more}))
        case Envelope.BARE:
            return HttpReply(200, encode(result))


def naming_ignored(reply: HttpReply, keys: Sequence[str]) -> HttpReply:
    """The response with the keys of the body that mean nothing, so that a caller who misspelled one can see it."""
    shown = ", ".join(ascii(key[:KEY_CHARACTERS])[1:-1] for key in keys[:MOST_KEYS])
    return reply.replace(headers=(*reply.headers, (IGNORED, shown.encode())))


def error_reply(error: PublicError | ProjectCopyError, *, challenge: bool = True) -> HttpReply:
    """`challenge` makes a browser ask for a password."""
    headers: Headers = []
    if error.status == 401 and challenge:
        headers.append((b"www-authenticate", b'Basic realm="Secure Area"'))
    if error.status == 429:
        headers.append((b"retry-after", str(getattr(error, "retry_after", 1)).encode()))
    return HttpReply(error.status, encode(error), JSON, headers)


async def send_content(send: Send, content: HttpReply, headers: Headers) -> None:
    described: Headers = [(b"content-type", content.media_type.encode("latin-1"))] if content.body else []
    length: Headers = [] if content.status in (204, 304) else [(b"content-length", str(len(content.body)).encode())]
    start = [*described, *length, *content.headers, *headers]
    await send({"type": "http.response.start", "status": content.status, "headers": start})
    for begin in range(0, len(content.body) - PART_BYTES, PART_BYTES):  # so that progress is seen
        await send({"type": "http.response.body", "body": content.body[begin : begin + PART_BYTES], "more_body": True})
    rest = (max(len(content.body) - 1, 0) // PART_BYTES) * PART_BYTES
    await send({"type": "http.response.body", "body": content.body[rest:]})


def cors(origin: str | None) -> Headers:
    """`origin` is the page that may read the response, if any."""
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
