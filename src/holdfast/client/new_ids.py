"""Ids that a client makes itself, in the form of the server's: a request with one can be sent again and counts once."""

from __future__ import annotations

import secrets
import time

from holdfast.schema.ids import ALPHABET, COUNTER_SPAN, RANDOM_LENGTH, format_id


def new_message_id() -> str:
    """Later ones sort after earlier ones."""
    return _new_id("msg", descending=False)


def new_session_id() -> str:
    """Later ones sort before earlier ones."""
    return _new_id("ses", descending=True)


def _new_id(prefix: str, *, descending: bool) -> str:
    random = "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return format_id(prefix, time.time_ns() // 1_000_000 * COUNTER_SPAN, random, descending=descending)
