"""Recorded answers of real providers, through framing and decoder, in any cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SHARED
from tests.llm.conftest import check_lifecycle

from holdfast.llm import event as ev
from holdfast.llm.protocols.openai_chat import ChatDecoder
from holdfast.schema.codec import decode_any
from holdfast.schema.sse import SSEFrames

pytestmark = pytest.mark.shared

FOLDERS = ("openai-chat", "openai-compatible-chat", "cloudflare-ai-gateway", "cloudflare-workers-ai")
CASSETTES = [path for folder in FOLDERS for path in sorted((SHARED / "cassettes" / folder).glob("*.json"))]


def interactions(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = decode_any(path.read_bytes())["interactions"]
    return found


def decode(body: bytes, size: int) -> list[ev.Event]:
    frames, decoder = SSEFrames(1 << 20), ChatDecoder()
    events: list[ev.Event] = []
    for start in range(0, len(body), size):
        for frame in frames.feed(body[start : start + size]):
            events += decoder.feed(frame)
    for frame in frames.finish():
        events += decoder.feed(frame)
    return events + decoder.finish()


@pytest.mark.parametrize("path", CASSETTES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_recorded_answer_decodes_the_same_in_every_cut(path: Path) -> None:
    """LLM-072, LLM-317, LLM-361: one life of a turn, whole, byte by byte, and in sizes that split characters."""
    for interaction in interactions(path):
        body = interaction["response"]["body"].encode()
        whole = decode(body, len(body))
        check_lifecycle(whole)
        assert isinstance(whole[-1], ev.Finish)
        assert whole[-1].usage is not None
        assert (whole[-1].usage.input or 0) > 0
        for size in (1, 2, 3, 7, 1000):
            assert decode(body, size) == whole


def test_the_recordings_are_there() -> None:
    """Otherwise the test above would check nothing."""
    assert len(CASSETTES) >= 12


@pytest.mark.parametrize(
    ("name", "calls", "reason"),
    [
        ("openai-chat/streams-tool-call", 1, "tool-calls"),
        ("openai-chat/streams-text", 0, "stop"),
        ("openai-compatible-chat/groq-llama-3-3-70b-drives-a-tool-loop", 1, "tool-calls"),
        ("openai-compatible-chat/openrouter-gpt-4o-mini-drives-a-tool-loop", 1, "tool-calls"),
        ("cloudflare-workers-ai/cloudflare-workers-ai-gpt-oss-20b-tools-tool-call", 1, "tool-calls"),
    ],
)
def test_what_some_of_them_say(name: str, calls: int, reason: str) -> None:
    """LLM-065, LLM-087, LLM-101: a forced call ends with `stop`, a finish comes twice, usage comes last or as zeros."""
    body = interactions(SHARED / "cassettes" / f"{name}.json")[0]["response"]["body"].encode()
    events = decode(body, len(body))
    made = [event for event in events if isinstance(event, ev.ToolCall)]
    assert (len(made), events[-1].reason if isinstance(events[-1], ev.Finish) else None) == (calls, reason)
    assert all(call.invalid is None and call.input for call in made)
