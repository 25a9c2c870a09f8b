"""Exchanges with providers: requests encode to what was sent, answers decode alike however they are cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FIXTURES, RECORDINGS
from tests.llm.support import KEY, Playback, Played, collect, failure, play

from holdfast.llm import event as ev
from holdfast.llm.model import Model
from holdfast.llm.protocols.anthropic_messages import HEADERS, AnthropicMessages
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.providers.profiles import PROFILES
from holdfast.llm.request import (
    NO_CACHE,
    CacheHint,
    Generation,
    Message,
    Part,
    Request,
    SystemPart,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
    assistant,
    make_request,
    user,
)
from holdfast.llm.response import fold
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.stream import http_request, prepare
from holdfast.schema.codec import decode_any

pytestmark = pytest.mark.anyio

FOLDERS = (
    *("openai-chat", "openai-compatible-chat", "session-runner", "cloudflare-ai-gateway", "cloudflare-workers-ai"),
    *("anthropic-messages", "anthropic-messages-cache"),
)


def cassettes(pattern: str) -> list[Any]:
    """Those written for these tests, then those recorded from the providers where there are any."""
    found: list[Any] = []
    for root, prefix, marks in ((FIXTURES, "", ()), (RECORDINGS, "recorded:", (pytest.mark.recorded,))):
        paths = sorted(path for folder in FOLDERS for path in (root / "cassettes" / folder).glob("*.json"))
        named = {f"{path.parent.name}/{path.stem}": path for path in paths}
        found += [
            pytest.param(path, id=f"{prefix}{name}", marks=marks)
            for name, path in named.items()
            if fnmatch(name, pattern)
        ]
    return found


def exchanges(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["interactions"]
    return found


RECORDED: list[Any] = [
    pytest.param(interaction, id=f"{item.id}-{number}", marks=item.marks)
    for item in cassettes("*")
    for number, interaction in enumerate(exchanges(item.values[0]))
]
ANSWERED = [item for item in RECORDED if item.values[0]["response"]["status"] == 200]


# -- from a recorded body back to a request --------------------------------------------------------------------------


def request_of(sent: dict[str, Any]) -> Request:
    """What a caller would have asked for. Caching is by hint only: where it was recorded, it was by hint too."""
    anthropic = "system" in sent or isinstance(sent["messages"][0]["content"], list)
    messages = sent["messages"]
    system: list[SystemPart] = []
    if anthropic:
        system = [SystemPart(text=part["text"], cache=hint(part)) for part in sent.get("system", ())]
    elif messages[0]["role"] == "system":
        system = [SystemPart(text=messages[0]["content"])]
        messages = messages[1:]
    return make_request(
        system=system,
        messages=[_claude_message(item) if anthropic else _chat_message(item) for item in messages],
        tools=[_tool(item) for item in sent.get("tools", ())],
        tool_choice=_choice(sent.get("tool_choice")),
        generation=Generation(max_tokens=sent.get("max_tokens"), temperature=sent.get("temperature")),
        cache=NO_CACHE,
    )


def hint(part: dict[str, Any]) -> CacheHint | None:
    return CacheHint() if "cache_control" in part else None


def _chat_message(item: dict[str, Any]) -> Message:
    match item["role"]:
        case "user":
            return user(item["content"])
        case "tool":
            result = ToolResult(type="json", value=json.loads(item["content"]))
            return Message(role="tool", content=(ToolResultPart(id=item["tool_call_id"], name="x", result=result),))
        case _:
            calls = [
                ToolCallPart(
                    id=call["id"], name=call["function"]["name"], input=json.loads(call["function"]["arguments"])
                )
                for call in item.get("tool_calls", ())
            ]
            return assistant(*([item["content"]] if item["content"] else []), *calls)


def _claude_message(item: dict[str, Any]) -> Message:
    parts: list[Part] = []
    for block in item["content"]:
        match block["type"]:
            case "text":
                parts.append(TextPart(text=block["text"], cache=hint(block)))
            case "tool_use":
                parts.append(ToolCallPart(id=block["id"], name=block["name"], input=block["input"]))
            case "tool_result":
                result = ToolResult(type="json", value=json.loads(block["content"]))
                parts.append(ToolResultPart(id=block["tool_use_id"], name="x", result=result))
    is_result = isinstance(parts[0], ToolResultPart)
    return Message(role="tool" if is_result else item["role"], content=tuple(parts))


def _tool(item: dict[str, Any]) -> ToolDefinition:
    fields = item.get("function", item)
    schema = fields.get("parameters", fields.get("input_schema"))
    return ToolDefinition(name=fields["name"], description=fields["description"], input_schema=schema)


def _choice(given: Any) -> ToolChoice | None:
    if given is None:
        return None
    return ToolChoice(type="tool", name=given.get("name") or given["function"]["name"])


def model_of(recorded: dict[str, Any]) -> Model:
    sent = json.loads(recorded["body"])
    url = recorded["url"]
    if url.endswith("/messages"):
        auth = KeyAuth(KEY, header="x-api-key", scheme="")
        route = Route("anthropic", AnthropicMessages(), url.removesuffix("/messages"), auth, headers=HEADERS)
        return Model(sent["model"], "anthropic", route)
    base = url.removesuffix("/chat/completions")
    profile = next((item for item in PROFILES.values() if item.base_url == base), None)
    protocol = profile.protocol if profile else OpenAIChat()
    return Model(sent["model"], profile.id if profile else "openai", Route("chat", protocol, base, KeyAuth(KEY)))


def joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message, calls last: how Anthropic's are always sent (LLM-225)."""
    out: list[dict[str, Any]] = []
    for message in messages:
        if out and out[-1]["role"] == message["role"]:
            out[-1] = {**message, "content": [*out[-1]["content"], *message["content"]]}
        else:
            out.append(message)
    return [
        {**message, "content": sorted(message["content"], key=lambda block: bool(block["type"] == "tool_use"))}
        for message in out
    ]


