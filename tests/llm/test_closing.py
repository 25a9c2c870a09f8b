"""Messages at the end of one request: encoded on top of the conversation, in every protocol, and never part of it."""

from __future__ import annotations

import itertools

import pytest
from tests.llm.test_official_types import MODELS, complaints, protocol_of

from holdfast.llm.model import Model
from holdfast.llm.request import (
    Message,
    ToolCallPart,
    ToolDefinition,
    assistant,
    make_request,
    tool_result,
    update,
    user,
)
from holdfast.llm.stream import Prepared, prepare

CLOSING = update("Answer in rhymes.")
TURNS: list[tuple[Message, ...]] = [
    (user("one"),),
    (assistant("looking", ToolCallPart(id="c1", name="read", input={})), tool_result("c1", "read", {"a": 1})),
    (assistant("found"), user("two"), update("The date has changed.")),
    (assistant("good"), user("three")),
]


READ = ToolDefinition(name="read", description="Read.", input_schema={"type": "object", "properties": {}})


def request(model: Model) -> Prepared:
    return prepare(model, make_request(system="Be good.", tools=(READ,)))


@pytest.mark.parametrize("name", list(MODELS))
def test_a_closing_is_encoded_on_top_and_leaves_the_draft_as_it_was(name: str) -> None:
    """SES-294, LLM-364: the request is what the vendor describes, and the draft goes on as if it had not been there."""
    growing, plain = request(MODELS[name]), request(MODELS[name])
    for turn in TURNS:
        growing.extend(turn)
        plain.extend(turn)
        closed = growing.followed_by((CLOSING,))
        assert b"Answer in rhymes." in closed.body
        assert growing.body == plain.body
        assert complaints(protocol_of(MODELS[name]), closed.body) == []


@pytest.mark.parametrize("name", list(MODELS))
def test_what_comes_before_the_closing_begins_the_next_request(name: str) -> None:
    """SES-213, SES-294: byte for byte, markers left out."""
    growing = request(MODELS[name])
    bodies = []
    for turn in TURNS:
        growing.extend(turn)
        bodies.append((_unmarked(growing), _unmarked(growing.followed_by((CLOSING,)))))
    for (plain, closed), (_, following) in itertools.pairwise(bodies):
        kept = _common(plain, closed)
        assert following.startswith(plain[: len(kept)])
        assert len(plain) - len(kept) <= 32  # only the bytes that close the body


@pytest.mark.parametrize("name", list(MODELS))
def test_cache_markers_stand_before_the_closing(name: str) -> None:
    """SES-294: what is cached is what the next request begins with."""
    growing = request(MODELS[name])
    for turn in TURNS:
        growing.extend(turn)
        closed = growing.followed_by((CLOSING,)).body
        end = closed.index(b"Answer in rhymes.")
        for marker in (b'"cache_control"', b'"cachePoint"'):
            assert marker not in closed[end:]
            assert closed.count(marker) == growing.body.count(marker)


def _unmarked(prepared: Prepared) -> bytes:
    return b"".join(prepared.draft.chunks())


def _common(one: bytes, other: bytes) -> bytes:
    length = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return one[:length]
