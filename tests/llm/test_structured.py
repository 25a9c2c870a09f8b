"""Answers as values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.offline import BASE_URL, Call, ScriptedTransport, Turn
from holdfast.llm.protocols.anthropic_messages import AnthropicMessages
from holdfast.llm.protocols.base import WireProtocol
from holdfast.llm.protocols.bedrock_converse import BedrockConverse
from holdfast.llm.protocols.gemini import Gemini
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.protocols.openai_responses import OpenAIResponses
from holdfast.llm.request import ToolDefinition, make_request
from holdfast.llm.route.retry import NO_RETRY
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import HttpRequest
from holdfast.llm.stream import prepare
from holdfast.llm.structured import DESCRIPTION, Generated, generate_object
from holdfast.schema.codec import decode_any

pytestmark = pytest.mark.anyio


class City(msgspec.Struct):
    name: str
    people: int


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
}
PARIS = {"name": "Paris", "people": 2_000_000}
MODEL = Model("m", "demo", Route("demo", OpenAIChat(), BASE_URL))
ASK = make_request(prompt="Which city?")


def calling(given: dict[str, Any], text: str | None = None) -> Turn:
    return Turn(text=text, calls=(Call(tool="generate_object", input=given),))


class Listening:
    """Keeps what is sent and answers with nothing."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, request: HttpRequest) -> Any:
        self.sent.append(decode_any(b"".join(request.body)))
        raise LLMError("Transport", "heard enough")

    async def close(self) -> None:
        pass


async def sent(protocol: WireProtocol, kind: Any = City, **options: Any) -> Any:
    """The body of the request."""
    native = options.pop("native", None)
    request = options.pop("request", ASK)
    transport = Listening()
    model = Model("m", "p", Route("r", protocol, "https://example.org"), **options)
    with pytest.raises(LLMError, match="heard enough"):
        await generate_object(transport, model, request, kind, native=native)
    return transport.sent[0]


# -- by a forced call ----------------------------------------------------------------------------------------------


async def test_the_input_of_the_forced_call_is_the_value() -> None:
    """LLM-375, LLM-376: with the response, its usage and its events beside it."""
    transport = ScriptedTransport([calling(PARIS)])
    found: Generated[City] = await generate_object(transport, MODEL, ASK, City)
    assert found.value == City("Paris", 2_000_000)
    assert found.usage is not None
    assert found.usage == found.response.usage
    assert found.response.reason == "tool-calls"
    assert [event.input for event in found.events if isinstance(event, ev.ToolCall)] == [PARIS]


async def test_the_first_call_of_the_structured_tool_counts() -> None:
    """LLM-375: also after one of a tool that does not exist."""
    calls = (
        Call(tool="other", input={}),
        Call(tool="generate_object", input=PARIS),
        Call(tool="generate_object", input={}),
    )
    found = await generate_object(ScriptedTransport([Turn(calls=calls)]), MODEL, ASK, SCHEMA)
    assert found.value == PARIS


CHOICES: dict[str, Any] = {
    "anthropic-messages": lambda body: body["tool_choice"] == {"type": "tool", "name": "generate_object"},
    "openai-chat": lambda body: body["tool_choice"] == {"type": "function", "function": {"name": "generate_object"}},
    "openai-responses": lambda body: body["tool_choice"] == {"type": "function", "name": "generate_object"},
    "gemini": lambda body: (
        body["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["generate_object"]}
    ),
    "bedrock-converse": lambda body: body["toolConfig"]["toolChoice"] == {"tool": {"name": "generate_object"}},
}


@pytest.mark.parametrize(
    "protocol",
    [AnthropicMessages(), OpenAIChat(), OpenAIResponses(), Gemini(), BedrockConverse()],
    ids=lambda protocol: protocol.id,
)
async def test_every_protocol_is_forced_to_one_tool(protocol: WireProtocol) -> None:
    """LLM-375: whatever tools and choice the request had."""
    other = ToolDefinition(name="other", description="", input_schema={"type": "object"})
    request = make_request(prompt="Which city?", tools=[other], tool_choice="none")
    body = await sent(protocol, request=request)
    assert CHOICES[protocol.id](body)
    written = msgspec.json.encode(body)
    assert written.count(DESCRIPTION.encode()) == 1
    assert b'"other"' not in written
    assert b"response_format" not in written


async def test_claude_does_not_think_while_it_is_forced() -> None:
    """LLM-377: whoever switched it on; in the native mode it may."""
    thinking: dict[str, Any] = {"anthropic": {"thinking": {"type": "enabled", "budgetTokens": 2000}, "effort": "high"}}
    by_model = await sent(AnthropicMessages(), provider_options=thinking)
    by_request = await sent(AnthropicMessages(), request=make_request(prompt="?", provider_options=thinking))
    assert "thinking" not in by_model
    assert "thinking" not in by_request
    assert by_request["output_config"] == {"effort": "high"}
    free = await sent(AnthropicMessages(), provider_options=thinking, native=True)
    assert free["thinking"] == {"type": "enabled", "budget_tokens": 2000}


async def test_no_call_is_an_error_that_names_the_tool() -> None:
    """LLM-376"""
    with pytest.raises(LLMError, match="did not call generate_object") as failed:
        await generate_object(ScriptedTransport([Turn(text="Paris, I think.")]), MODEL, ASK, City)
    assert failed.value.reason == "InvalidProviderOutput"
    assert failed.value.raw == "Paris, I think."
    assert failed.value.usage is not None


async def test_input_that_does_not_fit_is_an_error_that_says_why() -> None:
    """LLM-376, LLM-377: for a type and for a raw schema alike."""
    wrong = {"name": "Paris", "people": -1}
    with pytest.raises(LLMError, match=r"Expected `int`, got `str` - at `\$\.people`") as failed:
        await generate_object(ScriptedTransport([calling({"name": "P", "people": "many"})]), MODEL, ASK, City)
    assert failed.value.reason == "InvalidProviderOutput"
    with pytest.raises(LLMError, match=r"\$\.people: is less than 0") as failed:
        await generate_object(ScriptedTransport([calling(wrong)]), MODEL, ASK, SCHEMA)
    assert failed.value.reason == "InvalidProviderOutput"


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (list[int], {"value": [1, 2]}, [1, 2]),
        (City | None, {"value": None}, None),
        (City | None, {"value": PARIS}, City("Paris", 2_000_000)),
        ({"type": "array", "items": {"type": "string"}}, {"value": ["a"]}, ["a"]),
        ({"type": "object", "anyOf": [SCHEMA, {"type": "object"}]}, {"value": {}}, {}),
    ],
)
async def test_a_value_that_is_no_object_is_wrapped_in_one(kind: Any, given: dict[str, Any], value: Any) -> None:
    """LLM-375: the input of a tool is always an object."""
    transport = ScriptedTransport([calling(given), calling({"other": 1})])
    assert (await generate_object(transport, MODEL, ASK, kind)).value == value
    parameters = transport.requests[0]["tools"][0]["function"]["parameters"]
    assert (parameters["type"], parameters["required"]) == ("object", ["value"])
    with pytest.raises(LLMError, match="'value' is missing"):
        await generate_object(transport, MODEL, ASK, kind)