# -- requests --------------------------------------------------------------------------------------------------------


def test_every_shape_has_an_exchange_of_our_own() -> None:
    own = [item.values[0] for item in cassettes("*") if not item.marks]
    assert {path.parent.name for path in own} == {*FOLDERS} - {"session-runner"}
    assert sum(len(exchanges(path)) for path in own) >= 17


@pytest.mark.parametrize("recorded", RECORDED)
def test_a_request_encodes_to_what_was_sent(recorded: dict[str, Any]) -> None:
    """LLM-220, LLM-240, LLM-310: the address, the headers that were kept, and the body."""
    request = recorded["request"]
    sent = json.loads(request["body"])
    model = model_of(request)
    made = http_request(prepare(model, request_of(sent)))
    assert made.url == request["url"]
    assert {name: made.headers[name] for name in request["headers"]} == request["headers"]
    if model.provider == "anthropic":
        sent["messages"] = joined(sent["messages"])
    assert decode_any(b"".join(made.body)) == sent


# -- answers ---------------------------------------------------------------------------------------------------------


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """Every frame on its own, and a border around each frame's end and inside each character that has one."""
    frames = data.split(b"\n\n")
    yield [frame + b"\n\n" for frame in frames[:-1]] + [frames[-1]]
    places = {at for at, byte in enumerate(data) if byte & 0xC0 == 0x80}
    for at in range(len(data)):
        if data.startswith(b"\n\n", at):
            places |= {at, at + 1, at + 2, at + 3}
    for at in sorted(places):
        yield [data[:at], data[at:]]


@pytest.mark.parametrize("recorded", ANSWERED)
async def test_an_answer_gives_the_same_events_however_it_is_cut(recorded: dict[str, Any]) -> None:
    """LLM-072, LLM-361, LLM-317"""
    model = model_of(recorded["request"])
    data = recorded["response"]["body"].encode()
    headers = recorded["response"]["headers"]
    whole = await collect(model, Played([data], headers=headers))
    for size in (1, 7):
        assert await collect(model, play(data, size)) == whole
    for pieces in cuts(data):
        assert await collect(model, Played(pieces)) == whole


