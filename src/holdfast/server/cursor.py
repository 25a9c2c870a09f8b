"""Page cursors, opaque to clients: everything that the next page needs, including its size.

A cursor has a checksum, so that an edited one is refused. It is neither secret nor an authorization: the request's own
rights decide what is visible."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Annotated, TypeVar

import msgspec

from holdfast.core.runtime.overview import OverviewFilter
from holdfast.core.session.errors import InvalidCursor
from holdfast.core.session.stored_sessions import Direction, Order, SessionAnchor
from holdfast.schema.codec import decoder, encode

CHECKSUM_BYTES = 9

Limit = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]


class ListCursor(msgspec.Struct, frozen=True, omit_defaults=True):
    anchor: SessionAnchor
    workspace: str | None = None
    order: Order | None = None
    search: str | None = None
    directory: str | None = None
    project: str | None = None
    subpath: str | None = None
    archived: bool | None = None
    parent: str | None = None
    limit: Limit | None = None


class MessageCursor(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    order: Order
    direction: Direction
    limit: Limit | None = None


class OverviewCursor(msgspec.Struct, frozen=True, omit_defaults=True):
    anchor: SessionAnchor
    chosen: OverviewFilter
    limit: Limit | None = None


C = TypeVar("C", ListCursor, MessageCursor, OverviewCursor)


def write_cursor(cursor: ListCursor | MessageCursor | OverviewCursor) -> str:
    text = base64.urlsafe_b64encode(encode(cursor)).rstrip(b"=")
    return (text + b"." + checksum(text, type(cursor))).decode()


def read_cursor(kind: type[C], given: str) -> C:
    try:
        text, _, sum_of_text = given.encode("ascii").rpartition(b".")
        if sum_of_text != checksum(text, kind):
            raise InvalidCursor
        cursor: C = decoder(kind).decode(base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)))
    except (UnicodeError, binascii.Error, msgspec.DecodeError, RecursionError) as error:
        raise InvalidCursor from error
    return cursor


def checksum(text: bytes, kind: type[ListCursor] | type[MessageCursor] | type[OverviewCursor]) -> bytes:
    """Covers the encoded text, because two texts can decode to the same bytes."""
    digest = hashlib.blake2b(text, digest_size=CHECKSUM_BYTES, person=kind.__name__.encode()).digest()
    return base64.urlsafe_b64encode(digest)
