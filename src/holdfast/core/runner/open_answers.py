"""Answers that this process is receiving: who joins in the middle reads here what was announced before."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

BlockKind = Literal["text", "reasoning", "input"]


class OpenText(Frozen):
    """A block that has begun and not ended, with the text of all deltas that were announced."""

    kind: BlockKind
    message_id: str
    id: str
    text: str


class Publishes(Protocol):
    def open_blocks(self) -> list[OpenText]: ...


class OpenAnswers:
    def __init__(self) -> None:
        self._publishers: dict[str, Publishes] = {}

    @contextmanager
    def receiving(self, session_id: str, publisher: Publishes) -> Iterator[None]:
        self._publishers[session_id] = publisher
        try:
            yield
        finally:
            if self._publishers.get(session_id) is publisher:
                del self._publishers[session_id]

    def of(self, session_id: str) -> list[OpenText]:
        """The open blocks of a Session; none if no turn of it runs in this process."""
        publisher = self._publishers.get(session_id)
        return publisher.open_blocks() if publisher is not None else []
