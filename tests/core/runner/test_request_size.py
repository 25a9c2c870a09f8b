"""The size of a request is recorded with its dispatch, from what was encoded anyway."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.runner.prefix import Prefix
from holdfast.core.runner.request_size import BLOCK, FrameSize, RequestSize, common_start
from holdfast.llm.body import Draft
from holdfast.schema.codec import decoder, encode
from holdfast.schema.turn_event import TurnDispatched

OLD = {
    "timestamp": 1,
    "sessionID": "ses_1",
    "agent": "build",
    "model": {"id": "m", "providerID": "p"},
    "attempt": 1,
    "baselineSeq": 0,
    "checkpointSeq": -1,
    "prunedSeq": -1,
    "tools": "t",
    "system": "s",
    "controls": "c",
    "lastStep": False,
}
LAST: TurnDispatched = decoder(TurnDispatched).decode(encode(OLD))


def draft(*messages: bytes) -> Draft:
    made = Draft(b'{"messages":[')
    made.begin_conversation()
    for message in messages:
        made.begin("user", b'{"text":"', b'"}')
        made.add(message)
    return made


def size(made: Draft) -> RequestSize:
    return RequestSize(made, made, FrameSize(system=3, baseline=1, tools=True))


PIECES = st.lists(st.binary(max_size=9), max_size=6)


@given(PIECES, PIECES, PIECES)
def test_the_common_start_is_the_longest_one(shared: list[bytes], one: list[bytes], other: list[bytes]) -> None:
    """WEB-201: in whatever pieces the texts are."""
    left, right = b"".join(shared + one), b"".join(shared + other)
    found = common_start(shared + one, [b"".join(shared), *other])
    assert found >= len(b"".join(shared))
    assert left[:found] == right[:found]
    assert left[found : found + 1] != right[found : found + 1] or found == len(left) == len(right)


def test_the_common_start_of_long_texts_is_found_in_any_block() -> None:
    """WEB-201."""
    long = b"x" * (3 * BLOCK)
    for at in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 77, len(long) - 1):
        assert common_start([long], [long[:at], b"y", long[at + 1 :]]) == at
    assert common_start([long], [long]) == len(long)


def test_the_length_of_a_body_is_that_of_its_bytes_and_an_extension_keeps_its_beginning() -> None:
    """WEB-200: nothing is encoded or joined to know it."""
    made = draft(b"one", b"two")
    before, kept = b"".join(made.chunks()), made.kept
    assert made.length == len(before)
    made.begin("assistant", b'{"said":"', b'"}')
    made.add(b"three")
    after = b"".join(made.chunks())
    assert made.length == len(after)
    assert after[:kept] == before[:kept]


def test_an_event_of_an_earlier_version_has_no_size() -> None:
    """WEB-200."""
    assert (LAST.bytes, LAST.kept) == (None, None)


def sized(prefix: Prefix, made: Draft | None, *, broken: bool) -> TurnDispatched:
    event = prefix._sized(LAST, size(made) if made is not None else None, broken=broken)
    prefix._last = event
    return event


def test_what_the_last_request_had_too_is_known_from_its_record() -> None:
    """WEB-201: also in another process, without its bytes."""
    first = draft(b"one")
    recorded = sized(Prefix(LAST, reverted=False), first, broken=False)
    assert recorded.bytes is not None
    assert (recorded.bytes.same, recorded.bytes.total) == (0, first.length)
    longer = draft(b"one", b"two")
    again = sized(Prefix(recorded, reverted=False), longer, broken=False)
    assert again.bytes is not None
    assert again.bytes.same == first.kept


def test_after_a_break_the_bytes_are_compared() -> None:
    """WEB-201."""
    prefix = Prefix(LAST, reverted=False)
    sized(prefix, draft(b"one", b"two"), broken=False)
    event = sized(prefix, draft(b"one", b"three"), broken=True)
    assert event.bytes is not None
    assert event.bytes.same == len(b'{"messages":[{"text":"one"}{"text":"t') + 1


def test_after_a_break_in_another_process_only_what_is_around_the_conversation_is_known() -> None:
    """WEB-201: it is the same where system text, tools and controls are."""
    recorded = sized(Prefix(LAST, reverted=False), draft(b"one"), broken=False)
    event = sized(Prefix(recorded, reverted=False), draft(b"one"), broken=True)
    assert event.bytes is not None
    assert event.bytes.same == len(b'{"messages":[')
    other = sized(Prefix(replace(recorded, system="other"), reverted=False), draft(b"one"), broken=True)
    assert other.bytes is not None
    assert other.bytes.same == 0


def test_a_step_that_sends_nothing_has_no_size_and_keeps_what_is_known() -> None:
    """WEB-200."""
    prefix = Prefix(LAST, reverted=False)
    sent = sized(prefix, draft(b"one"), broken=False)
    silent = sized(prefix, None, broken=False)
    assert (silent.bytes, silent.kept) == (None, sent.kept)