async def test_references_still_lead_somewhere_in_the_wrapper() -> None:
    """LLM-375"""
    body = await sent(Gemini(), list[City])
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared["parameters"]["properties"]["value"]["items"]["properties"] == {
        "name": {"type": "string"},
        "people": {"type": "integer"},
    }


class Frames:
    """A Chat stream of these chunks."""

    def __init__(self, *chunks: dict[str, Any]) -> None:
        self.status = 200
        self.headers = {"content-type": "text/event-stream"}
        self._chunks = chunks

    async def send(self, request: HttpRequest) -> Frames:
        return self

    def release(self) -> None:
        pass

    async def chunks(self) -> AsyncIterator[bytes]:
        for item in self._chunks:
            yield b"data: " + msgspec.json.encode(item) + b"\n\n"

    async def close(self) -> None:
        pass


async def test_arguments_that_are_not_json() -> None:
    """LLM-376, LLM-162"""
    function = {"name": "generate_object", "arguments": '{"name":'}
    call = {"index": 0, "id": "c", "function": function}
    transport = Frames({"choices": [{"delta": {"tool_calls": [call]}}]}, {"choices": [{"finish_reason": "tool_calls"}]})
    with pytest.raises(LLMError, match="not a JSON object") as failed:
        await generate_object(transport, MODEL, ASK, City)
    assert (failed.value.reason, failed.value.raw) == ("InvalidProviderOutput", '{"name":')


async def test_a_provider_that_fails_says_so_itself() -> None:
    """LLM-342: its own reason, not that of a missing answer."""
    transport = Frames({"error": {"message": "slow down", "code": "rate_limit_exceeded"}})
    with pytest.raises(LLMError, match="slow down") as failed:
        await generate_object(transport, MODEL, ASK, City, repair=True, retry=NO_RETRY)
    assert (failed.value.reason, failed.value.retryable) == ("RateLimit", True)


# -- repair --------------------------------------------------------------------------------------------------------


async def test_a_wrong_structured_answer_is_repaired_once() -> None:
    """LLM-377: the model sees its own call and what was wrong with it; the bill is for both."""
    transport = ScriptedTransport([calling({"name": "Paris"}, "Well."), calling(PARIS, "Well, then.")])
    found = await generate_object(transport, MODEL, ASK, City, repair=True)
    assert found.value == City("Paris", 2_000_000)
    first, second = transport.requests
    assert second["messages"][:1] == first["messages"]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"name":"Paris"}'
    assert "missing required field `people`" in second["messages"][2]["content"]
    assert second["tool_choice"] == first["tool_choice"]
    assert len(found.rounds) == 2
    assert found.usage is not None
    assert found.usage.output == 3
    assert sum(isinstance(event, ev.Finish) for event in found.events) == 2


