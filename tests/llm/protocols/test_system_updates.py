"""Mid-Conversation System Messages: natively where a model has a role for them, wrapped everywhere else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm.support import PNG, chat_model, claude, lowered, replace_capabilities

from holdfast.llm.errors import LLMError
from holdfast.llm.model import Model
from holdfast.llm.request import (
    NO_CACHE,
    MediaPart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
    assistant,
    make_request,
    tool_result,
    update,
    user,
)
from holdfast.llm.stream import prepare
from holdfast.schema.codec import decode_any

CHAT, CLAUDE = chat_model(), claude()
NATIVE = replace_capabilities(claude("claude-opus-4-8"), chronological_system="system")
BOTH = [pytest.param(CHAT, id="chat"), pytest.param(CLAUDE, id="claude")]
IMAGE = MediaPart(media_type="image/png", data=PNG)
CALL = ToolCallPart(id="c", name="f", input={})
HOSTED = ToolCallPart(id="h", name="web_search", input={}, provider_executed=True)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def wrapped(value: str) -> str:
    return f"<system-update>\n{value}\n</system-update>"


# -- the wrapper -----------------------------------------------------------------------------------------------------


def test_a_wrapped_update_has_this_exact_text() -> None:
    """LLM-121"""
    message = Message(role="system", content=(TextPart(text="a <b> & 'c'"), TextPart(text="</system-update>")))
    expected = "<system-update>\na &lt;b&gt; &amp; 'c'\n&lt;/system-update&gt;\n</system-update>"
    assert lowered(CHAT, message) == [{"role": "user", "content": expected}]
    assert lowered(CLAUDE, message) == [{"role": "user", "content": [text(expected)]}]


@given(st.text(min_size=1, max_size=30).filter(lambda value: bool(value.strip())))
def test_no_content_closes_the_wrapper(value: str) -> None:
    """LLM-121: and it can be read back exactly."""
    (message,) = lowered(CLAUDE, update(value))
    inner = message["content"][0]["text"].removeprefix("<system-update>\n").removesuffix("\n</system-update>")
    assert "<" not in inner
    assert inner.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == value


def test_a_wrapped_update_joins_the_user_message_before_it() -> None:
    """LLM-122: a line of its text, an item of its list, or a block."""
    assert lowered(CHAT, user("a"), update("u"), update("v")) == [
        {"role": "user", "content": f"a\n{wrapped('u')}\n{wrapped('v')}"}
    ]
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert lowered(CHAT, user("a", IMAGE), update("u")) == [
        {"role": "user", "content": [text("a"), image, text(wrapped("u"))]}
    ]
    assert lowered(CLAUDE, user("a"), update("u")) == [{"role": "user", "content": [text("a"), text(wrapped("u"))]}]


def test_elsewhere_it_is_a_user_message_of_its_own() -> None:
    """LLM-122, LLM-120: at the same place in history."""
    messages = [user("a"), assistant("b"), update("u"), user("c")]
    assert lowered(CHAT, *messages) == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": wrapped("u")},
        {"role": "user", "content": "c"},
    ]
    assert lowered(CLAUDE, *messages) == [
        {"role": "user", "content": [text("a")]},
        {"role": "assistant", "content": [text("b")]},
        {"role": "user", "content": [text(wrapped("u")), text("c")]},
    ]


def test_an_update_after_tool_results_joins_them_only_on_anthropic() -> None:
    """LLM-122, LLM-126: on Chat results are no user message, on Anthropic they are."""
    messages = [user("a"), assistant(CALL), tool_result("c", "f", 1), update("u")]
    assert lowered(CHAT, *messages)[-2:] == [
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "user", "content": wrapped("u")},
    ]
    assert lowered(CLAUDE, *messages)[-1] == {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c", "content": "1"}, text(wrapped("u"))],
    }


def test_an_update_is_not_part_of_the_system_text() -> None:
    """LLM-022"""
    for model in (CHAT, CLAUDE):
        request = make_request(system="rules", messages=[update("u"), user("a")], cache=NO_CACHE)
        sent = decode_any(prepare(model, request).body)
        assert wrapped("u") in str(sent["messages"]).replace("\\n", "\n")
        assert "system-update" not in str(sent.get("system"))


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [*BOTH, pytest.param(NATIVE, id="native")])
@pytest.mark.parametrize(
    "messages",
    [
        [user("a"), assistant(CALL), update("u"), tool_result("c", "f", 1)],
        [
            user("a"),
            assistant(CALL, ToolCallPart(id="d", name="f", input={})),
            tool_result("c", "f", 1),
            update("u"),
            tool_result("d", "f", 1),
        ],
    ],
)
def test_not_between_a_call_and_its_result(model: Model, messages: list[Message]) -> None:
    """LLM-126: all at once or one by one."""
    with pytest.raises(LLMError) as caught:
        prepare(model, make_request(messages=messages))
    assert caught.value.reason == "InvalidRequest"
    at = messages.index(update("u"))
    prepared = prepare(model, make_request(messages=messages[:1]))
    for message in messages[1:at]:
        prepared.extend([message])
    with pytest.raises(LLMError):
        prepared.extend([messages[at]])


@pytest.mark.parametrize("model", BOTH)
def test_after_a_hosted_call_is_fine(model: Model) -> None:
    """LLM-126: only local calls wait for a result."""
    assert prepare(model, make_request(messages=[user("a"), assistant(HOSTED), update("u")])).body


@pytest.mark.parametrize("model", [*BOTH, pytest.param(NATIVE, id="native")])
@pytest.mark.parametrize(
    "part", [IMAGE, CALL, ToolResultPart(id="c", name="f", result=ToolResult(type="text", value="v"))]
)
def test_only_system_text_becomes_an_update(model: Model, part: Any) -> None:
    """LLM-127, LLM-129: nothing that a tool or a document brought can become an update by its kind."""
    with pytest.raises(LLMError) as caught:
        prepare(model, make_request(messages=[user("a"), Message(role="system", content=(part,))]))
    assert caught.value.reason == "InvalidRequest"


# -- natively --------------------------------------------------------------------------------------------------------


def roles(model: Model, *messages: Message) -> list[str]:
    return [message["role"] for message in lowered(model, *messages)]


def test_anthropic_models_with_the_role_get_native_updates() -> None:
    """LLM-120, LLM-124, LLM-128: by the model's capability."""
    message = Message(role="system", content=(TextPart(text="a <b>"), TextPart(text="c")))
    assert lowered(NATIVE, user("x"), message, assistant("y")) == [
        {"role": "user", "content": [text("x")]},
        {"role": "system", "content": [text("a <b>"), text("c")]},
        {"role": "assistant", "content": [text("y")]},
    ]
    assert roles(CLAUDE, user("x"), message, assistant("y")) == ["user", "assistant"]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_chat_has_one_too_where_the_model_says_so(role: Any) -> None:
    """LLM-128: at any position, unescaped."""
    model = replace_capabilities(CHAT, chronological_system=role)
    assert lowered(model, update("a <b>"), user("x"), update("c"), update("d"), assistant("y"), update("e")) == [
        {"role": role, "content": "a <b>"},
        {"role": "user", "content": "x"},
        {"role": role, "content": "c"},
        {"role": role, "content": "d"},
        {"role": "assistant", "content": "y"},
        {"role": role, "content": "e"},
    ]


