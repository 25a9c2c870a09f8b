"""Identifiers: prefixes and format. Making them needs a clock and is in core."""

from __future__ import annotations

from typing import Annotated, NewType

import msgspec

SessionID = NewType("SessionID", str)
MessageID = NewType("MessageID", str)
EventID = NewType("EventID", str)
ProjectID = NewType("ProjectID", str)

# Checks on ids from callers. Session ids from callers may differ from generated ones.
SessionIDField = Annotated[str, msgspec.Meta(pattern="^ses")]
MessageIDField = Annotated[str, msgspec.Meta(pattern="^msg_")]
EventIDField = Annotated[str, msgspec.Meta(pattern="^evt_")]

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
RANDOM_LENGTH = 14
COUNTER_SPAN = 4096
STAMP_DIGITS = 12
_MASK = (1 << 4 * STAMP_DIGITS) - 1
_TIME_SPAN = (_MASK + 1) // COUNTER_SPAN


def is_session_id(value: str) -> bool:
    return value.startswith("ses")


def format_id(prefix: str, stamp: int, random: str, *, descending: bool = False) -> str:
    """`stamp` is milliseconds x 4096 + counter; descending ids invert it, so that newer ones sort first."""
    value = ~stamp & _MASK if descending else stamp & _MASK
    return f"{prefix}_{value:0{STAMP_DIGITS}x}{random}"


def time_of_id(id: str, since: int) -> int:
    """When an ascending id was made, in milliseconds since the epoch, if it was not before `since`; otherwise, and for
    an id of another form, `since`. An id has only the lower digits of its time, which repeat after two years."""
    _, _, rest = id.partition("_")
    try:
        made = int(rest[:STAMP_DIGITS], 16) // COUNTER_SPAN
    except ValueError:
        return since
    later = (made - since) % _TIME_SPAN
    return since + later if later < _TIME_SPAN // 2 else since