async def test_every_call_of_the_first_round_gets_an_answer() -> None:
    """LLM-377: a call without a result would be refused."""
    calls = (Call(tool="generate_object", input={}), Call(tool="other", input={}))
    transport = ScriptedTransport([Turn(calls=calls), calling(PARIS)])
    assert (await generate_object(transport, MODEL, ASK, City, repair=True)).value.name == "Paris"
    assert [message["role"] for message in transport.requests[1]["messages"]] == ["user", "assistant", "tool", "tool"]


async def test_a_round_without_a_call_is_repaired_too() -> None:
    """LLM-377: also one without any output."""
    for text in ("Paris!", None):
        transport = ScriptedTransport([Turn(text=text), calling(PARIS)])
        assert (await generate_object(transport, MODEL, ASK, City, repair=True)).value.name == "Paris"
        assert transport.requests[1]["messages"][-1] == {
            "role": "user",
            "content": "Give the result by calling the tool generate_object.",
        }


async def test_there_is_no_second_repair_and_none_unasked() -> None:
    """LLM-377"""
    transport = ScriptedTransport([calling({}), calling({}), calling(PARIS)])
    with pytest.raises(LLMError, match="missing required field"):
        await generate_object(transport, MODEL, ASK, City, repair=True)
    assert len(transport.requests) == 2
    transport = ScriptedTransport([calling({}), calling(PARIS)])
    with pytest.raises(LLMError, match="missing required field"):
        await generate_object(transport, MODEL, ASK, City)
    assert len(transport.requests) == 1


# -- the provider's own mode ---------------------------------------------------------------------------------------


async def test_the_native_form_of_each_protocol() -> None:
    """LLM-377"""
    other = ToolDefinition(name="other", description="", input_schema={"type": "object"})
    request = make_request(prompt="Which city?", tools=[other], tool_choice="required")
    chat = await sent(OpenAIChat(), SCHEMA, native=True, request=request)
    closed = {**SCHEMA, "additionalProperties": False}
    strict = {"name": "generate_object", "schema": closed, "strict": True}
    assert chat["response_format"] == {"type": "json_schema", "json_schema": strict}
    responses = await sent(OpenAIResponses(), SCHEMA, native=True, request=request)
    assert responses["text"] == {"format": {"type": "json_schema", **strict}}
    anthropic = await sent(AnthropicMessages(), SCHEMA, native=True, request=request)
    people = {"type": "integer", "description": "(minimum: 0)"}
    hinted = {**closed, "properties": {"name": {"type": "string"}, "people": people}}
    assert anthropic["output_config"] == {"format": {"type": "json_schema", "schema": hinted}}
    gemini = await sent(Gemini(), SCHEMA, native=True, request=request)
    assert gemini["generationConfig"] == {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    bedrock = await sent(BedrockConverse(), SCHEMA, native=True, request=request)
    text = bedrock["outputConfig"]["textFormat"]
    assert (text["type"], text["structure"]["jsonSchema"]["name"]) == ("json_schema", "generate_object")
    assert decode_any(text["structure"]["jsonSchema"]["schema"]) == hinted
    for body in (chat, responses, anthropic, gemini, bedrock):
        assert not {"tools", "tool_choice", "toolConfig"} & set(body)


async def test_a_schema_that_the_json_mode_cannot_express_is_asked_for_by_a_call() -> None:
    """LLM-377, LLM-427"""
    free = {"type": "object", "properties": {"any": {"type": "object"}}}
    body = await sent(AnthropicMessages(), free, native=True)
    assert "output_config" not in body
    assert CHOICES["anthropic-messages"](body)


def test_a_response_format_needs_a_schema() -> None:
    """LLM-006"""
    with pytest.raises(LLMError, match="has a schema") as refused:
        prepare(MODEL, make_request(prompt="?", response_format={"type": "json"}))
    assert refused.value.reason == "InvalidRequest"


async def test_the_model_decides_unless_told() -> None:
    """LLM-377"""
    able = Capabilities(native_json=True)
    assert "response_format" in await sent(OpenAIChat(), capabilities=able)
    assert "response_format" not in await sent(OpenAIChat(), capabilities=able, native=False)
    assert "response_format" not in await sent(OpenAIChat())


async def test_the_text_of_a_native_answer_is_the_value() -> None:
    """LLM-377: checked like any other; what does not fit may be repaired."""
    good, bad = Turn(text='{"name":"Paris","people":3}'), Turn(text='{"name":"Paris"}')
    found = await generate_object(ScriptedTransport([good]), MODEL, ASK, City, native=True)
    assert found.value == City("Paris", 3)
    transport = ScriptedTransport([bad, good])
    found = await generate_object(transport, MODEL, ASK, City, native=True, repair=True)
    assert found.value == City("Paris", 3)
    assert [message["role"] for message in transport.requests[1]["messages"]] == ["user", "assistant", "user"]
    assert "missing required field `people`" in transport.requests[1]["messages"][2]["content"]
    for text, complaint in (("Paris", "not JSON"), ("[1]", "not a JSON object"), ('{"name":1}', "Expected `str`")):
        with pytest.raises(LLMError, match=complaint) as failed:
            await generate_object(ScriptedTransport([Turn(text=text)]), MODEL, ASK, City, native=True)
        assert failed.value.reason == "InvalidProviderOutput"