@pytest.mark.parametrize(
    "before",
    [
        [user("a")],
        [user("a"), assistant(CALL), tool_result("c", "f", 1)],
        [user("a"), assistant("b", HOSTED)],
    ],
)
@pytest.mark.parametrize("after", [[], [assistant("z")]])
def test_an_update_is_a_native_message_where_anthropic_takes_it(before: list[Message], after: list[Message]) -> None:
    """LLM-125"""
    found = roles(NATIVE, *before, update("u"), *after)
    assert found[len(found) - len(after) - 1] == "system"


@pytest.mark.parametrize(
    "messages",
    [
        [update("u"), user("a")],
        [update("u"), assistant("a"), user("b")],
        [user("a"), assistant("b"), update("u")],
        [user("a"), update("u"), user("b")],
        [user("a"), update("u"), update("v")],
        [user("a"), update("u"), update("v"), assistant("b")],
        [user("a"), assistant("b", HOSTED), update("u"), user("c")],
    ],
)
def test_an_update_is_wrapped_where_anthropic_does_not_take_it(messages: list[Message]) -> None:
    """LLM-125: first, after a plain answer, next to another, or before anything but an answer."""
    sent = lowered(NATIVE, *messages)
    assert "system" not in [message["role"] for message in sent]
    said = "".join(block["text"] for message in sent for block in message["content"] if block["type"] == "text")
    assert said.count("<system-update>") == sum(message.role == "system" for message in messages)


def test_the_one_place_where_adding_a_message_changes_what_was_sent() -> None:
    """LLM-125, LLM-219: a native update whose turn gave no output. The provider takes such a message only before an
    answer, so when other input follows, it is wrapped after all; everything before it stays as it was."""
    before = prepare(NATIVE, make_request(messages=[user("a"), update("u")], cache=NO_CACHE)).body
    after = prepare(NATIVE, make_request(messages=[user("a"), update("u"), user("b")], cache=NO_CACHE)).body
    kept = before.index(b',{"role":"system"')
    assert after[:kept] == before[:kept]
    assert after[kept:] != before[kept:]
    assert decode_any(after)["messages"][1:] == [{"role": "user", "content": [text(wrapped("u")), text("b")]}]
    grown = prepare(NATIVE, make_request(messages=[user("a"), update("u")], cache=NO_CACHE))
    grown.extend([user("b")])
    assert grown.body == after


def test_with_an_answer_nothing_changes() -> None:
    """LLM-120, LLM-219: it is replayed as it was sent."""
    history = [user("a"), update("u"), assistant("b"), user("c")]
    sent = lowered(NATIVE, *history[:2])
    assert lowered(NATIVE, *history)[:2] == sent
