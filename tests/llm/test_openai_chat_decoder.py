"""OpenAI Chat streams, written by hand: what events they become."""

from __future__ import annotations

from typing import Any

import pytest
from tests.llm.conftest import chunk, decode

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.protocols.openai_chat import ChatDecoder
from holdfast.schema.codec import encode


def call(index: int | None, id: str | None = None, name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    """The delta of one tool call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": id, "function": function or None}
    return {"tool_calls": [{key: value for key, value in fields.items() if value is not None}]}


def finish(reason: str, usage: ev.Usage | None = None) -> list[ev.Event]:
    return [ev.StepFinish(reason, usage), ev.Finish(reason, usage)]


def test_text() -> None:
    """LLM-061, LLM-063, LLM-064, LLM-070: one block, no empty deltas, closed before the finish."""
    events = decode(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        b"[DONE]",
    )
    assert events == [
        ev.StepStart(),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "Hel"),
        ev.TextDelta("text-0", "lo"),
        ev.TextEnd("text-0"),
        *finish("stop"),
    ]


def test_nothing_at_all() -> None:
    """LLM-061: without content the step starts just before it ends."""
    assert decode(chunk({"content": ""}), chunk({}, "stop")) == [ev.StepStart(), *finish("stop")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_ends_when_text_begins(field: str) -> None:
    """LLM-246, LLM-249: by either name."""
    events = decode(chunk({field: "Hm"}), chunk({field: "m."}), chunk({"content": "Yes"}), chunk({}, "stop"))
    assert events == [
        ev.StepStart(),
        ev.ReasoningStart("reasoning-0"),
        ev.ReasoningDelta("reasoning-0", "Hm"),
        ev.ReasoningDelta("reasoning-0", "m."),
        ev.ReasoningEnd("reasoning-0"),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "Yes"),
        ev.TextEnd("text-0"),
        *finish("stop"),
    ]


def test_reasoning_that_comes_again_is_another_block() -> None:
    """LLM-062: no id is started twice, whatever the order."""
    events = decode(
        chunk({"reasoning_content": "a"}),
        chunk({"content": "b"}),
        chunk({"reasoning_content": "c"}),
        chunk({"content": "d"}),
        chunk({}, "stop"),
    )
    starts = [event.id for event in events if isinstance(event, ev.ReasoningStart)]
    assert starts == ["reasoning-0", "reasoning-1"]
    assert "".join(event.text for event in events if isinstance(event, ev.TextDelta)) == "bd"


def test_calls_in_pieces() -> None:
    """LLM-066, LLM-246, LLM-247: keyed by index, interleaved, finished in index order when the reason arrives."""
    decoder = ChatDecoder()
    events: list[ev.Event] = []
    for frame in (
        chunk(call(1, "c1", "grep", "")),
        chunk(call(0, "c0", "read", '{"pa')),
        chunk(call(1, None, None, '{"q":1}')),
        chunk(call(0, None, None, 'th":"x"}')),
        chunk(call(0)),
    ):
        events += decoder.feed(frame)
    assert not [event for event in events if isinstance(event, ev.ToolCall)]
    ending = decoder.feed(chunk({}, "tool_calls"))
    assert ending == [
        ev.ToolInputEnd("c0", "read"),
        ev.ToolCall("c0", "read", {"path": "x"}),
        ev.ToolInputEnd("c1", "grep"),
        ev.ToolCall("c1", "grep", {"q": 1}),
    ]
    assert decoder.finish() == finish("tool-calls")
    deltas = [(event.id, event.text) for event in events if isinstance(event, ev.ToolInputDelta)]
    assert deltas == [("c0", '{"pa'), ("c1", '{"q":1}'), ("c0", 'th":"x"}')]


def test_calls_are_there_before_the_stream_ends() -> None:
    """LLM-068: a connection lost after the finish reason does not lose them."""
    decoder = ChatDecoder()
    events = decoder.feed(chunk(call(0, "c0", "read", "{}"), "tool_calls"))
    assert ev.ToolCall("c0", "read", {}) in events


def test_a_forced_call_that_ends_with_stop() -> None:
    """LLM-101: `stop` with a call is `tool-calls`; other reasons are not upgraded."""
    assert decode(chunk(call(0, "c0", "read", "{}")), chunk({}, "stop"))[-1] == ev.Finish("tool-calls")
    assert decode(chunk(call(0, "c0", "read", "{}")), chunk({}, "content_filter"))[-1] == ev.Finish("content-filter")


def test_text_after_a_call_is_another_block() -> None:
    """LLM-062, LLM-069: text closes when a call begins; what follows is a block of its own."""
    events = decode(
        chunk({"content": "one"}),
        chunk(call(0, "c0", "read", "{}")),
        chunk({"content": "two"}),
        chunk({}, "tool_calls"),
    )
    assert [type(event).__name__ for event in events] == [
        "StepStart",
        "TextStart",
        "TextDelta",
        "TextEnd",
        "ToolInputStart",
        "ToolInputDelta",
        "TextStart",
        "TextDelta",
        "TextEnd",
        "ToolInputEnd",
        "ToolCall",
        "StepFinish",
        "Finish",
    ]


@pytest.mark.parametrize("arguments", ["", " ", "\n", "{}"])
def test_empty_arguments_are_an_empty_object(arguments: str) -> None:
    """LLM-160."""
    events = decode(chunk(call(0, "c0", "read", arguments)), chunk({}, "tool_calls"))
    assert ev.ToolCall("c0", "read", {}) in events


@pytest.mark.parametrize("arguments", ['{"path":', "not json", "[1]", '"text"', "7", "null", "{} {}"])
def test_malformed_arguments_do_not_fail_the_turn(arguments: str) -> None:
    """LLM-162, LLM-163: the call is flagged with the reason, has no input, and earlier text and usage survive."""
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    events = decode(
        chunk({"content": "trying"}),
        chunk(call(0, "c0", "read", arguments)),
        chunk(call(1, "c1", "read", '{"path":"x"}')),
        chunk({}, "tool_calls", usage=usage),
    )
    bad, good = [event for event in events if isinstance(event, ev.ToolCall)]
    assert (bad.id, bad.input) == ("c0", {})
    assert bad.invalid
    assert good == ev.ToolCall("c1", "read", {"path": "x"})
    assert events[-1] == ev.Finish("tool-calls", ev.Usage(input=3, output=4))


def test_a_call_cut_by_the_output_limit_is_dropped() -> None:
    """LLM-162: nothing to execute, nothing to correct; the turn ends with `length`."""
    events = decode(chunk({"content": "so"}), chunk(call(0, "c0", "read", '{"pa')), chunk({}, "length"))
    assert not [event for event in events if isinstance(event, ev.ToolCall)]
    assert events[-1] == ev.Finish("length")


def test_an_error_object_ends_the_turn() -> None:
    """LLM-249, LLM-065, LLM-090: one provider-error with the usage known so far; nothing after it counts."""
    events = decode(
        chunk({"content": "so far"}, usage={"prompt_tokens": 9, "completion_tokens": 1}),
        encode({"error": {"message": "overloaded", "code": 529}}),
        chunk({"content": "ignored"}),
        chunk({}, "stop"),
        encode({"error": {"message": "again"}}),
    )
    assert events[-1] == ev.ProviderError("overloaded", ev.Usage(input=9, output=1))
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["so far"]


@pytest.mark.parametrize("error", ["just text", {"code": 7}, ["odd"], {"message": None}])
def test_an_error_of_any_shape_is_an_error(error: Any) -> None:
    """LLM-249: with words, whatever the provider put there."""
    (event,) = decode(encode({"error": error}))
    assert isinstance(event, ev.ProviderError)
    assert event.message


@pytest.mark.parametrize(
    "frames",
    [[], [b"[DONE]"], [chunk({"content": "Hel"})], [chunk(call(0, "c0", "read", "{}")), b"[DONE]"]],
    ids=["empty", "only the end mark", "in text", "in a call"],
)
def test_a_stream_without_a_finish_reason_was_cut(frames: list[bytes]) -> None:
    """LLM-343, LLM-247: a Transport failure, and the unfinished call is never called."""
    decoder = ChatDecoder()
    events = [event for frame in frames for event in decoder.feed(frame)]
    with pytest.raises(LLMError, match="truncated") as cut:
        decoder.finish()
    assert cut.value.reason == "Transport"
    assert not [event for event in events if isinstance(event, ev.ToolCall)]


USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
COUNTED = ev.Usage(input=10, output=5, cache_read=4, cache_write=1, reasoning=2)
ZERO = {"prompt_tokens": 0, "completion_tokens": 0}


@pytest.mark.parametrize(
    "frames",
    [
        [chunk({}, "stop", usage=USAGE)],
        [chunk({}, "stop"), encode({"choices": [], "usage": USAGE})],
        [chunk({}, "stop", usage={**USAGE, "completion_tokens": 1}), encode({"choices": [], "usage": USAGE})],
        [chunk({}, "stop", usage=USAGE), encode({"choices": [], "usage": ZERO})],
        [chunk({}, "stop", usage=None), encode({"usage": USAGE})],
    ],
    ids=["with the finish", "late", "twice", "zeros last", "without choices"],
)
def test_usage_wherever_it_comes(frames: list[bytes]) -> None:
    """LLM-083, LLM-087, LLM-250: the last report wins, except that zeros never replace a count."""
    assert decode(chunk({"content": "x"}), *frames)[-2:] == finish("stop", COUNTED)


def test_unknown_usage_stays_unknown() -> None:
    """LLM-081: no invented zeros."""
    (*_, last) = decode(chunk({"content": "x"}), chunk({}, "stop", usage={"prompt_tokens": 7}))
    assert last == ev.Finish("stop", ev.Usage(input=7))
    assert decode(chunk({}, "stop"))[-1] == ev.Finish("stop", None)


def test_a_finish_said_twice_is_one_finish() -> None:
    """LLM-065: the repetition neither repeats the calls nor changes the reason; late content is ignored."""
    events = decode(
        chunk(call(0, "c0", "read", "{}")),
        chunk({}, "tool_calls"),
        chunk({"content": "late"}, "stop", usage=USAGE),
        chunk({}, "tool_calls"),
    )
    assert len([event for event in events if isinstance(event, ev.ToolCall)]) == 1
    assert events[-2:] == finish("tool-calls", COUNTED)


@pytest.mark.parametrize(
    ("native", "canonical"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("content_filter", "content-filter"),
        ("eos_token_or_so", "unknown"),
    ],
)
def test_finish_reasons(native: str, canonical: str) -> None:
    """LLM-100."""
    assert decode(chunk({"content": "x"}), chunk({}, native))[-1] == ev.Finish(canonical)


def test_what_vendors_do_with_calls() -> None:
    """LLM-249: no index, no id, an id on every delta, arguments as an object, the reason in the same chunk."""
    no_index = decode(chunk(call(None, "c0", "read", "{}")), chunk({}, "tool_calls"))
    assert ev.ToolCall("c0", "read", {}) in no_index
    (made,) = [event for event in decode(chunk(call(0, None, "read", "{}"), "stop")) if isinstance(event, ev.ToolCall)]
    assert made.id
    repeated = decode(chunk(call(0, "c0", "read", '{"a"')), chunk(call(0, "c0", "read", ":1}")), chunk({}, "stop"))
    assert ev.ToolCall("c0", "read", {"a": 1}) in repeated
    whole = decode(chunk(call(0, "c0", "read", {"a": {"b": 1}}), "tool_calls"))
    assert ev.ToolCall("c0", "read", {"a": {"b": 1}}) in whole


def test_a_call_that_nobody_named_makes_no_sense() -> None:
    """LLM-246."""
    with pytest.raises(LLMError, match="missing id or name") as refused:
        decode(chunk(call(0, "c0", None, "{}")))
    assert refused.value.reason == "InvalidProviderOutput"


@pytest.mark.parametrize(
    "frame", [b"<html>", b"{", b'{"choices":7}', b'{"choices":[{"delta":{"content":5}}]}', b"[]", b"7"]
)
def test_garbage_is_named_with_an_excerpt(frame: bytes) -> None:
    """LLM-073: no JSON, or a needed field of another type."""
    with pytest.raises(LLMError) as refused:
        ChatDecoder().feed(frame)
    assert refused.value.reason == "InvalidProviderOutput"
    assert frame.decode() in refused.value.message


def test_what_is_missing_or_unknown_is_no_error() -> None:
    """LLM-073, LLM-317: absent containers and extra fields are passed over."""
    events = decode(
        encode({"object": "chat.completion.chunk", "obfuscation": "x"}),
        encode({"choices": []}),
        encode({"choices": None, "usage": None}),
        encode({"choices": [{"delta": None, "text": "t", "seed": 7, "token_id": 9}]}),
        encode({"choices": [{"delta": {"content": "x", "annotations": []}, "logprobs": None}]}),
        encode({"choices": [{"finish_reason": "stop", "stop_reason": 106}]}),
    )
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["x"]
