"""A span, and the ids of spans and traces, which follow from the ids of events."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

from holdfast.schema.frozen import Frozen

SEMANTIC_CONVENTIONS = "1.41.0"
"""The version of OpenTelemetry's conventions for generative AI whose names are used. They are not stable yet, so a
change of this number is a change for those who read the traces."""
SCHEMA_URL = f"https://opentelemetry.io/schemas/{SEMANTIC_CONVENTIONS}"
INTERNAL: Final = 1
CLIENT: Final = 3

Value = str | int | float | bool | tuple[str, ...]


class Span(Frozen):
    trace_id: bytes
    id: bytes
    parent_id: bytes
    """Empty for the first span of a trace."""
    name: str
    kind: Literal[1, 3]
    start: int
    """In milliseconds since the epoch, as `end`."""
    end: int
    attributes: tuple[tuple[str, Value], ...]
    failed: bool


def trace_id(root_session_id: str, event_id: str) -> bytes:
    """Of the activity that this event of a Session of the tree began."""
    return _digest(f"trace/{root_session_id}/{event_id}", 16)


def activity_span_id(event_id: str) -> bytes:
    return _digest(f"activity/{event_id}", 8)


def span_id(event_id: str) -> bytes:
    return _digest(f"span/{event_id}", 8)


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=size, person=b"holdfast-otel").digest()
