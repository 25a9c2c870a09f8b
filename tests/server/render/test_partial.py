"""Entries of an answer whose blocks are open."""

from __future__ import annotations

from holdfast.schema.model import ModelRef
from holdfast.schema.rendered import AssistantEntry, RenderedCall, RenderedReasoning, RenderedText, TextFormat
from holdfast.schema.session_message import (
    AssistantMessage,
    Part,
    ReasoningPart,
    TextPart,
    Time,
    ToolPart,
    ToolPending,
    ToolTime,
)
from holdfast.server.render.entries import Surroundings, entry_of

HIDDEN = "ab\u202ecd\x1b[31m"


def shown(form: TextFormat) -> list[object]:
    parts: tuple[Part, ...] = (
        TextPart(id="t", text="", partial=HIDDEN),
        ReasoningPart(id="r", text="", partial=HIDDEN),
        ToolPart(id="c", name="write", state=ToolPending(input="", partial="x" * 9_000), time=ToolTime(created=1)),
        TextPart(id="b", text="half", broken_off=True),
    )
    model = ModelRef(id="m", provider_id="p")
    message = AssistantMessage(id="msg_1", agent="build", model=model, content=parts, time=Time(created=1))
    entry = entry_of(message, 1, Surroundings(directory="/p", form=form))
    assert isinstance(entry, AssistantEntry)
    return list(entry.parts)


def test_open_parts_have_the_text_so_far_as_live_text_is_sent() -> None:
    """SES-472: plain text in either format; for a page without what cannot be seen. Of an input the end."""
    text, reasoning, call, broken = shown("html")
    assert isinstance(text, RenderedText)
    assert isinstance(reasoning, RenderedReasoning)
    assert isinstance(call, RenderedCall)
    assert (text.html, text.open, text.partial) == ("", True, reasoning.partial)
    assert text.partial.startswith("ab")
    assert not set(text.partial) & set("\u202e\x1b")
    assert 0 < len(call.partial) < 9_000
    assert isinstance(broken, RenderedText)
    assert (broken.broken_off, broken.partial, broken.open) == (True, "", False)
    plain = shown("text")[0]
    assert isinstance(plain, RenderedText)
    assert (plain.text, plain.partial) == ("", HIDDEN)
