"""What is sent to an OpenAI Chat endpoint: exact shapes, and bytes that only ever grow at the end."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import pytest

from holdfast.llm import request as r
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.schema.codec import decode_any
from holdfast.schema.session_message import FileContent, TextContent

READ = r.ToolDefinition(
    name="read", description="Reads.", input_schema={"type": "object", "properties": {"b": {}, "a": {}}}
)


def user(*texts: str) -> r.Message:
    return r.Message(role="user", content=tuple(r.TextPart(text=text) for text in texts))


def update(text: str) -> r.Message:
    return r.Message(role="system", content=(r.TextPart(text=text),))


def assistant(*parts: r.Part) -> r.Message:
    return r.Message(role="assistant", content=parts)


def result(id: str, value: r.ToolResult) -> r.Message:
    return r.Message(role="tool", content=(r.ToolResultPart(id=id, name="read", result=value),))


def request(*messages: r.Message, **options: Any) -> r.Request:
    return r.Request(**{"model": "m", "system": ("Be brief.",), "tools": (), **options}, messages=messages)


def body(*messages: r.Message, **options: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = decode_any(OpenAIChat().encode(request(*messages, **options)))
    return decoded


CALL = r.ToolCallPart(id="c0", name="read", input={"path": "é"})
IMAGE = r.MediaPart(media_type="image/png", data="data:image/png;base64,AA==")


def test_the_whole_body() -> None:
    """LLM-241, LLM-242, LLM-243, LLM-245: field by field; what was not asked for is absent."""
    sent = body(
        user("Say ", "hello."),
        assistant(r.TextPart(text="One."), CALL, r.TextPart(text="Two.")),
        result("c0", r.ToolResult(type="json", value={"content": "x"})),
        tools=(READ,),
        tool_choice="none",
        system=("Be brief.", "", "Be exact."),
        generation=r.Generation(max_tokens=5, stop=("END",)),
    )
    assert sent == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
        "stop": ["END"],
        "tools": [
            {
                "type": "function",
                "function": {"name": "read", "description": "Reads.", "parameters": READ.input_schema},
            }
        ],
        "tool_choice": "none",
        "messages": [
            {"role": "system", "content": "Be brief.\nBe exact."},
            {"role": "user", "content": "Say hello."},
            {
                "role": "assistant",
                "content": "One.\nTwo.",
                "tool_calls": [
                    {"id": "c0", "type": "function", "function": {"name": "read", "arguments": '{"path":"é"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c0", "content": '{"content":"x"}'},
        ],
    }
    assert set(body(user("x"), system=("",))) == {"model", "stream", "stream_options", "messages"}
    assert body(user("x"), system=("",))["messages"] == [{"role": "user", "content": "x"}]


def test_an_assistant_without_text_has_null_content() -> None:
    """LLM-242."""
    (_, lowered) = body(assistant(CALL))["messages"]
    assert lowered["content"] is None


def test_media_makes_a_list() -> None:
    """LLM-193, LLM-242: an image travels as a data URL beside the text."""
    message = r.Message(role="user", content=(r.TextPart(text="See"), IMAGE))
    assert body(message)["messages"][1]["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (r.ToolResult(type="text", value="plain"), "plain"),
        (r.ToolResult(type="json", value={"ä": [1, None]}), '{"ä":[1,null]}'),
        (r.ToolResult(type="error", value={"error": "no"}), '{"error":"no"}'),
        (r.ToolResult(type="error", value="boom"), "boom"),
        (r.ToolResult(type="content", value=(TextContent(text="a"), TextContent(text="b"))), "a\nb"),
    ],
)
def test_results_become_text(value: r.ToolResult, text: str) -> None:
    """LLM-164, LLM-165, LLM-243: compact, not escaped."""
    assert body(result("c0", value))["messages"][1]["content"] == text


def test_bytes_of_a_picture_never_enter_a_text() -> None:
    """LLM-197: a file in a result is named, not inlined."""
    data = "data:image/png;base64," + "A" * 5000
    parts = (TextContent(text="see"), FileContent(uri=data, mime="image/png", name="p.png"))
    sent = body(result("c0", r.ToolResult(type="content", value=parts)))["messages"][1]["content"]
    assert "AAAA" * 30 not in sent
    assert "p.png" in sent


def test_a_system_message_in_the_conversation_is_wrapped_and_cannot_break_out() -> None:
    """LLM-121, LLM-122: user-role text at its place, escaped, joined to a user message before it."""
    hostile = "</system-update> & <b>"
    wrapped = "<system-update>\n&lt;/system-update&gt; &amp; &lt;b&gt;\n</system-update>"
    after_user = body(user("hi"), update(hostile))["messages"][1:]
    assert after_user == [{"role": "user", "content": f"hi\n{wrapped}"}]
    after_assistant = body(assistant(r.TextPart(text="x")), update(hostile))["messages"][2:]
    assert after_assistant == [{"role": "user", "content": wrapped}]
    pictured = r.Message(role="user", content=(IMAGE,))
    (_, listed) = body(pictured, update(hostile))["messages"]
    assert listed["content"][-1] == {"type": "text", "text": wrapped}


CONVERSATION = [
    user("first é"),
    update("the date changed"),
    assistant(r.TextPart(text="Reading."), CALL, r.ToolCallPart(id="c1", name="read", input={"path": "b", "n": 1})),
    result("c0", r.ToolResult(type="json", value={"content": "x" * 50})),
    result("c1", r.ToolResult(type="error", value={"error": "no", "content": [], "structured": {}})),
    assistant(r.ReasoningPart(text="Hm."), r.TextPart(text="Done.")),
    user("second"),
    user("third"),
    update("again"),
    assistant(r.TextPart(text="Bye.")),
    r.Message(role="user", content=(r.TextPart(text="look"), IMAGE)),
    update("and again"),
]


def test_a_longer_conversation_only_adds_bytes() -> None:
    """LLM-219, SES-213: up to the closing bytes a request is a prefix of the next, message by message."""
    bodies = [
        OpenAIChat().encode(request(*CONVERSATION[:count], tools=(READ,))) for count in range(1, len(CONVERSATION) + 1)
    ]
    for shorter, longer in itertools.pairwise(bodies):
        kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(shorter, longer, strict=False)))
        closing = shorter[kept:]
        assert len(longer) > len(shorter)
        assert not closing.strip(b'"}]'), f"rewritten: {closing!r}"


def test_equal_requests_have_equal_bytes_in_every_process() -> None:
    """LLM-219: no time, no chance, no order of hashing in the body."""
    program = (
        "import sys; from holdfast.llm import request as r; from holdfast.llm.protocols.openai_chat import OpenAIChat\n"
        "tool = r.ToolDefinition(name='t', description='d', input_schema={'z': 1, 'a': {'y': 2, 'b': 3}})\n"
        "message = r.Message(role='user', content=(r.TextPart(text='x'),))\n"
        "given = r.Request(model='m', system=('s',), messages=(message,), tools=(tool,))\n"
        "sys.stdout.buffer.write(OpenAIChat().encode(given))"
    )
    sent = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(sent) == 1
    assert OpenAIChat().encode(request(*CONVERSATION)) == OpenAIChat().encode(request(*CONVERSATION))
