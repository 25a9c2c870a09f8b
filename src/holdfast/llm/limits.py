"""Limits on one provider answer, and the failure when an answer exceeds one of them.

Invariants
- A limit is checked while data arrives, before it is stored: memory grows by at most one frame beyond a limit.
- What arrived before the limit is kept; the connection is closed, because nobody reads the rest.
- The failure names the limit, its value and the setting that changes it. It is never retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.llm.errors import LLMError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.llm.event import Event

MIB = 1024 * 1024
SETTINGS = "holdfast.answer"
"""The section of the configuration with the fields of `AnswerLimits`."""


class AnswerLimits(Frozen):
    """All sizes are bytes of UTF-8. The body of an HTTP error is always cut after 16,384 characters (LLM-338)."""

    part_bytes: int = 8 * MIB
    """One text or reasoning part."""
    argument_bytes: int = 2 * MIB
    """The arguments of one tool call."""
    turn_bytes: int = 32 * MIB
    """All that is kept of one answer; and, counted apart, all frames that add nothing to it."""
    blocks: int = 1_000
    """Texts, reasoning parts and tool calls of one answer."""
    frame_bytes: int = 16 * MIB
    """One server-sent event, binary frame or WebSocket message."""
    stream_bytes: int = 128 * MIB
    """The whole body, after decompression. Framing is most of it: a delta of 4 bytes takes about 250."""
    inflation: int = 200
    """How many times larger than what was received a decompressed body may be, once it exceeds INFLATION_FLOOR."""


DEFAULT_LIMITS = AnswerLimits()
INFLATION_FLOOR = MIB


class AnswerTooLarge(LLMError):
    """An answer exceeded a limit. `events` were decoded before that and have not been handed out yet."""

    def __init__(self, what: str, limit: int, setting: str, events: Sequence[Event] = ()) -> None:
        shown = f"{limit} bytes" if setting.endswith("_bytes") else str(limit)
        if setting == "inflation":
            shown += " times what was received"
        super().__init__(
            "InvalidProviderOutput",
            f"The answer was cut off: {what} may not exceed {shown} ({SETTINGS}.{setting}). "
            "What arrived before the limit is kept; the connection was closed.",
            kind="limit",
        )
        self.setting = setting
        self.events = list(events)


def byte_length(text: str) -> int:
    # isascii() is a flag of the string, so this is constant time for nearly all that models write.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def cut(text: str, size: int) -> str:
    """As much of `text` as fits into `size` bytes of UTF-8, in whole characters."""
    if text.isascii():
        return text[:size]
    return text[:size].encode("utf-8", "surrogatepass")[:size].decode("utf-8", "ignore")
