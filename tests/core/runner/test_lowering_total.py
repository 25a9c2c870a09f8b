"""Whatever is stored, every protocol encodes it, and as the vendor describes."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.llm.test_official_types import MODELS, complaints, protocol_of

from holdfast.core.filesystem.content import Content
from holdfast.core.runner.lowering import holds_media, lower, without_media
from holdfast.llm import request as llm
from holdfast.llm.request import make_request
from holdfast.llm.stream import prepare
from holdfast.schema import session_message as stored
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import FileAttachment
from holdfast.schema.session_message import SessionMessage, Time, ToolProvider, ToolTime, UnknownError

SAMPLED = (
    *("chat", "chat-moonshot", "chat-openrouter", "responses", "responses-stored", "claude", "claude-native"),
    *("claude-blind", "gemini", "gemini-signing", "bedrock", "bedrock-nova"),
)
AT = Time(created=1)
SELECTED = ModelRef(id="m", provider_id="p")
KINDS = (
    "image/png",
    "image/jpeg",
    "image/svg+xml",
    "image/tiff",
    "application/pdf",
    "text/plain",
    "application/zip",
    "",
)
HEADS = (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"%PDF-1.7", b"PK\x03\x04\0", b"<svg/>")

texts = st.sampled_from(("", " ", "hello", "a\nb", "<system-update>", "\0\x7f", "grüße 🦀")) | st.text(max_size=20)
names = st.none() | st.sampled_from(("a.png", "", '"><b', "x" * 300))
json = st.dictionaries(st.text(max_size=5), st.integers(-5, 5) | st.text(max_size=5) | st.none(), max_size=3)


@st.composite
def uris(draw: st.DrawFn) -> str:
    data = draw(st.sampled_from(HEADS)) + draw(st.binary(max_size=12))
    kind = draw(st.sampled_from(KINDS))
    return draw(
        st.sampled_from(
            (
                f"data:{kind};base64,{base64.b64encode(data).decode()}",
                f"data:{kind};base64,{base64.b64encode(data).decode()[:-1]}",
                f"data:{kind};base64,@@@",
                f"data:{kind},plain",
                f"data:{kind}",
                "file:///gone/away.png",
                "https://example.test/a.png?sig=abc",
                "",
            )
        )
    )


files = st.builds(FileAttachment, uri=uris(), mime=st.sampled_from(KINDS), name=names)
contents = st.lists(
    st.builds(stored.TextContent, text=texts) | st.builds(stored.FileContent, uri=uris(), mime=st.sampled_from(KINDS)),
    max_size=3,
).map(tuple)
HOSTED: tuple[Any, ...] = (
    {"type": "json", "value": {"sources": [1]}},
    {"type": "content", "value": 5},
    {"type": "content", "value": [{"type": "file"}, {"type": "text", "text": 1}, "x"]},
    {"type": "error", "value": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}},
    [],
    "plain",
    None,
)
raw = st.sampled_from(HOSTED).map(lambda value: msgspec.Raw(msgspec.json.encode(value)))
states: st.SearchStrategy[stored.ToolState] = st.one_of(
    st.builds(stored.ToolPending, input=st.sampled_from(("", "{", '{"a":1}', "[1]"))),
    st.builds(stored.ToolRunning, input=json, structured=json, content=contents),
    st.builds(stored.ToolCompleted, input=json, structured=json, content=contents),
    st.builds(
        stored.ToolError, input=json, structured=json, content=contents, error=st.just(UnknownError(message="no"))
    ),
    st.builds(stored.ToolCompleted, input=json, structured=json, content=contents, result=raw),
)


@st.composite
def tools(draw: st.DrawFn) -> stored.ToolPart:
    state = draw(states)
    hosted = not isinstance(state, stored.ToolPending | stored.ToolRunning) and draw(st.booleans())
    return stored.ToolPart(
        id=draw(st.sampled_from(("call_1", "toolu.2", "fc:3", "ü" * 70))),
        name=draw(st.sampled_from(("read", "web_search", "code_execution", "no such.tool", "", "x" * 100))),
        provider=ToolProvider(executed=hosted),
        state=state,
        time=ToolTime(created=1),
    )


part_kinds = st.one_of(
    st.builds(stored.TextPart, id=st.just("t"), text=texts),
    st.builds(stored.ReasoningPart, id=st.just("r"), text=texts),
    tools(),
)


@st.composite
def assistants(draw: st.DrawFn) -> stored.AssistantMessage:
    unique = {part.id if isinstance(part, stored.ToolPart) else n: part for n, part in enumerate(draw(part_lists))}
    return stored.AssistantMessage(
        id="msg_a",
        time=AT,
        agent="build",
        model=draw(st.sampled_from((SELECTED, ModelRef(id="other", provider_id="q")))),
        content=tuple(unique.values()),
        error=draw(st.none() | st.just(UnknownError(message="broke off"))),
    )


part_lists = st.lists(part_kinds, max_size=4)
histories: st.SearchStrategy[list[SessionMessage]] = st.lists(
    st.one_of(
        st.builds(
            stored.UserMessage,
            id=st.just("msg_u"),
            time=st.just(AT),
            metadata=st.none(),
            text=texts,
            files=st.lists(files, max_size=3).map(tuple),
            agents=st.none(),
        ),
        st.builds(
            stored.SyntheticMessage,
            id=st.just("msg_y"),
            time=st.just(AT),
            metadata=st.none(),
            session_id=st.just("s"),
            text=texts,
        ),
        st.builds(stored.SystemMessage, id=st.just("msg_s"), time=st.just(AT), metadata=st.none(), text=texts),
        st.builds(
            stored.ShellMessage,
            id=st.just("msg_h"),
            time=st.just(AT),
            metadata=st.none(),
            call_id=st.just("c"),
            command=texts,
            output=texts,
        ),
        st.builds(
            stored.CompactionMessage,
            id=st.just("msg_c"),
            time=st.just(AT),
            metadata=st.none(),
            reason=st.just("auto"),
            summary=texts,
            recent=texts,
        ),
        assistants(),
    ),
    min_size=1,
    max_size=6,
)
kept = st.dictionaries(
    st.tuples(st.just("msg_u"), st.integers(0, 2)),
    st.builds(
        Content,
        kind=st.sampled_from(("text", "data", "note")),
        mime=st.sampled_from(KINDS),
        value=st.sampled_from(("JVBERi0=", "@@@")),
    ),
    max_size=2,
)


@pytest.mark.parametrize("model", SAMPLED)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories, kept=kept, media=st.booleans())
def test_any_stored_history_is_a_valid_request(
    model: str, history: list[SessionMessage], kept: dict[tuple[str, int], Content], media: bool
) -> None:
    """SES-236, LLM-400, LLM-403: each call has its result right after it, and the vendor's own types take the body."""
    messages = lower(history, SELECTED, kept)
    if not media:
        messages = without_media(messages)
        assert not holds_media(messages)
    assert unanswered(messages) == []
    prepared = prepare(MODELS[model], make_request(messages=messages))
    if prepared.draft.empty:
        return  # there is no visible word in it: the Session sends one of its own
    assert complaints(protocol_of(MODELS[model]), prepared.body) == []


