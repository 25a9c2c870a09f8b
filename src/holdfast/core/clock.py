"""Time, identifiers and randomness behind one interface, so that tests can control them."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol

from holdfast.schema.ids import ALPHABET, COUNTER_SPAN, RANDOM_LENGTH, EventID, MessageID, SessionID, format_id

SUPPLY = 64


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the Unix epoch."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for this many seconds."""


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Ids:
    """Makes identifiers that sort in creation order, also if the clock stops or goes back."""

    def __init__(self, clock: Clock, chance: random.Random | None = None) -> None:
        self._clock = clock
        self._chance = chance or random.Random()
        self._millis = 0
        self._counter = 0
        self._tails: list[str] = []

    def session(self) -> SessionID:
        return SessionID(self._make("ses", descending=True))

    def message(self) -> MessageID:
        return MessageID(self._make("msg"))

    def event(self) -> EventID:
        return EventID(self._make("evt"))

    def of(self, prefix: str) -> str:
        """An ascending id with another prefix."""
        return self._make(prefix)

    def slug(self) -> str:
        """A readable name such as `quiet-kelp`."""
        return f"{self._chance.choice(_QUALITIES)}-{self._chance.choice(_THINGS)}"

    def _make(self, prefix: str, *, descending: bool = False) -> str:
        now = self._clock.now()
        if now > self._millis:
            self._millis, self._counter = now, 0
        self._counter += 1
        if self._counter == COUNTER_SPAN:
            self._millis, self._counter = self._millis + 1, 1
        return format_id(prefix, self._millis * COUNTER_SPAN + self._counter, self._tail(), descending=descending)

    def _tail(self) -> str:
        """Random letters, generated in batches because every event needs an id."""
        if not self._tails:
            letters = self._chance.randbytes(SUPPLY * RANDOM_LENGTH).translate(_LETTERS).decode("ascii")
            self._tails = [letters[at : at + RANDOM_LENGTH] for at in range(0, len(letters), RANDOM_LENGTH)]
        return self._tails.pop()


# Maps a random byte to a character; `bytes.translate` converts a whole batch.
_LETTERS = bytes(ord(ALPHABET[byte % len(ALPHABET)]) for byte in range(256))
_QUALITIES = """
    amber brave calm clear deep eager early fair fine firm free glad grand green keen kind light lucky mild neat
    noble plain proud quick quiet rapid ready sharp silent sleek smooth solid steady still strong sunny sure
    swift tidal true vivid warm wide wild wise
""".split()  # noqa: SIM905 - a list of words reads best as words
_THINGS = """
    anchor bay beacon bluff brook cape cliff coral cove current delta dune eddy estuary fjord foam gull harbor
    inlet island kelp lagoon ledge lighthouse marsh mooring otter pebble pier plover quay reef ridge river sail
    shell shoal shore skiff sound spray surf tern tide wave wharf
""".split()  # noqa: SIM905 - a list of words reads best as words