PARIS: list[tuple[str, Any]] = [("get_weather", {"city": "Paris"})]
OSLO: list[tuple[str, Any]] = [("get_forecast", {"place": "Oslo"})]
# Text, calls, reason, input and output tokens: of our own exchanges, then of the recorded ones.
EXPECTED: dict[str, tuple[str, list[tuple[str, Any]], str, int, int]] = {
    "anthropic-messages/text-0": ("Good mörning", [], "stop", 21, 6),
    "anthropic-messages/tool-call-0": ("", OSLO, "tool-calls", 300, 30),
    "anthropic-messages/after-tool-result-0": ("Clear.", [], "stop", 340, 4),
    "anthropic-messages-cache/write-then-read-0": ("Hi.", [], "stop", 5761, 5),
    "anthropic-messages-cache/write-then-read-1": ("Hi.", [], "stop", 5761, 5),
    "openai-chat/text-0": ("Good mörning", [], "stop", 20, 3),
    "openai-chat/tool-call-0": ("", OSLO, "tool-calls", 60, 9),
    "openai-chat/after-tool-result-0": ("Clear, 5 °C.", [], "stop", 70, 8),
    "openai-compatible-chat/deepseek-text-0": ("Good day", [], "stop", 12, 3),
    "openai-compatible-chat/groq-tool-loop-0": ("", OSLO, "tool-calls", 200, 14),
    "openai-compatible-chat/groq-tool-loop-1": ("Sunny, 22 degrees.", [], "stop", 230, 7),
    "openai-compatible-chat/openrouter-tool-loop-0": ("", OSLO, "tool-calls", 60, 14),
    "openai-compatible-chat/openrouter-tool-loop-1": ("Sunny, 22 °C.", [], "stop", 90, 8),
    "openai-compatible-chat/together-text-0": ("Good day", [], "stop", 44, 3),
    "anthropic-messages/accepts-malformed-assistant-tool-order-with-default-patch-0": (
        "The weather in Paris is currently 72°F.",
        [],
        "stop",
        638,
        14,
    ),
    "anthropic-messages/streams-text-0": ("Hello!", [], "stop", 18, 5),
    "anthropic-messages/streams-tool-call-0": ("", PARIS, "tool-calls", 677, 33),
    "anthropic-messages-cache/writes-then-reads-cache-control-on-identical-second-call-0": ("Hi.", [], "stop", 5761, 5),
    "anthropic-messages-cache/writes-then-reads-cache-control-on-identical-second-call-1": ("Hi.", [], "stop", 5761, 5),
    "cloudflare-ai-gateway/cloudflare-ai-gateway-workers-ai-llama-3-1-8b-text-0": ("Hello!", [], "stop", 45, 2),
    "cloudflare-workers-ai/cloudflare-workers-ai-gpt-oss-20b-tools-tool-call-0": ("", PARIS, "tool-calls", 136, 37),
    "openai-chat/continues-after-tool-result-0": (
        "The weather in Paris is sunny with a temperature of 22°C.",
        [],
        "stop",
        59,
        14,
    ),
    "openai-chat/streams-text-0": ("Hello!", [], "stop", 22, 2),
    "openai-chat/streams-tool-call-0": ("", PARIS, "tool-calls", 67, 5),
    "openai-compatible-chat/deepseek-streams-text-0": ("Hello!", [], "stop", 14, 2),
    "openai-compatible-chat/groq-llama-3-3-70b-drives-a-tool-loop-0": ("", PARIS, "tool-calls", 237, 14),
    "openai-compatible-chat/groq-llama-3-3-70b-drives-a-tool-loop-1": (
        "The weather in Paris is sunny with a temperature of 22 degrees.",
        [],
        "stop",
        270,
        15,
    ),
    "openai-compatible-chat/groq-streams-text-0": ("Hello!", [], "stop", 45, 3),
    "openai-compatible-chat/openrouter-gpt-4o-mini-drives-a-tool-loop-0": ("", PARIS, "tool-calls", 66, 14),
    "openai-compatible-chat/openrouter-gpt-4o-mini-drives-a-tool-loop-1": (
        "The weather in Paris is sunny with a temperature of 22°C.",
        [],
        "stop",
        98,
        15,
    ),
    "openai-compatible-chat/openrouter-streams-text-0": ("Hello!", [], "stop", 21, 3),
    "openai-compatible-chat/openrouter-streams-tool-call-0": ("", PARIS, "tool-calls", 67, 5),
    "openai-compatible-chat/togetherai-streams-text-0": ("Hello!", [], "stop", 45, 3),
    "session-runner/openai-chat-streams-text-0": ("Hello!", [], "stop", 22, 2),
}


