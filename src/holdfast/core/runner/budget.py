"""How full the model's window is: an estimate that real usage corrects, against the window less its reserve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.transcript import tokens
from holdfast.llm.request import MediaPart, ToolResultPart
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_message import FileContent

if TYPE_CHECKING:
    from holdfast.llm.request import Message
    from holdfast.schema.session import Tokens
    from holdfast.schema.turn_event import LearnedLimit

# Providers count an image by its area, about this much; never by the length of its base64.
MEDIA_CHARACTERS = 6_000


class Window(Frozen):
    context: int
    """In tokens; not positive is unknown."""
    output: int
    buffer: int
    learned: LearnedLimit | None = None

    @property
    def known(self) -> int:
        """The smaller of the configured window and the learned one; not positive is unknown."""
        if self.learned is None:
            return self.context
        return min(self.context, self.learned.tokens) if self.context > 0 else self.learned.tokens

    @property
    def room(self) -> int | None:
        rooms = [self.context - self._reserve] if self.context > 0 else []
        if self.learned is not None:
            rooms.append(self._learned_room(self.learned))
        return min(rooms, default=None)

    @property
    def _reserve(self) -> int:
        return max(self.output, self.buffer)

    def _learned_room(self, learned: LearnedLimit) -> int:
        """Below a request that was refused there is no more to reserve. Of a stated window at most a quarter is: nobody
        chose the reserve for it."""
        if not learned.stated:
            return learned.tokens - 1
        return learned.tokens - min(self._reserve, learned.tokens // 4)


class Estimate:
    """Of one conversation. What the provider counted last, plus an estimate of what came since."""

    def __init__(self) -> None:
        self._counted = 0
        self._at = 0

    def learn(self, used: Tokens, characters: int) -> None:
        """The provider counted this many tokens for a request of so many characters."""
        total = total_input(used)
        if total > 0:
            self._counted, self._at = total, characters

    def forget(self) -> None:
        """The conversation is another one now."""
        self._counted = self._at = 0

    def of(self, characters: int) -> int:
        if self._counted and characters >= self._at:
            return self._counted + tokens(characters - self._at)
        return tokens(characters)


def total_input(used: Tokens) -> int:
    return used.input + used.cache.read + used.cache.write


def characters(message: Message) -> int:
    """Of its neutral JSON, media counted by what it costs."""
    length = len(encode(message).decode())
    media = sum(_media(part) for part in message.content)
    return length - media + MEDIA_CHARACTERS * sum(map(_count, message.content)) if media else length


def _media(part: object) -> int:
    if isinstance(part, MediaPart):
        return len(part.data)
    if isinstance(part, ToolResultPart) and isinstance(part.result.value, (list, tuple)):
        return sum(len(item.uri) for item in part.result.value if isinstance(item, FileContent))
    return 0


def _count(part: object) -> int:
    if isinstance(part, MediaPart):
        return 1
    if isinstance(part, ToolResultPart) and isinstance(part.result.value, (list, tuple)):
        return sum(1 for item in part.result.value if isinstance(item, FileContent))
    return 0
