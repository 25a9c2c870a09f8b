"""Identifiers: prefixes and format. Making them needs a clock and is in core.

Invariants
- An id that a caller chooses consists of letters, digits, `_` and `-`. Ids of another form are still read: earlier
  versions, other servers and bundles have them.
- An id is a name. Where a file or a header is named after one, `name_of_id` makes the name."""

from __future__ import annotations

import hashlib
import re
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

ID_CHARACTERS = 100
"""The longest id that a caller may choose."""
_NAME = re.compile(rf"[0-9A-Za-z_-]{{1,{ID_CHARACTERS}}}")
_DIGEST_CHARACTERS = 32

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
RANDOM_LENGTH = 14
COUNTER_SPAN = 4096
STAMP_DIGITS = 12
_MASK = (1 << 4 * STAMP_DIGITS) - 1
_TIME_SPAN = (_MASK + 1) // COUNTER_SPAN


def is_session_id(value: str) -> bool:
    return value.startswith("ses")


def is_name(id: str) -> bool:
    """Whether an id has the form that a caller may choose."""
    return _NAME.fullmatch(id) is not None


def name_of_id(id: str) -> str:
    """The name of a file, or the value of a header, that stands for an id: the id itself, or for one of another form a
    name that no other id has. It is never a path."""
    if is_name(id):
        return id
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"id.{digest}"  # no name has a dot


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
