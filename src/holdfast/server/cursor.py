"""Page cursors: opaque to clients; inside, everything that the next page needs, its size included."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, TypeVar

import msgspec

from holdfast.core.session.errors import InvalidCursor
from holdfast.core.session.store import Direction, Order, SessionAnchor
from holdfast.schema.codec import decoder, encode

Limit = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]


class ListCursor(msgspec.Struct, frozen=True, omit_defaults=True):
    anchor: SessionAnchor
    workspace: str | None = None
    order: Order | None = None
    search: str | None = None
    directory: str | None = None
    project: str | None = None
    subpath: str | None = None
    limit: Limit | None = None


class MessageCursor(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    order: Order
    direction: Direction
    limit: Limit | None = None


C = TypeVar("C", ListCursor, MessageCursor)


def write_cursor(cursor: ListCursor | MessageCursor) -> str:
    return base64.urlsafe_b64encode(encode(cursor)).rstrip(b"=").decode()


def read_cursor(kind: type[C], text: str) -> C:
    try:
        raw = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        cursor: C = decoder(kind).decode(raw)
    except (UnicodeError, binascii.Error, msgspec.DecodeError, RecursionError) as error:
        raise InvalidCursor from error
    return cursor
