"""From projected history to what a model is sent: kinds, order, and what of a provider's own details goes back."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from holdfast.core.runner.lowering import NO_RESULT, lower
from holdfast.llm import request as llm
from holdfast.schema import session_message as stored
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import FileAttachment, SkillAttachment
from holdfast.schema.session_message import SessionMessage, Time, ToolProvider, ToolTime, UnknownError

HERE = ModelRef(id="m", provider_id="p")
ELSEWHERE = ModelRef(id="other", provider_id="p")
AT = Time(created=1)
SIGNED: dict[str, dict[str, Any]] = {"anthropic": {"signature": "s"}}


def assistant(*content: stored.Part, model: ModelRef = HERE, error: str | None = None) -> stored.AssistantMessage:
    return stored.AssistantMessage(
        id="msg_a",
        time=AT,
        agent="build",
        model=model,
        content=content,
        error=UnknownError(message=error) if error else None,
    )


def tool(state: stored.ToolState, provider: ToolProvider | None = None, id: str = "c") -> stored.ToolPart:
    return stored.ToolPart(id=id, name="read", state=state, provider=provider, time=ToolTime(created=1))


def completed(content: tuple[stored.ToolContent, ...] = (), **fields: Any) -> stored.ToolCompleted:
    return stored.ToolCompleted(input={"a": 1}, structured={"k": 1}, content=content, **fields)


def message(role: llm.Role, *parts: llm.Part) -> llm.Message:
    return llm.Message(role=role, content=parts)


def result(value: llm.ToolResult) -> llm.Message:
    return message("tool", llm.ToolResultPart(id="c", name="read", result=value))


def test_skills_come_before_the_text_each_once() -> None:
    """SES-282: a prompt of skills alone has no empty text."""
    skills = tuple(SkillAttachment(id=id, name=id, text=f"<{id}>") for id in ("a", "b", "a"))
    texts = [llm.TextPart(text="<a>\n\n"), llm.TextPart(text="<b>\n\n")]
    said = stored.UserMessage(id="msg_1", time=AT, text="go", skills=skills)
    alone = stored.UserMessage(id="msg_1", time=AT, text="", skills=skills)

    assert lower([said], HERE) == (message("user", *texts, llm.TextPart(text="go")),)
    assert lower([alone], HERE) == (message("user", *texts),)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (stored.SyntheticMessage(id="msg_1", time=AT, session_id="ses_1", text="x"), [llm.user("x")]),
        (stored.SystemMessage(id="msg_1", time=AT, text="now"), [llm.update("now")]),
        (
            stored.ShellMessage(id="msg_1", time=AT, call_id="c", command="ls", output="a\nb"),
            [llm.user("Shell command: ls\n\na\nb")],
        ),
        (stored.AgentSwitchedMessage(id="msg_1", time=AT, agent="plan"), []),
        (stored.ModelSwitchedMessage(id="msg_1", time=AT, model=ELSEWHERE), []),
    ],
    ids=["synthetic", "system", "shell", "agent", "model"],
)
def test_each_kind_of_message_is_lowered_in_place_and_role(item: SessionMessage, expected: list[llm.Message]) -> None:
    """SES-153, LLM-380: in place, in its role; switches say nothing to the model."""
    assert list(lower([item], HERE)) == expected


def test_a_prompt_and_its_files() -> None:
    """SES-153: the text first, then one part per file."""
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    picture = FileAttachment(uri=f"data:image/png;base64,{data}", mime="image/png", name="a.png")
    item = stored.UserMessage(id="msg_1", time=AT, text="see", files=(picture,))
    media = llm.MediaPart(media_type="image/png", data=data, filename="a.png")
    assert lower([item], HERE) == (message("user", llm.TextPart(text="see"), media),)


def test_a_checkpoint_is_history_and_nothing_native_crosses_it() -> None:
    """LLM-145, SES-153: one user message, said to be a record, with both parts even when one is empty."""
    (lowered,) = lower([stored.CompactionMessage(id="msg_1", time=AT, reason="auto", summary="S", recent="")], HERE)
    assert lowered.role == "user"
    (part,) = lowered.content
    assert isinstance(part, llm.TextPart)
    for piece in ("<conversation-checkpoint>", "<summary>\nS\n</summary>", "<recent-context>\n\n</recent-context>"):
        assert piece in part.text


def test_an_assistant_keeps_the_order_of_its_content_and_results_follow() -> None:
    """SES-155, SES-117: text, reasoning and calls in content order; each local result its own message after it."""
    item = assistant(
        stored.TextPart(id="t", text="look"),
        stored.ReasoningPart(id="r", text="hm"),
        tool(completed(), id="c"),
        tool(completed(), id="d"),
    )
    first, *results = lower([item], HERE)
    assert [part.__struct_config__.tag for part in first.content] == ["text", "reasoning", "tool-call", "tool-call"]
    assert [part.id for result in results for part in result.content if isinstance(part, llm.ToolResultPart)] == [
        "c",
        "d",
    ]


@pytest.mark.parametrize(("raw", "expected"), [('{"a":1}', {"a": 1}), ('{"a":', '{"a":')])
def test_a_call_that_is_not_settled_is_said_to_have_no_result(raw: str, expected: Any) -> None:
    """SES-156, SES-236, LLM-381: its raw input is parsed if it can be; no provider takes a call without a result."""
    lowered, answered = lower([assistant(tool(stored.ToolPending(input=raw)))], HERE)
    assert lowered.content == (llm.ToolCallPart(id="c", name="read", input=expected),)
    assert answered == result(llm.ToolResult(type="error", value=NO_RESULT))


def test_empty_text_and_reasoning_are_left_out() -> None:
    """SES-157, LLM-143: empty text and reasoning go, a message with nothing left too; its results stay."""
    assert lower([assistant(stored.TextPart(id="t", text=""), stored.ReasoningPart(id="r", text=""))], HERE) == ()
    kept = stored.ReasoningPart(id="r", text="", provider_metadata=SIGNED)
    (lowered,) = lower([assistant(kept)], HERE)
    assert lowered.content == (llm.ReasoningPart(text="", provider_metadata=SIGNED),)


@pytest.mark.parametrize(
    ("model", "error", "expected"),
    [
        (HERE, None, llm.ReasoningPart(text="hm", provider_metadata=SIGNED)),
        (HERE, "broke", llm.ReasoningPart(text="hm")),
        (ELSEWHERE, None, llm.TextPart(text="hm")),
        (ModelRef(id="m", provider_id="q"), None, llm.TextPart(text="hm")),
        (
            ModelRef(id="m", provider_id="p", variant="high"),
            None,
            llm.ReasoningPart(text="hm", provider_metadata=SIGNED),
        ),
    ],
    ids=["same", "same but failed", "another model", "another provider", "another variant"],
)
def test_reasoning_goes_back_natively_only_to_where_it_came_from(
    model: ModelRef, error: str | None, expected: llm.Part
) -> None:
    """SES-158, SES-159, LLM-140, LLM-141: exact provider and model of a turn that did not fail; else text, or bare."""
    item = assistant(stored.ReasoningPart(id="r", text="hm", provider_metadata=SIGNED), model=model, error=error)
    assert lower([item], HERE)[0].content == (expected,)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (completed(), llm.ToolResult(type="json", value={"k": 1})),
        (completed((stored.TextContent(text="t"),)), llm.ToolResult(type="text", value="t")),
        (
            completed((stored.TextContent(text="t"), stored.TextContent(text="u"))),
            llm.ToolResult(type="content", value=(stored.TextContent(text="t"), stored.TextContent(text="u"))),
        ),
        (
            stored.ToolError(input={}, structured={"k": 1}, content=(), error=UnknownError(message="no")),
            llm.ToolResult(type="error", value={"error": "no", "content": (), "structured": {"k": 1}}),
        ),
    ],
    ids=["structured", "one text", "several", "error"],
)
def test_a_local_result_is_what_was_kept_of_it(state: stored.ToolState, expected: llm.ToolResult) -> None:
    """SES-160, SES-161."""
    assert lower([assistant(tool(state))], HERE)[1:] == (result(expected),)


@pytest.mark.parametrize("own", [None, {"openai": {"itemId": "r"}}], ids=["falls back", "its own"])
def test_a_hosted_result_is_replayed_inline_with_its_metadata(own: dict[str, dict[str, Any]] | None) -> None:
    """SES-155, SES-160, SES-162, LLM-144: right after its call, the raw result, its own metadata or else the call's."""
    called = {"openai": {"itemId": "c"}}
    provider = ToolProvider(executed=True, metadata=called, result_metadata=own)
    raw = msgspec.Raw(b'{"type":"json","value":{"sources":[1]}}')
    (lowered,) = lower([assistant(tool(completed(result=raw), provider))], HERE)
    assert lowered.content == (
        llm.ToolCallPart(id="c", name="read", input={"a": 1}, provider_executed=True, provider_metadata=called),
        llm.ToolResultPart(
            id="c",
            name="read",
            result=llm.ToolResult(type="json", value={"sources": [1]}),
            provider_executed=True,
            provider_metadata=own or called,
        ),
    )
    (elsewhere,) = lower([assistant(tool(completed(result=raw), provider), model=ELSEWHERE)], HERE)
    assert all(part.provider_metadata is None for part in elsewhere.content if not isinstance(part, llm.MediaPart))


def test_a_text_that_broke_off_is_not_sent() -> None:
    """SES-473: neither is reasoning, whether the step failed or goes on with its calls. The call is."""
    text = stored.TextPart(id="t", text="half a", broken_off=True)
    thought = stored.ReasoningPart(id="r", text="half a", provider_metadata=SIGNED, broken_off=True)
    whole = stored.TextPart(id="t0", text="whole")
    for error in (None, "Provider turn interrupted"):
        assert lower([assistant(thought, text, error=error)], HERE) == ()
        sent = lower([assistant(thought, whole, text, tool(completed()), error=error)], HERE)
        assert [type(part) for part in sent[0].content] == [llm.TextPart, llm.ToolCallPart]
