"""Prompt caching: where markers go by themselves, where they are asked for, and how many."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.support import (
    PNG,
    WEATHER,
    body,
    chat_model,
    claude,
    conversations,
    replace_capabilities,
)

from holdfast.llm.request import (
    NO_CACHE,
    CacheHint,
    CachePolicy,
    MediaPart,
    Message,
    ReasoningPart,
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
from holdfast.llm.route.route import Route
from holdfast.llm.stream import prepare
from holdfast.schema.codec import decode_any

CLAUDE = claude()
PLAIN = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
IMAGE = MediaPart(media_type="image/png", data=PNG)


def marked(sent: Any) -> dict[str, Any]:
    """Every marker of a body by where it is."""
    found: dict[str, Any] = {}
    for key in ("tools", "system"):
        for at, item in enumerate(sent.get(key, ())):
            if "cache_control" in item:
                found[f"{key}.{at}"] = item["cache_control"]
    for at, message in enumerate(sent["messages"]):
        if not isinstance(message["content"], list):
            continue
        for place, block in enumerate(message["content"]):
            if "cache_control" in block:
                found[f"{at}.{place}"] = block["cache_control"]
    return found


def loop(turns: int) -> list[Message]:
    """A conversation that is mostly tools."""
    messages = [user("go")]
    for number in range(turns):
        messages += [
            assistant(ToolCallPart(id=f"c{number}", name="get_weather", input={})),
            tool_result(f"c{number}", "get_weather", number),
        ]
    return messages


# -- by themselves ---------------------------------------------------------------------------------------------------


def test_the_last_tool_the_last_system_part_and_the_newest_messages() -> None:
    """LLM-210, LLM-215"""
    request = make_request(
        system=["one", "two"],
        messages=[user("a"), assistant("b"), user("c")],
        tools=[ToolDefinition(name="first", description="", input_schema={}), WEATHER],
    )
    assert marked(body(CLAUDE, request)) == {"tools.1": PLAIN, "system.1": PLAIN, "0.0": PLAIN, "2.0": PLAIN}


def test_in_a_loop_one_marker_moves_on_and_one_stays_where_the_last_request_had_it() -> None:
    """LLM-217: otherwise the growing tail would never be read from the cache."""
    before = marked(body(CLAUDE, make_request(messages=loop(3))))
    after = marked(body(CLAUDE, make_request(messages=loop(4))))
    newest = max(before, key=lambda place: int(place.split(".")[0]))
    assert newest == "6.0"
    assert newest in after
    assert set(after) == {"6.0", "8.0"}


def test_the_last_text_is_marked_or_else_the_last_block() -> None:
    """LLM-212"""
    assert marked(body(CLAUDE, make_request(messages=[user("a", IMAGE)]))) == {"0.0": PLAIN}
    assert marked(body(CLAUDE, make_request(messages=[user(IMAGE, IMAGE)]))) == {"0.1": PLAIN}
    assert marked(body(CLAUDE, make_request(messages=[user("a", IMAGE, "b")]))) == {"0.2": PLAIN}


def test_a_policy_of_none_places_nothing_but_hints_still_go_out() -> None:
    """LLM-210, LLM-212"""
    hint = CacheHint()
    request = make_request(
        system=[SystemPart(text="a", cache=hint), SystemPart(text="b")],
        messages=[user(TextPart(text="c", cache=hint)), user("d")],
        tools=[WEATHER],
        cache=NO_CACHE,
    )
    assert marked(body(CLAUDE, request)) == {"system.0": PLAIN, "0.0": PLAIN}
    assert marked(body(CLAUDE, make_request(system="a", prompt="b", tools=[WEATHER], cache=NO_CACHE))) == {}


@pytest.mark.parametrize(
    ("policy", "places"),
    [
        (CachePolicy(tools=False), {"system.0", "0.0", "2.0"}),
        (CachePolicy(system=False), {"tools.0", "0.0", "2.0"}),
        (CachePolicy(messages=0), {"tools.0", "system.0"}),
        (CachePolicy(messages=1), {"tools.0", "system.0", "2.0"}),
        (CachePolicy(tools=False, system=False, messages=3), {"0.0", "2.0"}),
    ],
)
def test_a_policy_chooses_the_places(policy: CachePolicy, places: set[str]) -> None:
    """LLM-210"""
    messages = [user("a"), assistant("b"), user("c")]
    sent = body(CLAUDE, make_request(system="s", tools=[WEATHER], messages=messages, cache=policy))
    assert set(marked(sent)) == places


def test_a_cache_lifetime_is_five_minutes_or_an_hour() -> None:
    """LLM-213"""
    for seconds, control in ((None, PLAIN), (300, PLAIN), (3599, PLAIN), (3600, HOUR), (86_400, HOUR)):
        sent = body(CLAUDE, make_request(system="s", prompt="x", cache=CachePolicy(ttl_seconds=seconds)))
        assert marked(sent) == {"system.0": control, "0.0": control}
        hint = CacheHint(type="persistent", ttl_seconds=seconds)
        sent = body(CLAUDE, make_request(messages=[user(TextPart(text="a", cache=hint))], cache=NO_CACHE))
        assert marked(sent) == {"0.0": control}


def test_a_thought_is_never_marked() -> None:
    """LLM-217"""
    thought = ReasoningPart(text="hm", encrypted="sig")
    sent = body(CLAUDE, make_request(messages=[user("a"), assistant(thought), user("b"), assistant(thought)]))
    assert set(marked(sent)) == {"0.0", "2.0"}


def test_a_model_without_a_cache_gets_no_marker() -> None:
    """LLM-217"""
    model = replace_capabilities(CLAUDE, caching=False)
    request = make_request(
        system=[SystemPart(text="s", cache=CacheHint())],
        messages=[user(TextPart(text="x", cache=CacheHint()))],
        tools=[WEATHER],
    )
    assert marked(body(model, request)) == {}


def test_a_renamed_route_still_caches() -> None:
    """LLM-217: by what the protocol can do, not by what the route is called."""
    route = Route("some-gateway", CLAUDE.route.protocol, "https://gateway/v1")
    assert marked(body(CLAUDE.replace(route=route), make_request(prompt="x"))) == {"0.0": PLAIN}


# -- asked for -------------------------------------------------------------------------------------------------------


def test_cache_hints_work_on_tools_system_parts_texts_and_results() -> None:
    """LLM-213, LLM-215, LLM-123: on tools, system parts, texts, results, and on a wrapped update."""
    hint = CacheHint()
    result = ToolResultPart(id="c", name="get_weather", result=ToolResult(type="text", value="v"), cache=hint)
    request = make_request(
        messages=[
            user(TextPart(text="a", cache=hint)),
            assistant(ToolCallPart(id="c", name="get_weather", input={})),
            Message(role="tool", content=(result,)),
            Message(role="system", content=(TextPart(text="u"), TextPart(text="v", cache=hint))),
        ],
        tools=[ToolDefinition(name="f", description="", input_schema={}, cache=hint)],
        cache=NO_CACHE,
    )
    assert set(marked(body(CLAUDE, request))) == {"tools.0", "0.0", "2.0", "2.1"}


def test_a_hint_is_not_doubled() -> None:
    """LLM-212"""
    hint = CacheHint(ttl_seconds=3600)
    request = make_request(
        system=[SystemPart(text="s", cache=hint)], messages=[user("a", TextPart(text="b", cache=hint))]
    )
    sent = prepare(CLAUDE, request).body
    assert sent.count(b"cache_control") == 2
    assert marked(decode_any(sent)) == {"system.0": HOUR, "0.1": HOUR}


def test_at_most_four_cache_markers_are_sent() -> None:
    """LLM-214: spent on tools, then system, then messages."""
    hint = CacheHint()
    tools = [ToolDefinition(name=f"t{at}", description="", input_schema={}, cache=hint) for at in range(3)]
    system = [SystemPart(text=f"s{at}", cache=hint) for at in range(3)]
    messages = [user("a"), assistant("b"), user("c")]
    sent = body(CLAUDE, make_request(system=system, messages=messages, tools=tools))
    assert set(marked(sent)) == {"tools.0", "tools.1", "tools.2", "system.0"}
    sent = body(CLAUDE, make_request(system=system[:2], messages=messages, tools=tools[:1]))
    assert set(marked(sent)) == {"tools.0", "system.0", "system.1", "2.0"}


@settings(max_examples=100, deadline=None)
@given(conversations(), st.lists(st.booleans(), min_size=8, max_size=8), st.integers(0, 9))
def test_no_request_has_more_than_four(additions: list[list[Message]], hinted: list[bool], newest: int) -> None:
    """LLM-214, LLM-219: and without them the bytes are the same as if there had never been any."""
    hint = CacheHint()
    history: list[Message] = []
    for added in additions:
        history += added
    for at, wanted in enumerate(hinted[:4]):
        if wanted:
            history.insert(0, user(TextPart(text=f"hinted {at}", cache=hint)))
    request = make_request(
        system=[SystemPart(text="a", cache=hint if hinted[4] else None), SystemPart(text="b")],
        messages=history,
        tools=[WEATHER],
        cache=CachePolicy(tools=hinted[5], system=hinted[6], messages=newest),
    )
    sent = prepare(CLAUDE, request).body
    assert sent.count(b'"cache_control"') <= 4
    bare = [
        Message(
            role=message.role,
            content=tuple(TextPart(text=part.text) if isinstance(part, TextPart) else part for part in message.content),
        )
        for message in history
    ]
    plain = make_request(
        system=["a", "b"], messages=bare, tools=[WEATHER], cache=CachePolicy(tools=False, system=False, messages=0)
    )
    assert sent.replace(b',"cache_control":{"type":"ephemeral"}', b"") == prepare(CLAUDE, plain).body


def test_longer_markers_do_not_follow_shorter_ones() -> None:
    """LLM-217: the provider refuses that order."""
    short, long = CacheHint(), CacheHint(ttl_seconds=3600)
    cases = [
        make_request(system=[SystemPart(text="a", cache=short), SystemPart(text="b", cache=long)], prompt="x"),
        make_request(
            tools=[ToolDefinition(name="f", description="", input_schema={}, cache=short)],
            system=[SystemPart(text="b", cache=long)],
            messages=[user(TextPart(text="c", cache=long))],
        ),
        make_request(system=[SystemPart(text="a", cache=short)], prompt="x", cache=CachePolicy(ttl_seconds=3600)),
        make_request(system="a", messages=[user(TextPart(text="c", cache=long))]),
        make_request(messages=[user("a"), assistant("b"), user(TextPart(text="c", cache=long))]),
        make_request(
            messages=[user("a"), assistant("b"), user(TextPart(text="c", cache=long)), assistant("d"), user("e")]
        ),
    ]
    for request in cases:
        controls = list(marked(body(CLAUDE, request)).values())
        assert controls == sorted(controls, key=lambda control: "ttl" not in control), request


def test_a_hint_that_comes_later_counts_as_if_it_had_been_there() -> None:
    """LLM-217, LLM-219: a conversation that grew sends what a cold load would."""
    policy = CachePolicy(ttl_seconds=3600)
    later = [assistant("b"), user(TextPart(text="c", cache=CacheHint())), assistant("d"), user("e")]
    grown = prepare(CLAUDE, make_request(system="s", prompt="a", cache=policy))
    grown.extend(later)
    cold = prepare(CLAUDE, make_request(system="s", messages=[user("a"), *later], cache=policy))
    assert grown.body == cold.body
    assert marked(decode_any(grown.body))["4.0"] == PLAIN


# -- other protocols -------------------------------------------------------------------------------------------------

SPREAD = make_request(
    system=[SystemPart(text="s", cache=CacheHint())],
    messages=[
        user(TextPart(text="a", cache=CacheHint()), IMAGE),
        *loop(1)[1:],
        user("b", IMAGE),
        update("c"),
    ],
    tools=[WEATHER],
)


def test_chat_requests_hold_no_cache_markers() -> None:
    """LLM-211: not in list content either, and asking for them changes nothing."""
    assert b"cache_control" not in prepare(chat_model(), SPREAD).body


def test_chat_has_no_cache_key() -> None:
    """LLM-216"""
    sent = body(chat_model(), make_request(prompt="x", provider_options={"openai": {"promptCacheKey": "k"}}))
    assert "prompt_cache_key" not in sent


def test_chat_to_a_model_that_takes_them_inline() -> None:
    """LLM-218, LLM-217: inside list content, in the newest messages to the model."""
    model = replace_capabilities(chat_model("anthropic/claude"), inline_cache=True)
    sent = body(model, make_request(system="s", messages=[user("a"), assistant("b"), user("c")]))
    assert sent["messages"] == [
        {"role": "system", "content": [{"type": "text", "text": "s"}]},
        {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": PLAIN}]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [{"type": "text", "text": "c", "cache_control": PLAIN}]},
    ]
    sent = body(model, make_request(messages=loop(20)))
    assert set(marked(sent)) == {"38.0", "40.0"}
    assert marked(body(model, make_request(messages=loop(2), cache=NO_CACHE))) == {}


def test_chat_keeps_to_the_limit_of_markers_too() -> None:
    """LLM-214, LLM-218: the newest stay."""
    model = replace_capabilities(chat_model("anthropic/claude"), inline_cache=True)
    sent = body(model, make_request(messages=loop(20), cache=CachePolicy(messages=9)))
    assert set(marked(sent)) == {"34.0", "36.0", "38.0", "40.0"}


# -- determinism -----------------------------------------------------------------------------------------------------


def test_the_baseline_is_the_same_bytes_for_the_whole_epoch() -> None:
    """LLM-219: system text and tools come before the conversation and do not change with it."""
    for model in (CLAUDE, chat_model()):
        short = prepare(model, make_request(system="rules", tools=[WEATHER], messages=loop(1))).body
        long = prepare(model, make_request(system="rules", tools=[WEATHER], messages=loop(9))).body
        head = short.index(b'"go"')
        assert short[:head] == long[:head]
