"""The bodies we encode are what the vendors' own packages describe, but for the disagreements listed here."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.llm.official_types import (
    Known,
    Validator,
    chat_complaints,
    converse_complaints,
    gemini_complaints,
    messages_complaints,
    responses_complaints,
)
from tests.llm.support import KEY, PNG, WEATHER, conversations, requests_of

from holdfast.llm.answer_format import AnswerFormat
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.protocols.anthropic_messages import AnthropicMessages
from holdfast.llm.protocols.base import WireProtocol
from holdfast.llm.protocols.bedrock_converse import BedrockConverse
from holdfast.llm.protocols.gemini import Gemini
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.protocols.openai_responses import OpenAIResponses
from holdfast.llm.providers.amazon import bedrock_capabilities, bedrock_route
from holdfast.llm.providers.anthropic import anthropic_capabilities, anthropic_route
from holdfast.llm.providers.gateways import azure_model
from holdfast.llm.providers.google import google_route
from holdfast.llm.providers.openai import openai_model
from holdfast.llm.providers.profiles import PROFILES
from holdfast.llm.request import (
    NO_CACHE,
    CacheHint,
    CachePolicy,
    Generation,
    HttpOverlay,
    MediaPart,
    Message,
    ReasoningPart,
    Request,
    SystemPart,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
    assistant,
    make_request,
    tool_result,
    update,
    user,
)
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.stream import prepare
from holdfast.schema.codec import decode_any, encode

VALIDATORS: dict[str, Validator] = {
    "openai-chat": chat_complaints,
    "openai-responses": responses_complaints,
    "anthropic-messages": messages_complaints,
    "gemini": gemini_complaints,
    "bedrock-converse": converse_complaints,
}

_OUTPUT_MESSAGE = (
    "LLM-261: a past answer is `{role, content: [output_text]}`. The types know output text only in the message object "
    "that the API returned, which needs members that are not ours to make up"
)
_SAMPLING = "LLM-221, LLM-226: models before Opus 4.7 take it; the current types have dropped it for those that do not"
_OPENROUTER = "LLM-312, LLM-318: OpenRouter's own option"
# Where the vendor is right. They stand here until the protocol is changed, and the test of this list then says so.
_COMBINER = "Ours: LLM-169 keeps it, but Gemini's Schema has only `anyOf`, and the service refuses members it has not"

KNOWN = (
    Known("openai-chat", "messages.*.reasoning_content", "LLM-242, LLM-244: only to vendors who take it back"),
    Known("openai-chat", "messages.*.reasoning_details", "LLM-147: OpenRouter's, sent back as it came"),
    Known("openai-chat", "messages.*.content.*.cache_control", "LLM-218: OpenRouter's form of Claude's markers"),
    Known("openai-chat", "usage", _OPENROUTER),
    Known("openai-chat", "reasoning", _OPENROUTER),
    Known("openai-chat", "provider", _OPENROUTER),
    Known("openai-chat", "models", _OPENROUTER),
    Known("openai-chat", "transforms", _OPENROUTER),
    Known("openai-chat", "plugins", _OPENROUTER),
    Known("openai-responses", "input.*.id", _OUTPUT_MESSAGE, ("role", "assistant"), "msg_1"),
    Known("openai-responses", "input.*.type", _OUTPUT_MESSAGE, ("role", "assistant"), "message"),
    Known("openai-responses", "input.*.status", _OUTPUT_MESSAGE, ("role", "assistant"), "completed"),
    Known("openai-responses", "input.*.content.*.annotations", _OUTPUT_MESSAGE, ("type", "output_text"), []),
    Known(
        "openai-responses",
        "input.*.id",
        "LLM-263: nothing is stored under an id when `store` is false, so that the item goes back without it",
        ("type", "reasoning"),
        "rs_1",
    ),
    Known(
        "openai-responses",
        "input.*.content.*.detail",
        "LLM-193: `{type, image_url}`; the API's own description says that `detail` defaults to `auto`, and the types "
        "require it here but not in a tool's output",
        ("type", "input_image"),
        "auto",
    ),
    Known("anthropic-messages", "temperature", _SAMPLING),
    Known("anthropic-messages", "top_p", _SAMPLING),
    Known("anthropic-messages", "top_k", _SAMPLING),
    Known("gemini", "**.parameters.**.oneOf", _COMBINER),
    Known("gemini", "**.parameters.**.allOf", _COMBINER),
    Known("bedrock-converse", "modelId", "LLM-292: in the body too; the service reads it from the address"),
)


# -- models --------------------------------------------------------------------------------------------------------


def compatible(profile: str, id: str, **capabilities: Any) -> Model:
    known = PROFILES[profile]
    route = Route(known.id, known.protocol, known.base_url, KeyAuth(KEY))
    return Model(id, known.id, route, capabilities=known.capabilities.replace(**capabilities))


def claude(id: str, **more: Any) -> Model:
    return Model(id, "anthropic", anthropic_route(KEY), capabilities=anthropic_capabilities(id), **more)


def gemini(id: str, **more: Any) -> Model:
    return Model(id, "google", google_route(KEY), **more)


def bedrock(id: str, **more: Any) -> Model:
    return Model(id, "amazon-bedrock", bedrock_route(KEY), capabilities=bedrock_capabilities(id), **more)


BLIND = Capabilities(images=False, caching=False)
STORED = {"openai": {"store": True}}
MODELS = {
    "chat": openai_model("gpt-4o-mini", KEY, api="chat"),
    "chat-reasoning": openai_model("gpt-5.2", KEY, api="chat"),
    "chat-deepseek": compatible("deepseek", "deepseek-reasoner"),
    "chat-openrouter": compatible("openrouter", "anthropic/claude-sonnet-4.5", inline_cache=True),
    "chat-moonshot": compatible("groq", "moonshotai/kimi-k2", images=False).replace(compatibility="moonshot"),
    "responses": openai_model("gpt-4o-mini", KEY),
    "responses-reasoning": openai_model("gpt-5.2", KEY),
    "responses-stored": openai_model("gpt-5.2", KEY, provider_options=STORED),
    "responses-azure": azure_model("gpt-5.2", KEY, resource="here"),
    "responses-xai": openai_model("grok-4", KEY, base_url="https://api.x.ai/v1"),
    "claude": claude("claude-haiku-4-5"),
    "claude-native": claude("claude-opus-4-8"),
    "claude-blind": claude("claude-haiku-4-5").replace(capabilities=BLIND),
    "gemini": gemini("gemini-2.5-flash"),
    "gemini-signing": gemini("gemini-3-pro-preview"),
    "gemini-dialect": gemini("gemini-2.5-pro", compatibility="gemini"),
    "bedrock": bedrock("us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    "bedrock-adaptive": bedrock("us.anthropic.claude-opus-4-8"),
    "bedrock-nova": bedrock("amazon.nova-pro-v1:0"),
    "bedrock-other": bedrock("meta.llama4-maverick-17b-instruct-v1:0"),
}


def protocol_of(model: Model) -> str:
    return model.route.protocol.id


# -- requests ------------------------------------------------------------------------------------------------------

PDF = base64.b64encode(b"%PDF-1.7").decode()
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Order",
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 80, "pattern": "^[a-z]+$", "format": "hostname"},
        "count": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10, "default": 1},
        "level": {"enum": [1, 2, 3], "type": "integer"},
        "kind": {"const": "order"},
        "note": {"type": ["string", "null"]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "may be left out"},
        "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
        "tags": {"type": "array"},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
        "place": {"$ref": "#/$defs/Place"},
        "open": {"type": "object", "additionalProperties": {"type": "string"}},
        "empty": {"type": "object", "properties": {}},
        "type": {"type": "string", "description": "a property with the name of a keyword"},
    },
    "required": ["name", "place", "empty"],
    "additionalProperties": False,
    "$defs": {
        "Place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "inside": {"$ref": "#/$defs/Place"}},
            "required": ["city"],
        }
    },
}
ORDER = ToolDefinition(name="order", description="Order something.", input_schema=SCHEMA)
PLAIN = ToolDefinition(name="now", description="", input_schema={"type": "object", "properties": {}})
VARIANTS = ToolDefinition(
    name="edit",
    description="One of two.",
    input_schema={
        "anyOf": [
            {"type": "object", "properties": {"add": {"type": "string"}}, "required": ["add"]},
            {"type": "object", "properties": {"drop": {"type": "integer"}}, "required": ["drop"]},
        ]
    },
)
COMBINED = ToolDefinition(
    name="combined",
    description="Alternatives of each kind.",
    input_schema={
        "type": "object",
        "properties": {
            "one": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            "all": {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]},
        },
    },
)
TOOLS = (WEATHER, ORDER, PLAIN, VARIANTS)
ANSWER = {"type": "json", "name": "order", "schema": {**SCHEMA, "title": "Answer"}}
PROTOCOLS: dict[str, WireProtocol] = {
    protocol.id: protocol
    for protocol in (OpenAIChat(), OpenAIResponses(), AnthropicMessages(), Gemini(), BedrockConverse())
}
FORMATS: dict[str, dict[str, Any]] = {
    "object": SCHEMA,
    "optional": {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"enum": ["x", 1]}}},
    "list": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "recursive": {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["next"],
    },
    "free": {"type": "object"},
}
FILE = {"type": "file", "uri": f"data:image/png;base64,{PNG}", "mime": "image/png", "name": "shot.png"}
SIGNED: dict[str, dict[str, Any]] = {
    "anthropic": {"signature": "c2ln"},
    "openai": {"itemId": "rs_1", "reasoningEncryptedContent": "gAAAA"},
    "google": {"thoughtSignature": "c2ln"},
    "bedrock": {"signature": "c2ln"},
    "openrouter": {"reasoningDetails": [{"type": "reasoning.text", "text": "hm", "signature": "c2ln"}]},
}
REDACTED: dict[str, dict[str, Any]] = {
    "anthropic": {"redactedData": "ZGF0YQ=="},
    "bedrock": {"redactedContent": "ZGF0YQ=="},
}
CALLED: dict[str, dict[str, Any]] = {
    "google": {"thoughtSignature": "c2ln", "functionCallId": "fc-1"},
    "openai": {"itemId": "fc_1"},
}


def call(id: str = "call_1", name: str = "get_weather", **more: Any) -> ToolCallPart:
    return ToolCallPart(id=id, name=name, input={"city": "Paris"}, **more)


def image(kind: str = "png") -> MediaPart:
    return MediaPart(media_type=f"image/{kind}", data=PNG)


def answered(*results: Any, **more: Any) -> Request:
    """Calls in one turn, and a result for each."""
    calls = [call(f"call_{index}") for index in range(len(results))]
    messages = [user("weather?"), assistant("Looking.", *calls)]
    messages += [tool_result(f"call_{index}", "get_weather", value) for index, value in enumerate(results)]
    return make_request(messages=messages, tools=[WEATHER], **more)


def said(*parts: str | ReasoningPart | TextPart | ToolCallPart | ToolResultPart) -> list[Message]:
    return [user("hello"), assistant(*parts), user("and then?")]


def everywhere() -> Iterator[tuple[str, Request]]:
    """What every protocol can express."""
    yield "text", make_request(system=["Be brief.", "Be kind."], prompt='héllo \U0001f600 "quoted" \\ \n')
    yield "several parts", make_request(messages=[user("one", "two"), assistant("three", "four"), user("five")])
    yield "neighbours", make_request(messages=[user("one"), user("two"), assistant("a"), assistant("b"), user("c")])
    yield "no answer yet", make_request(messages=[user("one"), assistant("two")])

    for kind in ("png", "jpeg", "jpg", "gif", "webp"):
        yield kind, make_request(messages=[user("look", image(kind), "and say")])
    yield "only an image", make_request(messages=[user(image())])
    yield "bytes", make_request(messages=[user(MediaPart(media_type="image/png", data=b"\x89PNG"))])
    text_file = MediaPart(media_type="text/plain", data=b"to be read", filename="notes.txt")
    yield "text file", make_request(messages=[user("read", text_file)])

    yield "tools", make_request(prompt="hi", tools=TOOLS)
    yield "one tool without parameters", make_request(prompt="hi", tools=[PLAIN])
    for choice in ("auto", "none", "required", "order"):
        yield f"choice {choice}", make_request(prompt="hi", tools=TOOLS, tool_choice=choice)
        yield f"choice {choice} after calls", answered("sunny", tool_choice=choice.replace("order", "get_weather"))

    values: dict[str, Any] = {
        "text": ToolResult(type="text", value="sunny"),
        "no text": ToolResult(type="text", value=""),
        "object": {"sky": "blue", "nested": [1, None, {"é": True}]},
        "list": [1, 2],
        "number": 21.5,
        "nothing": None,
        "type of AWS": {"__type": "x"},
        "error": ToolResult(type="error", value="it broke"),
        "error object": ToolResult(type="error", value={"code": 503}),
        "items": ToolResult(type="content", value=[{"type": "text", "text": "seen"}, FILE]),
        "only an image": ToolResult(type="content", value=[FILE]),
        "no items": ToolResult(type="content", value=[]),
    }
    for name, value in values.items():
        yield f"result {name}", answered(value)
    yield "parallel results", answered(*values.values())
    yield (
        "result then text",
        make_request(
            messages=[*answered(values["items"], values["only an image"]).messages, user("and?")], tools=[WEATHER]
        ),
    )
    yield (
        "foreign ids",
        make_request(
            messages=[
                user("go"),
                assistant(call("toolu:1|fc/é" + "x" * 80)),
                tool_result("toolu:1|fc/é" + "x" * 80, "get_weather", 1),
            ],
            tools=[WEATHER],
        ),
    )
    malformed = ToolCallPart(id="call_1", name="get_weather", input='{"city": "Par')
    yield (
        "malformed call",
        make_request(
            messages=[user("go"), assistant(malformed), tool_result("call_1", "get_weather", "no")], tools=[WEATHER]
        ),
    )
    yield "calls without tools", make_request(messages=answered("sunny").messages)

    thought = ReasoningPart(text="hm")
    signed = ReasoningPart(text="hm", provider_metadata=SIGNED)
    yield "reasoning", make_request(messages=said(thought, "so"))
    yield "only reasoning", make_request(messages=said(thought))
    yield "signed reasoning", make_request(messages=said(signed, "so"))
    yield "signed without text", make_request(messages=said(ReasoningPart(text="", provider_metadata=SIGNED), "so"))
    yield "encrypted reasoning", make_request(messages=said(ReasoningPart(text="hm", encrypted="c2ln"), "so"))
    yield "redacted reasoning", make_request(messages=said(ReasoningPart(text="", provider_metadata=REDACTED), "so"))
    yield (
        "reasoning in a loop",
        make_request(
            messages=[
                user("go"),
                assistant(signed, signed, "so", call(provider_metadata=CALLED), call("call_2")),
                tool_result("call_1", "get_weather", "sunny"),
                tool_result("call_2", "get_weather", "sunny"),
                assistant(signed, "done"),
                user("thanks"),
            ],
            tools=[WEATHER],
        ),
    )
    phased = TextPart(text="hm", provider_metadata={"openai": {"phase": "commentary"}})
    told = TextPart(text="so", provider_metadata={**SIGNED, "openai": {"phase": "final_answer"}})
    yield "phases", make_request(messages=said(phased, told))

    now = update("The time is <12:00> & counting.")
    yield "update first", make_request(system="rules", messages=[now, user("hi")])
    yield "update last", make_request(messages=[user("hi"), now])
    yield "update before an answer", make_request(messages=[user("hi"), now, assistant("yes"), user("so")])
    yield "update after an answer", make_request(messages=[user("hi"), assistant("yes"), now, user("so")])
    yield "two updates", make_request(messages=[user("hi"), now, now, assistant("yes"), now, now])
    yield (
        "update after results",
        make_request(messages=[*answered(values["items"]).messages, now, assistant("ok"), user("so")], tools=[WEATHER]),
    )
    yield "update after an image", make_request(messages=[user(image()), now])

    controls = Generation(
        max_tokens=2000,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        seed=7,
        stop=("END", "STOP"),
    )
    yield "controls", make_request(prompt="hi", generation=controls)
    yield "whole numbers", make_request(prompt="hi", generation=Generation(temperature=1, top_p=0))

    hour, short = CacheHint(ttl_seconds=3600), CacheHint(ttl_seconds=300)
    for name, policy in {"default": None, "none": NO_CACHE, "hour": CachePolicy(ttl_seconds=3600)}.items():
        yield (
            f"cache {name}",
            make_request(
                system=["a", "b"],
                messages=[*answered("sunny", values["items"]).messages, user("look", image())],
                tools=TOOLS,
                cache=policy,
            ),
        )
    yield (
        "cache hints",
        make_request(
            system=[SystemPart(text="a", cache=hour), "b"],
            messages=[
                user(TextPart(text="x", cache=short)),
                assistant(TextPart(text="y", cache=short), call()),
                Message(
                    role="tool",
                    content=(
                        ToolResultPart(
                            id="call_1", name="get_weather", result=ToolResult(type="text", value="z"), cache=short
                        ),
                    ),
                ),
            ],
            tools=[ToolDefinition(name="a", description="b", input_schema={"type": "object"}, cache=hour), WEATHER],
            cache=NO_CACHE,
        ),
    )


def options(protocol: str) -> Iterator[tuple[str, Request]]:
    """What only some can express, or each in its own way."""
    yield "structured answer", make_request(prompt="hi", response_format=ANSWER)
    for name, schema in FORMATS.items():
        yield from formats(protocol, name, schema)
    if protocol != "openai-chat":
        pdf = MediaPart(media_type="application/pdf", data=PDF, filename="a_b.pdf")
        yield "pdf", make_request(messages=[user("read", pdf, pdf), assistant("yes"), user(pdf)])
    match protocol:
        case "openai-chat":
            yield from _chat()
        case "openai-responses":
            yield from _responses()
        case "anthropic-messages":
            yield from _anthropic()
        case "gemini":
            yield from _gemini()
        case "bedrock-converse":
            yield from _bedrock()


def formats(protocol: str, name: str, schema: dict[str, Any]) -> Iterator[tuple[str, Request]]:
    """LLM-427, LLM-430: in each way of asking."""
    model = Model("m", "p", Route("r", PROTOCOLS[protocol], "https://example.org"))
    able = model.replace(capabilities=Capabilities(native_json=True, native_json_with_tools=True))
    for way, asked in {
        "json mode": AnswerFormat(schema).ask(able, [WEATHER]),
        "tool": AnswerFormat(schema).ask(model, [WEATHER]),
        "only tool": AnswerFormat(schema).ask(model, []),
        "free tool": AnswerFormat(schema).ask(model, [WEATHER], refused={"forced"}),
    }.items():
        yield (
            f"format {name} {way}",
            make_request(
                prompt="hi",
                tools=[*([] if way == "only tool" else [WEATHER]), *([asked.tool] if asked.tool else [])],
                tool_choice=asked.tool_choice,
                response_format=asked.response_format,
            ),
        )


def asked(namespace: str, http: dict[str, Any] | None = None, **given: Any) -> Request:
    return make_request(prompt="hi", provider_options={namespace: given}, http=HttpOverlay(body=http) if http else None)


def _chat() -> Iterator[tuple[str, Request]]:
    for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max"):
        yield f"effort {effort}", asked("openai", reasoningEffort=effort, store=True)
    overlay = {"parallel_tool_calls": False, "metadata": {"a": "b"}, "user": "me", "service_tier": "flex"}
    yield "overlay", asked("openai", overlay)
    yield (
        "openrouter",
        asked(
            "openrouter",
            usage=True,
            reasoning={"max_tokens": 1000},
            promptCacheKey="session",
            provider={"order": ["anthropic"]},
            models=["a/b"],
            transforms=["middle-out"],
            plugins=[{"id": "web"}],
        ),
    )


def _responses() -> Iterator[tuple[str, Request]]:
    for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max"):
        yield f"effort {effort}", asked("openai", reasoningEffort=effort)
    for summary in ("auto", "concise", "detailed"):
        yield f"summary {summary}", asked("openai", reasoningSummary=summary)
    for verbosity in ("low", "medium", "high"):
        yield f"verbosity {verbosity}", asked("openai", textVerbosity=verbosity)
    for tier in ("auto", "default", "flex", "priority"):
        yield f"tier {tier}", asked("openai", serviceTier=tier)
    included = (
        *("file_search_call.results", "web_search_call.results", "web_search_call.action.sources"),
        *("message.input_image.image_url", "computer_call_output.output.image_url", "code_interpreter_call.outputs"),
        *("reasoning.encrypted_content", "message.output_text.logprobs"),
    )
    yield "options", asked("openai", include=included, instructions="Be brief.", promptCacheKey="session")
    yield "overlay", asked("openai", {"parallel_tool_calls": False, "metadata": {"a": "b"}, "truncation": "auto"})
    kept = {"openai": {"itemId": "ws_1"}}
    searched = ToolCallPart(id="ws_1", name="web_search", input={"query": "x"}, provider_executed=True)
    for type in ("json", "error"):
        result = ToolResult(type=type, value={"id": "ws_1"})
        found = ToolResultPart(
            id="ws_1", name="web_search", result=result, provider_executed=True, provider_metadata=kept
        )
        yield f"hosted {type}", make_request(messages=said("Looking.", searched, found, "Found."))
    pdf = {"type": "file", "uri": f"data:application/pdf;base64,{PDF}", "mime": "application/pdf"}
    yield "pdf in a result", answered(ToolResult(type="content", value=[pdf, FILE]))


def _anthropic() -> Iterator[tuple[str, Request]]:
    for effort in ("low", "medium", "high", "xhigh", "max"):
        yield f"effort {effort}", asked("anthropic", effort=effort)
    for thinking in (
        {"type": "enabled", "budgetTokens": 1024},
        {"type": "adaptive"},
        {"type": "adaptive", "display": "summarized"},
        {"type": "adaptive", "display": "omitted"},
        {"type": "disabled"},
    ):
        yield f"thinking {thinking}", asked("anthropic", thinking=thinking)
    yield "overlay", asked("anthropic", {"metadata": {"user_id": "me"}, "service_tier": "auto"})
    yield (
        "pdf in a result",
        answered(
            ToolResult(
                type="content",
                value=[{"type": "file", "uri": f"data:application/pdf;base64,{PDF}", "mime": "application/pdf"}],
            )
        ),
    )
    for name, value in HOSTED.items():
        failed = isinstance(value, dict) and value["type"].endswith("_error")
        parts = (
            ToolCallPart(id="srvtoolu_1", name=name.partition(" ")[0], input={"query": "x"}, provider_executed=True),
            ToolResultPart(
                id="srvtoolu_1",
                name=name.partition(" ")[0],
                result=ToolResult(type="error" if failed else "json", value=value),
                provider_executed=True,
                provider_metadata=BLOCK_TYPES.get(name),
            ),
        )
        yield f"hosted {name}", make_request(messages=said("Looking.", *parts, "Found."))
        yield (
            f"update after hosted {name}",
            make_request(messages=[user("go"), assistant(parts[0]), update("now"), assistant("Found."), user("so")]),
        )


BLOCK_TYPES = {"bash_code_execution": {"anthropic": {"blockType": "bash_code_execution_tool_result"}}}
HOSTED: dict[str, Any] = {
    "web_search": [
        {
            "type": "web_search_result",
            "url": "https://a.example",
            "title": "A",
            "encrypted_content": "c2ln",
            "page_age": None,
        }
    ],
    "web_search failed": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
    "code_execution": {
        "type": "code_execution_result",
        "stdout": "1",
        "stderr": "",
        "return_code": 0,
        "content": [{"type": "code_execution_output", "file_id": "file_1"}],
    },
    "web_fetch": {
        "type": "web_fetch_result",
        "url": "https://a.example",
        "retrieved_at": "2026-01-01T00:00:00Z",
        "content": {
            "type": "document",
            "title": "A",
            "source": {"type": "text", "media_type": "text/plain", "data": "text"},
        },
    },
    "bash_code_execution": {
        "type": "bash_code_execution_result",
        "stdout": "1",
        "stderr": "",
        "return_code": 0,
        "content": [],
    },
}


def _gemini() -> Iterator[tuple[str, Request]]:
    for kind in (
        *("video/mp4", "video/webm", "video/quicktime"),
        *("audio/wav", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"),
    ):
        yield kind, make_request(messages=[user("hear", MediaPart(media_type=kind, data=PNG))])
    yield "thinking budget", asked("gemini", thinkingConfig={"thinkingBudget": 1024, "includeThoughts": True})
    for level in ("minimal", "low", "medium", "high"):
        yield f"thinking level {level}", asked("gemini", thinkingConfig={"thinkingLevel": level})
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    yield "overlay", asked("gemini", {"safetySettings": safety, "cachedContent": "cachedContents/1"})
    yield "combined schemas", make_request(prompt="hi", tools=[COMBINED])


def _bedrock() -> Iterator[tuple[str, Request]]:
    words = "vnd.openxmlformats-officedocument"
    for kind in (
        *("text/csv", "text/html", "text/plain", "text/markdown", "application/msword", "application/vnd.ms-excel"),
        *(f"application/{words}.wordprocessingml.document", f"application/{words}.spreadsheetml.sheet"),
    ):
        part = MediaPart(media_type=kind, data=PDF, filename="ä_ö.v1.x" * 40)
        yield kind, make_request(messages=[user(part, part)])
    for thinking in ({"type": "enabled", "budgetTokens": 1024}, {"type": "adaptive"}, {"type": "disabled"}):
        yield f"thinking {thinking}", asked("bedrock", thinking=thinking)
    overlay = {
        "guardrailConfig": {"guardrailIdentifier": "abc", "guardrailVersion": "1"},
        "performanceConfig": {"latency": "optimized"},
        "requestMetadata": {"a": "b"},
        "additionalModelRequestFields": {"anthropic_beta": ["x"]},
    }
    yield "overlay", asked("bedrock", overlay, additionalModelRequestFields={"a": 1})


@cache
def requests_for(protocol: str) -> dict[str, Request]:
    return {**dict(everywhere()), **dict(options(protocol))}


CASES = [(model, name) for model in MODELS for name in requests_for(protocol_of(MODELS[model]))]


@cache
def encoded(model: str, name: str) -> bytes:
    return prepare(MODELS[model], requests_for(protocol_of(MODELS[model]))[name]).body


def settled(body: bytes, known: list[Known]) -> bytes:
    value = decode_any(body)
    for item in known:
        item.settle(value)
    return encode(value)


def complaints(protocol: str, body: bytes, *, without: Known | None = None) -> list[str]:
    known = [item for item in KNOWN if item.protocol == protocol and item is not without]
    return VALIDATORS[protocol](settled(body, known))


# -- tests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_a_body_is_what_the_vendor_describes(model: str) -> None:
    """LLM-221 to LLM-226, LLM-241 to LLM-245, LLM-260 to LLM-265, LLM-281 to LLM-283, LLM-288, LLM-292, LLM-293"""
    protocol = protocol_of(MODELS[model])
    refused = {name: complaints(protocol, encoded(model, name)) for name in requests_for(protocol)}
    assert {name: found for name, found in refused.items() if found} == {}


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(additions=conversations())
def test_any_conversation_fits_the_official_request_types(model: str, additions: list[list[Message]]) -> None:
    """LLM-224, LLM-243, LLM-261, LLM-286, LLM-300"""
    for body in requests_of(MODELS[model], additions):
        assert complaints(protocol_of(MODELS[model]), body) == []


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known.protocol} {known.path} {known.when}")
def test_each_known_disagreement_is_one(known: Known) -> None:
    """Were it not listed, some body here would be refused; so none is listed that the vendor has settled since."""
    bodies = [encoded(model, name) for model, name in CASES if protocol_of(MODELS[model]) == known.protocol]
    needing = [body for body in bodies if known.settle(decode_any(body))]
    assert any(complaints(known.protocol, body, without=known) for body in needing)


@pytest.mark.parametrize(
    ("protocol", "members"),
    [
        (
            "openai-chat",
            "model messages tools tool_choice stream stream_options store reasoning_effort max_tokens "
            "max_completion_tokens temperature top_p frequency_penalty presence_penalty seed stop response_format",
        ),
        (
            "openai-responses",
            "model input instructions tools tool_choice stream store service_tier prompt_cache_key include reasoning "
            "text max_output_tokens temperature top_p",
        ),
        (
            "anthropic-messages",
            "model system messages tools tool_choice stream max_tokens temperature top_p top_k stop_sequences thinking "
            "output_config",
        ),
        ("gemini", "contents systemInstruction tools toolConfig generationConfig"),
        (
            "bedrock-converse",
            "modelId messages system inferenceConfig toolConfig additionalModelRequestFields outputConfig",
        ),
    ],
)
def test_the_requests_here_use_every_member_that_we_send(protocol: str, members: str) -> None:
    """LLM-221, LLM-241, LLM-260, LLM-281, LLM-292: else nothing would be proved of those they do not use."""
    used = {
        key
        for model, name in CASES
        if protocol_of(MODELS[model]) == protocol
        for key in decode_any(encoded(model, name))
    }
    assert set(members.split()) <= used


# -- the validators themselves -------------------------------------------------------------------------------------

FREE = ("input_schema", "parameters", "inputSchema", "input", "args", "response", "json")
SAMPLES = {
    "openai-chat": "chat",
    "openai-responses": "responses",
    "anthropic-messages": "claude",
    "gemini": "gemini",
    "bedrock-converse": "bedrock",
}


def sample(protocol: str) -> Any:
    """A body with something of everything, to be spoilt."""
    known = [item for item in KNOWN if item.protocol == protocol]
    return decode_any(settled(encoded(SAMPLES[protocol], "update after results"), known))


def objects(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where there is an object, except inside what is free JSON for the vendor too."""
    if isinstance(value, dict):
        yield path
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in below:
        if not is_free(path, key):
            yield from objects(item, (*path, key))


def is_free(path: tuple[str | int, ...], key: str | int) -> bool:
    """A tool's schema, the arguments of a call, a structured result. Responses has its items in a member `input`."""
    return key in FREE and bool(path)


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


@pytest.mark.parametrize("protocol", VALIDATORS)
def test_a_validator_refuses_an_unknown_member_at_every_depth(protocol: str) -> None:
    body = sample(protocol)
    assert VALIDATORS[protocol](encode(body)) == []
    places = list(objects(body))
    assert max(map(len, places)) >= 4
    for path in places:
        spoilt = copy.deepcopy(body)
        at(spoilt, path)["surplus"] = 1
        assert VALIDATORS[protocol](encode(spoilt)), path


@pytest.mark.parametrize("protocol", VALIDATORS)
def test_a_validator_refuses_a_wrong_type_at_every_depth(protocol: str) -> None:
    body = sample(protocol)
    for path in objects(body):
        for key in at(body, path):
            if is_free(path, key):
                continue
            spoilt = copy.deepcopy(body)
            at(spoilt, path)[key] = [[7]]
            assert VALIDATORS[protocol](encode(spoilt)), (*path, key)