@pytest.mark.parametrize("recorded", ANSWERED)
async def test_an_answer_folds_to_its_text_calls_and_usage(
    recorded: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """LLM-101, LLM-083, LLM-087, LLM-317"""
    response = fold(await collect(model_of(recorded["request"]), play(recorded["response"]["body"].encode())))
    assert response.usage is not None
    found = (
        response.text,
        [(call.name, call.input) for call in response.calls],
        response.reason,
        response.usage.input,
        response.usage.output,
    )
    assert found == EXPECTED[request.node.callspec.id.removeprefix("recorded:")]


@pytest.mark.parametrize("path", cassettes("anthropic-messages-cache/*"))
async def test_a_cache_is_written_and_then_read(path: Path) -> None:
    """LLM-083, LLM-086"""
    usages = []
    for recorded in exchanges(path):
        events = await collect(model_of(recorded["request"]), play(recorded["response"]["body"].encode()))
        last = events[-1]
        assert isinstance(last, ev.Finish)
        assert last.usage is not None
        usages.append((last.usage.input, last.usage.non_cached, last.usage.cache_read, last.usage.cache_write))
    assert usages == [(5761, 9, 0, 5752), (5761, 9, 5752, 0)]


@pytest.mark.parametrize("path", [*cassettes("*/refused-order"), *cassettes("*/rejects-malformed*")])
async def test_what_the_provider_refuses_is_an_invalid_request(path: Path) -> None:
    """LLM-331, LLM-225: and the order that it refused is not what is sent here."""
    (recorded,) = exchanges(path)
    answer = recorded["response"]
    transport = Playback(Played([answer["body"].encode()], answer["status"], answer["headers"]))
    error = await failure(model_of(recorded["request"]), transport, request_of(json.loads(recorded["request"]["body"])))
    assert (error.reason, error.classification, error.retryable) == ("InvalidRequest", None, False)
    sent = decode_any(b"".join(transport.requests[0].body))["messages"]
    assert [block["type"] for block in sent[0]["content"]] == ["text", "tool_use"]


@pytest.mark.parametrize("path", cassettes("*gpt-oss*"))
async def test_reasoning_before_a_call_is_kept_apart(path: Path) -> None:
    """LLM-246, LLM-317: gpt-oss on Workers AI."""
    (recorded,) = exchanges(path)
    response = fold(await collect(model_of(recorded["request"]), play(recorded["response"]["body"].encode(), 1)))
    assert [part.__class__.__name__ for part in response.parts] == ["ReasoningPart", "ToolCallPart"]


@pytest.mark.parametrize("path", cassettes("*tool-loop"))
async def test_the_second_request_of_a_loop_follows_from_the_first_answer(path: Path) -> None:
    """LLM-242, LLM-071: what was folded is what goes back."""
    recorded = exchanges(path)
    model = model_of(recorded[0]["request"])
    first = request_of(json.loads(recorded[0]["request"]["body"]))
    response = fold(await collect(model, play(recorded[0]["response"]["body"].encode())))
    (call,) = response.calls
    result = ToolResult(type="json", value={"temperature": 22, "condition": "sunny"})
    prepared = prepare(model, first)
    prepared.extend(
        [
            Message(role="assistant", content=response.parts),
            Message(role="tool", content=(ToolResultPart(id=call.id, name=call.name, result=result),)),
        ]
    )
    assert decode_any(prepared.body) == json.loads(recorded[1]["request"]["body"])
