"""A body that grows: what was put stays as it is, and markers are not part of it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.llm.body import Draft, Segments
from holdfast.schema.codec import decode_any, encode


@given(st.lists(st.binary(max_size=20), max_size=60))
def test_segments_join_to_what_was_appended(pieces: list[bytes]) -> None:
    segments = Segments()
    for piece in pieces:
        segments.append(piece)
    assert b"".join(segments) == b"".join(pieces)
    assert segments.length == sum(map(len, pieces))


def test_a_long_conversation_is_handed_out_in_few_segments() -> None:
    """LLM-364: handing out a long conversation is not handing out as many pieces as it has messages."""
    segments = Segments()
    for _ in range(10_000):
        segments.append(b"x" * 100)
    assert len(list(segments)) <= 21


def test_appending_copies_each_byte_a_bounded_number_of_times() -> None:
    """LLM-364: sizes fall by half, so a byte moves at most log2(n) times."""
    segments = Segments()
    for size in (1, 7, 300, 2, 2, 2, 9000, 1, 1):
        segments.append(b"x" * size)
    sizes = [len(piece) for piece in segments]
    assert all(left >= 2 * right for left, right in itertools.pairwise(sizes))


def draft_of(messages: list[tuple[str, list[str]]]) -> Draft:
    draft = Draft(b'{"messages":[')
    for role, blocks in messages:
        draft.begin(role, b'{"role":%s,"content":[' % encode(role), b"]}")
        for text in blocks:
            block = encode({"t": text})
            draft.add(block, mark=len(block) - 1)
    return draft


MESSAGES = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.lists(st.text(max_size=4), max_size=3)), max_size=12
)


@given(MESSAGES)
def test_a_draft_is_the_json_of_what_was_put(messages: list[tuple[str, list[str]]]) -> None:
    assert decode_any(b"".join(draft_of(messages).chunks())) == {
        "messages": [{"role": role, "content": [{"t": text} for text in blocks]} for role, blocks in messages]
    }


MARKER = b',"m":1'


@given(MESSAGES, st.integers(0, 3))
@settings(max_examples=200)
def test_markers_land_in_the_newest_messages_to_the_model(messages: list[tuple[str, list[str]]], newest: int) -> None:
    """LLM-217: one place in each message, its last block; taken out again, the bytes are the same."""
    draft = draft_of(messages)
    sent = b"".join(draft.chunks(marker=MARKER, newest=newest))
    assert sent.replace(MARKER, b"") == b"".join(draft.chunks())
    marked: list[tuple[int, int]] = [
        (at, place)
        for at, message in enumerate(decode_any(sent)["messages"])
        for place, block in enumerate(message["content"])
        if "m" in block
    ]
    users = [at for at, (role, blocks) in enumerate(messages) if role == "user" and blocks]
    assert marked == [(at, len(messages[at][1]) - 1) for at in users[len(users) - min(newest, len(users)) :]]


def test_a_marker_goes_to_the_last_text_and_else_to_the_last_block() -> None:
    """LLM-212"""
    draft = Draft(b"[", b"]")
    draft.begin("user", b"[", b"]")
    draft.add(b"1", mark=1, text=False)
    draft.add(b"2", mark=1, text=False)
    assert b"".join(draft.chunks(marker=b"!", newest=1)) == b"[[1,2!]]"
    draft.add(b"3", mark=1)
    draft.add(b"4", mark=1, text=False)
    assert b"".join(draft.chunks(marker=b"!", newest=1)) == b"[[1,2,3!,4]]"
    draft.add(b"5", mark=1)
    assert b"".join(draft.chunks(marker=b"!", newest=1)) == b"[[1,2,3,4,5!]]"
    draft.unmark()
    assert b"".join(draft.chunks(marker=b"!", newest=1)) == b"[[1,2,3,4,5]]"


def test_the_newest_markers_are_kept_within_the_limit() -> None:
    """LLM-214, LLM-217: the newest are kept."""
    draft = draft_of([("user", ["a"]), ("user", ["b"]), ("user", ["c"])])
    draft.spare = 1
    assert b"".join(draft.chunks(marker=MARKER, newest=3)).count(MARKER) == 1
    assert b"".join(draft.chunks(marker=MARKER, newest=3)).endswith(b'{"t":"c","m":1}]}]}')
    draft.spare = 0
    assert MARKER not in b"".join(draft.chunks(marker=MARKER, newest=3))


def test_a_message_taken_back_leaves_no_trace() -> None:
    draft = draft_of([("user", ["a"])])
    before = b"".join(draft.chunks())
    draft.begin("system", b'{"role":"system","content":[', b"]}")
    draft.add(b'"x"', mark=3)
    draft.drop()
    draft.begin("user", b'{"role":"user","content":[', b"]}")
    draft.add(b'"y"', mark=3)
    after = b"".join(draft.chunks(marker=b"!", newest=2))
    assert after == before.replace(b'"a"}', b'"a"!}').replace(b"]}]}", b']},{"role":"user","content":["y"!]}]}')


@pytest.mark.parametrize("own", [0, 1])
def test_a_draft_is_empty_until_the_conversation_begins(own: int) -> None:
    """LLM-033"""
    draft = draft_of([("system", ["rules"])] * own)
    draft.begin_conversation()
    assert draft.empty
    draft.begin("user", b"{", b"}")
    assert not draft.empty


def values(draft: Draft) -> Any:
    return decode_any(b"".join(draft.chunks()))


def test_a_trailer_ends_an_open_user_message_and_is_never_kept() -> None:
    draft = draft_of([("user", ["a"])])
    draft.trailer = b',{"t":"only now"}'
    assert values(draft)["messages"][0]["content"] == [{"t": "a"}, {"t": "only now"}]
    draft.begin("assistant", b'{"role":"assistant","content":[', b"]}")
    assert values(draft)["messages"][0]["content"] == [{"t": "a"}]