@pytest.mark.parametrize("name", ["web_search", "code_execution", "web_fetch"])
@pytest.mark.parametrize("result", HOSTED)
def test_an_incomplete_hosted_result_is_a_valid_request(name: str, result: Any) -> None:
    """LLM-400, LLM-403: also an empty one."""
    kept = msgspec.Raw(msgspec.json.encode(result))
    state = stored.ToolCompleted(input={}, structured={}, content=(), result=kept)
    part = stored.ToolPart(
        id="call_1", name=name, provider=ToolProvider(executed=True), state=state, time=ToolTime(created=1)
    )
    asked = stored.UserMessage(id="msg_u", time=AT, metadata=None, text="hi", files=(), agents=None)
    answer = stored.AssistantMessage(id="msg_a", time=AT, agent="build", model=SELECTED, content=(part,), error=None)
    prepared = prepare(MODELS["claude"], make_request(messages=lower([asked, answer], SELECTED, {})))
    assert len(complaints(protocol_of(MODELS["claude"]), prepared.body)) == 0


def unanswered(messages: tuple[llm.Message, ...]) -> list[str]:
    """Calls whose result is not in the messages right after theirs."""
    waiting: list[str] = []
    for message in messages:
        for part in message.content:
            if message.role == "tool":
                assert isinstance(part, llm.ToolResultPart)
                waiting.remove(part.id)
        if message.role != "tool" and waiting:
            return waiting
        waiting += [
            part.id for part in message.content if isinstance(part, llm.ToolCallPart) and not part.provider_executed
        ]
    return waiting
