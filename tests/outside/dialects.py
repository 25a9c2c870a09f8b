"""How each provider protocol says one turn: the bytes of its content, and those of its end."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.llm.aws_frames import event

if TYPE_CHECKING:
    from tests.outside.scripted_provider import Turn


def speak(path: str, turn: Turn) -> tuple[bytes, bytes]:
    if path.endswith("/chat/completions"):
        return _chat(turn)
    if path.endswith("/responses"):
        return _responses(turn)
    if path.endswith("/messages"):
        return _anthropic(turn)
    if path.endswith("/converse-stream"):
        return _bedrock(turn)
    return _gemini(turn)


def content_type(path: str) -> str:
    return "application/vnd.amazon.eventstream" if path.endswith("/converse-stream") else "text/event-stream"


def sse(*documents: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents)


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def _chat(turn: Turn) -> tuple[bytes, bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    frames = [chunk({"reasoning_content": word}) for word in _words(turn.reasoning)]
    frames += [chunk({"content": word}) for word in _words(turn.text)]
    for index, call in enumerate(turn.calls):
        function = {"name": call.name, "arguments": call.arguments}
        given = {"index": index, "id": call.id or f"call_{index}", "type": "function", "function": function}
        frames.append(chunk({"tool_calls": [given]}))
    finish = turn.finish or ("tool_calls" if turn.calls else "stop")
    ending = [chunk({}, finish)]
    if turn.usage is not None:
        ending.append({"id": "c", "choices": [], "usage": turn.usage})
    return sse(*frames), sse(*ending) + b"data: [DONE]\n\n"


def _responses(turn: Turn) -> tuple[bytes, bytes]:
    frames: list[dict[str, Any]] = []
    if turn.reasoning:
        item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "early"}
        frames += [
            {"type": "response.output_item.added", "item": item},
            {"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "summary_index": 0},
            {
                "type": "response.reasoning_summary_text.delta",
                "item_id": "rs_1",
                "summary_index": 0,
                "delta": turn.reasoning,
            },
            {"type": "response.output_item.done", "item": {**item, "encrypted_content": "sealed"}},
        ]
    frames += [{"type": "response.output_text.delta", "item_id": "msg_1", "delta": word} for word in _words(turn.text)]
    for index, call in enumerate(turn.calls):
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": call.id or f"call_{index}", "name": call.name}
        frames += [
            {"type": "response.output_item.added", "item": {**item, "arguments": ""}},
            {"type": "response.output_item.done", "item": {**item, "arguments": call.arguments}},
        ]
    response = {"id": "resp_1", "usage": turn.usage or {"input_tokens": 1, "output_tokens": 1}}
    return sse(*frames), sse({"type": "response.completed", "response": response})


def _anthropic(turn: Turn) -> tuple[bytes, bytes]:
    frames: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "usage": turn.usage or {"input_tokens": 1}}}
    ]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if turn.reasoning:
        deltas = [
            {"type": "thinking_delta", "thinking": turn.reasoning},
            {"type": "signature_delta", "signature": "signed"},
        ]
        blocks.append(({"type": "thinking", "thinking": ""}, deltas))
    if turn.text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": turn.text}]))
    for index, call in enumerate(turn.calls):
        block = {"type": "tool_use", "id": call.id or f"toolu_{index}", "name": call.name, "input": {}}
        blocks.append((block, [{"type": "input_json_delta", "partial_json": call.arguments}]))
    for index, (block, deltas) in enumerate(blocks):
        frames.append({"type": "content_block_start", "index": index, "content_block": block})
        frames += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        frames.append({"type": "content_block_stop", "index": index})
    reason = turn.finish or ("tool_use" if turn.calls else "end_turn")
    ending = [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    return sse(*frames), sse(*ending)


def _bedrock(turn: Turn) -> tuple[bytes, bytes]:
    frames = [event("messageStart", {"role": "assistant"})]
    blocks: list[tuple[dict[str, Any] | None, dict[str, Any]]] = []
    if turn.text:
        blocks.append((None, {"text": turn.text}))
    for index, call in enumerate(turn.calls):
        named = {"toolUse": {"toolUseId": call.id or f"tooluse_{index}", "name": call.name}}
        blocks.append((named, {"toolUse": {"input": call.arguments}}))
    for index, (start, delta) in enumerate(blocks):
        if start is not None:
            frames.append(event("contentBlockStart", {"contentBlockIndex": index, "start": start}))
        frames.append(event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}))
        frames.append(event("contentBlockStop", {"contentBlockIndex": index}))
    reason = turn.finish or ("tool_use" if turn.calls else "end_turn")
    usage = turn.usage or {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    ending = event("messageStop", {"stopReason": reason}) + event("metadata", {"usage": usage})
    return b"".join(frames), ending


def _gemini(turn: Turn) -> tuple[bytes, bytes]:
    parts: list[dict[str, Any]] = []
    if turn.reasoning:
        parts.append({"text": turn.reasoning, "thought": True})
    if turn.text:
        parts.append({"text": turn.text})
    for call in turn.calls:
        parts.append({"functionCall": {"name": call.name, "args": call.input}, "thoughtSignature": "signed"})
    usage = turn.usage or {"promptTokenCount": 1, "candidatesTokenCount": 1}
    content = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    ending = {
        "candidates": [{"content": {"role": "model"}, "finishReason": turn.finish or "STOP"}],
        "usageMetadata": usage,
    }
    return sse(*content), sse(ending)
