"""The same conversation in the words of each provider protocol: what the provider receives, and what is made of its
answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from PIL import Image
from tests.outside.dialects import sse
from tests.outside.scripted_provider import Call, Request, Turn, calling
from tests.outside.world import World, answer, answers, ask, newest, text_of, tools_of, types

from holdfast import ModelRef
from holdfast.schema.session_message import ReasoningPart, ToolCompleted, ToolError

pytestmark = pytest.mark.anyio

CHAT, RESPONSES = "@ai-sdk/openai-compatible", "@ai-sdk/openai"
ANTHROPIC, GEMINI = "@ai-sdk/anthropic", "@ai-sdk/google"
TWO_READS = Turn(
    reasoning="I will look",
    text="Looking.",
    calls=(Call("read", {"path": "hello.txt"}, id="call_a"), Call("read", {"path": "absent.txt"}, id="call_b")),
)


def speaks(world: World, npm: str, name: str = "m", **model: Any) -> None:
    """The scripted model, in that protocol."""
    provider = {**world.provider(npm), "models": {name: {"tool_call": True, **model}}}
    world.configure(model=f"mock/{name}", provider={"mock": provider})


async def conversation(world: World) -> tuple[Request, Request]:
    """The requests before and after two calls of one turn."""
    world.model.plays(TWO_READS, Turn(text="Read."))
    async with world.host() as hf:
        session = await hf.sessions.create()
        message = await answer(hf, session, "Read both.")
        first, _ = answers(await hf.sessions.context(session.id))
        assert text_of(message) == "Read."
        thought = first.content[0]
        assert isinstance(thought, ReasoningPart)
        assert (thought.text, text_of(first), first.finish) == ("I will look", "Looking.", "tool-calls")
        well, failed = (part.state for part in tools_of(first))
        assert isinstance(well, ToolCompleted)
        assert isinstance(failed, ToolError)
    one, two = world.model.requests
    assert (one.method, one.headers["content-type"]) == ("POST", "application/json")
    return one, two


async def test_the_last_step_keeps_the_tool_list_where_a_history_with_calls_needs_it(world: World) -> None:
    """SES-083, LLM-172: Anthropic refuses calls in the history without a list of tools; the choice forbids new ones."""
    agents = {"short": {"steps": 2, "mode": "primary"}}
    world.configure(provider={"mock": world.provider(ANTHROPIC)}, agents=agents)
    world.model.plays(calling("read", path="hello.txt"), Turn(text="Read."))
    async with world.host(unattended="allow") as hf:
        await ask(hf, await hf.sessions.create(agent="short"), "go")
    first, last = world.model.requests
    assert last.body["tools"] == first.body["tools"]
    assert last.body["tool_choice"] == {"type": "none"}


async def test_a_tool_loop_over_chat_completions_sends_one_tool_message_per_result(world: World) -> None:
    """LLM-240, LLM-241, LLM-242, LLM-243, LLM-246, LLM-164, LLM-165, LLM-211, LLM-360, CAT-120: one system message
    first; calls with compact arguments; one tool message per result; bearer key."""
    speaks(world, CHAT)
    one, two = await conversation(world)
    assert one.path == "/v1/chat/completions"
    assert one.headers["authorization"] == "Bearer sk-scripted"
    assert (one.body["model"], one.body["stream"], one.body["stream_options"]) == ("m", True, {"include_usage": True})
    assert {"tool_choice", "temperature", "store", "prompt_cache_key"}.isdisjoint(one.body)
    system, user, assistant, *results = two.body["messages"]
    assert (system["role"], user) == ("system", {"role": "user", "content": "Read both."})
    assert (assistant["role"], assistant["content"]) == ("assistant", "Looking.")
    assert [call["id"] for call in assistant["tool_calls"]] == ["call_a", "call_b"]
    assert assistant["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path":"hello.txt"}'}
    assert [result["tool_call_id"] for result in results] == ["call_a", "call_b"]
    assert results[1]["content"].startswith('{"error":"')
    assert b"cache_control" not in two.raw
    assert "strict" not in str(two.body["tools"])
    assert all(tool["function"]["parameters"]["type"] == "object" for tool in two.body["tools"])


async def test_a_tool_loop_over_responses_stores_nothing_at_the_provider(world: World) -> None:
    """LLM-045, LLM-046, LLM-167, LLM-216, LLM-260, LLM-261, LLM-262, LLM-263, LLM-266, LLM-267, LLM-140, SES-097,
    SES-158, CAT-120: nothing is stored at the provider; sealed reasoning goes back without its id, the last seal; order
    inside an answer is kept; the cache key is the Session."""
    speaks(world, RESPONSES, "gpt-5.1")
    one, two = await conversation(world)
    assert one.path == "/v1/responses"
    assert one.headers["authorization"] == "Bearer sk-scripted"
    assert one.body["store"] is False
    assert one.body["reasoning"] == {"effort": "medium", "summary": "auto"}
    assert one.body["include"] == ["reasoning.encrypted_content"]
    assert one.body["text"] == {"verbosity": "low"}
    assert one.body["prompt_cache_key"] == one.headers["x-session-id"]
    assert all(tool["strict"] is False for tool in one.body["tools"])
    system, user, reasoning, said, call, other, *outputs = two.body["input"]
    assert system["role"] == "system"
    assert user == {"role": "user", "content": [{"type": "input_text", "text": "Read both."}]}
    assert (reasoning["type"], reasoning["encrypted_content"], "id" in reasoning) == ("reasoning", "sealed", False)
    assert reasoning["summary"] == [{"type": "summary_text", "text": "I will look"}]
    assert said["content"] == [{"type": "output_text", "text": "Looking."}]
    assert [item["call_id"] for item in (call, other)] == ["call_a", "call_b"]
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", "read", '{"path":"hello.txt"}')
    assert [(item["type"], item["call_id"]) for item in outputs] == [
        ("function_call_output", "call_a"),
        ("function_call_output", "call_b"),
    ]


async def test_a_tool_loop_over_anthropic_messages_returns_signed_thinking(world: World) -> None:
    """LLM-041, LLM-210, LLM-211, LLM-214, LLM-215, LLM-217, LLM-220, LLM-221, LLM-222, LLM-223, LLM-224,
    LLM-225, LLM-227, LLM-229, CAT-120: signed thinking goes back; results of parallel calls are one user message; at
    most four cache marks, at the tools, the system text and the newest messages."""
    speaks(world, ANTHROPIC, "claude-sonnet-4-5", limit={"context": 200_000, "output": 8000})
    one, two = await conversation(world)
    assert one.path == "/v1/messages"
    assert (one.headers["x-api-key"], "authorization" in one.headers) == ("sk-scripted", False)
    assert one.headers["anthropic-version"] == "2023-06-01"
    assert (one.body["stream"], one.body["max_tokens"]) == (True, 8000)
    assert all(set(tool) <= {"name", "description", "input_schema", "cache_control"} for tool in one.body["tools"])
    assert "cache_control" in one.body["tools"][-1]
    assert "cache_control" in one.body["system"][-1]
    user, assistant, results = two.body["messages"]
    assert user["content"][0]["text"] == "Read both."
    kinds = [block["type"] for block in assistant["content"]]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert assistant["content"][0] == {"type": "thinking", "thinking": "I will look", "signature": "signed"}
    assert assistant["content"][2]["input"] == {"path": "hello.txt"}
    assert results["role"] == "user"
    assert [(block["type"], block["tool_use_id"]) for block in results["content"]] == [
        ("tool_result", "call_a"),
        ("tool_result", "call_b"),
    ]
    assert [block.get("is_error", False) for block in results["content"]] == [False, True]
    assert "cache_control" in results["content"][-1]
    assert 1 <= two.raw.count(b'"cache_control"') <= 4


async def test_a_tool_loop_over_gemini_returns_signed_calls(world: World) -> None:
    """LLM-280, LLM-281, LLM-283, LLM-284, LLM-286, LLM-169, LLM-171, CAT-121: signed calls go back; all
    results are one content; the schema has only what the API knows."""
    speaks(world, GEMINI, "gemini-2.5-pro")
    one, two = await conversation(world)
    assert one.path == "/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    assert one.headers["x-goog-api-key"] == "sk-scripted"
    assert len(one.body["systemInstruction"]["parts"]) == 1
    declared = one.body["tools"][0]["functionDeclarations"]
    assert "read" in {tool["name"] for tool in declared}
    assert not any(word in str(declared) for word in ("$ref", "$defs", "additionalProperties"))
    (question,) = [tool for tool in declared if tool["name"] == "question"]
    assert "header" in question["parameters"]["properties"]["questions"]["items"]["properties"]
    user, model, results = two.body["contents"]
    assert user == {"role": "user", "parts": [{"text": "Read both."}]}
    assert model["role"] == "model"
    calls = [part for part in model["parts"] if "functionCall" in part]
    assert [(part["functionCall"]["args"], part["thoughtSignature"]) for part in calls] == [
        ({"path": "hello.txt"}, "signed"),
        ({"path": "absent.txt"}, "signed"),
    ]
    assert [part["functionResponse"]["name"] for part in results["parts"]] == ["read", "read"]


@pytest.mark.parametrize(
    ("npm", "usage"),
    [
        (CHAT, {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}),
        (RESPONSES, {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}),
        (ANTHROPIC, {"input_tokens": 6, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0}),
        (GEMINI, {"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 5}),
    ],
)
async def test_usage_means_the_same_whoever_reports_it(world: World, npm: str, usage: dict[str, Any]) -> None:
    """LLM-080, LLM-081, LLM-083, LLM-086, LLM-383: six new tokens and four from the cache."""
    speaks(world, npm)
    world.model.plays(Turn(text="fine", usage=usage))
    async with world.host() as hf:
        message = await answer(hf, await hf.sessions.create())
    assert message.tokens is not None
    assert (message.tokens.input, message.tokens.cache.read) == (6, 4)
    assert message.tokens.output == (3 if npm == ANTHROPIC else 5)


@pytest.mark.parametrize(
    ("npm", "native", "finish"),
    [
        (CHAT, "length", "length"),
        (CHAT, "content_filter", "content-filter"),
        (ANTHROPIC, "max_tokens", "length"),
        (ANTHROPIC, "refusal", "content-filter"),
        (ANTHROPIC, "stop_sequence", "stop"),
        (GEMINI, "MAX_TOKENS", "length"),
        (GEMINI, "SAFETY", "content-filter"),
        (CHAT, "something new", "unknown"),
    ],
)
async def test_why_an_answer_ended_has_one_word(world: World, npm: str, native: str, finish: str) -> None:
    """LLM-100: whatever the provider calls it."""
    speaks(world, npm)
    world.model.plays(Turn(text="so far", finish=native))
    async with world.host() as hf:
        assert (await answer(hf, await hf.sessions.create())).finish == finish


@pytest.mark.parametrize("npm", [CHAT, RESPONSES, ANTHROPIC, GEMINI])
async def test_calls_decide_whether_a_turn_goes_on_not_the_reason(world: World, npm: str) -> None:
    """LLM-101, SES-089: a provider that says `stop` after a call is believed about the call."""
    speaks(world, npm)
    stop = {CHAT: "stop", ANTHROPIC: "end_turn", GEMINI: "STOP"}.get(npm)
    world.model.plays(Turn(calls=(Call("read", {"path": "hello.txt"}),), finish=stop), Turn(text="Read."))
    async with world.host() as hf:
        assert text_of(await answer(hf, await hf.sessions.create())) == "Read."
    assert len(world.model.requests) == 2


async def test_a_call_that_the_provider_carried_out_is_not_carried_out_again(world: World) -> None:
    """LLM-067, LLM-231, SES-089, SES-124, SES-126, TOL-038: it is recorded with its result as it came, and no turn
    follows by itself; the next request shows it to its own provider."""
    speaks(world, ANTHROPIC, "claude-sonnet-4-5")
    found = [{"type": "web_search_result", "url": "https://example.org", "title": "T", "encrypted_content": "x"}]
    result = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": found}
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    raw = sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": use},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"query":"q"}'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": result},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )
    world.model.plays(Turn(raw=raw))
    async with world.host() as hf:
        session = await hf.sessions.create()
        message = await answer(hf, session)
        (part,) = tools_of(message)
        assert part.provider is not None
        assert part.provider.executed
        assert isinstance(part.state, ToolCompleted)
        assert len(world.model.requests) == 1
        await ask(hf, session, "and?")
    blocks = world.model.last.body["messages"][1]["content"]
    assert blocks[0] == {**use, "input": {"query": "q"}}
    assert blocks[1] == result


async def test_a_hosted_call_without_a_result_is_a_failed_one(world: World) -> None:
    """LLM-386, SES-127: a hosted call without a result is a failed one."""
    speaks(world, ANTHROPIC, "claude-sonnet-4-5")
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}}
    raw = sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": use},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )
    world.model.plays(Turn(raw=raw))
    async with world.host() as hf:
        (part,) = tools_of(await answer(hf, await hf.sessions.create()))
    assert isinstance(part.state, ToolError)
    assert part.state.error.message == "Provider did not return a tool result"


async def test_a_stream_is_read_however_it_is_cut_and_spelled(world: World) -> None:
    """LLM-248, LLM-361, LLM-073: other line ends, comments, a mark at the front, unknown fields, a last
    event without its blank line; a frame that is no JSON ends the turn."""
    lines = [
        '\ufeff: a comment\r\nevent: x\r\ndata: {"choices":[{"index":0,"delta":{"content":"one "}}],"odd":1}\r\n\r\n',
        'data: {"choices":[{"index":0,\ndata: "delta":{"content":"two "}}]}\n\n',
        'data: {"choices":[]}\r\rdata:\r\r',
        'data: {"choices":[{"index":0,"delta":{"content":"drei é"},"finish_reason":"stop"}]}',
    ]
    world.model.plays(Turn(raw="".join(lines).encode()), Turn(raw=b"data: {nonsense\n\n"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert text_of(await answer(hf, session)) == "one two drei é"
        assert (await answer(hf, session)).finish == "error"
        assert (await types(hf, session)).count("step.failed") == 1


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {"error": {"message": "bad key sk-scripted"}}, "401"),
        (403, {"error": {"message": "not yours"}}, "403"),
        (402, {"error": {"message": "no credit"}}, "402"),
        (422, {"error": {"message": "a field is wrong", "api_key": "sk-other-secret"}}, "a field is wrong"),
    ],
)
async def test_a_refusal_is_passed_on_without_secrets(world: World, status: int, body: Any, said: str) -> None:
    """LLM-331, LLM-339, TOL-330: its status and words; no key that was sent or that it names; asked
    once."""
    turn = Turn(status=status, raw=json.dumps(body).encode())
    world.model.plays(turn)
    async with world.host() as hf:
        session = await hf.sessions.create()
        message = await answer(hf, session)
        assert message.error is not None
        assert said in message.error.message
        assert "sk-scripted" not in message.error.message
        assert "sk-other-secret" not in message.error.message
        assert message == await newest(hf, session)
    assert len(world.model.requests) == 1


async def test_options_are_sent_in_the_words_of_the_protocol(world: World) -> None:
    """LLM-030, LLM-032, LLM-040, LLM-226, CAT-105, CAT-107, CAT-108, CAT-109, CAT-110, CAT-115: controls,
    options by meaning and extra fields each find their place; agent over variant over model; headers too."""
    variants = {"deep": {"thinking": {"type": "enabled", "budgetTokens": 2000}}}
    options = {"temperature": 0.5, "top_p": 0.9, "custom_field": {"a": 1}}
    provider = world.provider(ANTHROPIC)
    provider["options"]["headers"] = {"X-Team": "one", "X-Both": "provider"}
    model = {"tool_call": True, "options": options, "variants": variants, "headers": {"x-both": "model"}}
    provider["models"] = {"claude-sonnet-4-5": model}
    agents = {"cool": {"mode": "primary", "request": {"body": {"temperature": 0.1, "maxTokens": 77}}}}
    world.configure(model="mock/claude-sonnet-4-5", provider={"mock": provider}, agents=agents)
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "go")
        plain = world.model.last
        await ask(hf, await hf.sessions.create(agent="cool"), "go")
        cool = world.model.last
        deep = ModelRef(id="claude-sonnet-4-5", provider_id="mock", variant="deep")
        await ask(hf, await hf.sessions.create(model=deep), "go")
        thinking = world.model.last.body["thinking"]
    assert (plain.body["temperature"], plain.body["top_p"]) == (0.5, 0.9)
    assert plain.body["custom_field"] == {"a": 1}
    assert (plain.headers["x-team"], plain.headers["x-both"]) == ("one", "model")
    assert (cool.body["temperature"], cool.body["max_tokens"]) == (0.1, 77)
    assert thinking == {"type": "enabled", "budget_tokens": 2000}
    assert "thinking" not in plain.body
    assert "sk-scripted" not in plain.raw.decode()
    assert "apiKey" not in plain.raw.decode()


async def test_a_model_without_eyes_gets_words_for_a_picture(world: World) -> None:
    """LLM-199: a note in its place, and the turn goes on."""
    Image.new("RGB", (4, 3), "red").save(world.project / "p.png")
    world.model.plays(calling("read", path="p.png"))
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "go")
    assert "cannot see images" in world.model.last.results[-1]
