"""Shared encoders and decoders. JSON is compact UTF-8 in declaration order: equal values give equal bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from holdfast.schema.session_message import SessionMessage

_ENCODER = msgspec.json.Encoder()
encode = _ENCODER.encode


def encode_text(value: object) -> str:
    return _ENCODER.encode(value).decode()


decode_any: Any = msgspec.json.Decoder().decode


@cache
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """The cached decoder of a record or union. The number of types is bounded by the schema."""
    return msgspec.json.Decoder(kind)


def decode_message(data: bytes) -> SessionMessage:
    return decoder(SessionMessage).decode(data)  # type: ignore[no-any-return]
