"""Chooses the turn of the story that a request asks for, and counts tokens as a provider with a cache does."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Any

from msgspec.structs import replace

from holdfast.llm.offline import Turn, Usage
from holdfast.llm.story.script import NOTES, REFUSED, REPLIES, STRANGER
from holdfast.schema.codec import encode

PAUSE = 0.15
PACE = 0.004
TOKEN_BYTES = 4
CACHE_BLOCK = 128
"""Tokens; a prefix is kept in whole blocks of them."""
CACHED_REQUESTS = 32
SUMMARY_ASKED = "Write the working notes"
BUSY = 503


class StoryModel:
    """Answers by what the conversation says alone, so that several processes can play parts of one story. Only the
    cache and the refusals belong to one process, as they would to a provider."""

    def __init__(self) -> None:
        self._cache: deque[tuple[str, bytes]] = deque(maxlen=CACHED_REQUESTS)
        self._refused: deque[str] = deque(maxlen=CACHED_REQUESTS)

    def turn(self, body: dict[str, Any]) -> Turn:
        turn, prompt = choose(body)
        if prompt in REFUSED and prompt not in self._refused:
            self._refused.append(prompt)
            return Turn(fail=BUSY, pause=PAUSE)
        used = self._usage(body, turn)
        return replace(turn, usage=used, pause=turn.pause or PAUSE, pace=turn.pace or PACE)

    def _usage(self, body: dict[str, Any], turn: Turn) -> Usage:
        sent = encode([body.get("tools", ()), body["messages"]])
        same = max((_common(sent, other) for model, other in self._cache if model == body["model"]), default=0)
        self._cache.append((body["model"], sent))
        thought = len(turn.reasoning or "") // TOKEN_BYTES
        said = len(encode([turn.text, turn.calls])) // TOKEN_BYTES
        return Usage(
            input=len(sent) // TOKEN_BYTES,
            cached=same // TOKEN_BYTES // CACHE_BLOCK * CACHE_BLOCK,
            output=thought + said,
            reasoning=thought,
        )


def choose(body: dict[str, Any]) -> tuple[Turn, str | None]:
    """The turn that follows, and the prompt of the story that it belongs to. A steer belongs to the prompt before."""
    messages = body["messages"]
    if SUMMARY_ASKED in _text(messages[-1]):
        return NOTES, None
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] != "user" or (prompt := _prompt(_text(messages[index]))) is None:
            continue
        done = sum(message["role"] == "assistant" for message in messages[index:])
        replies = REPLIES[prompt]
        return (replies[done], prompt) if done < len(replies) else (STRANGER, None)
    return STRANGER, None


def _prompt(text: str) -> str | None:
    """The last prompt of the story in this text: a checkpoint repeats earlier ones."""
    found = {text.rfind(prompt): prompt for prompt in REPLIES if prompt in text}
    return found[max(found)] if found else None


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _common(one: bytes, other: bytes) -> int:
    """How many bytes at their start are the same."""
    return bisect_left(range(min(len(one), len(other))), True, key=lambda end: one[: end + 1] != other[: end + 1])
