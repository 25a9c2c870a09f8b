"""Joining a text in the middle: nothing doubled, nothing lost, wherever it happens."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.event.bus import Announcement, Bus
from holdfast.core.runner.open_answers import OpenText
from holdfast.llm.text_buffer import TextBuffer
from holdfast.schema.codec import encode
from holdfast.server.web.live_text import LiveText

TYPE = "session.next.text.delta"
BLOCK = ("session.next.text", "msg_1", "t")


def delta(text: str) -> Announcement:
    data: dict[str, Any] = {"assistantMessageID": "msg_1", "textID": "t", "delta": text}
    return Announcement("evt_1", TYPE, "ses_1", encode({"id": "evt_1", "type": TYPE, "data": data}))


@given(
    st.lists(st.sampled_from(["receive", "announce", "read"]), max_size=30),
    st.lists(st.sampled_from(["receive", "announce"]), max_size=10),
    st.lists(st.sampled_from(["receive", "announce", "read"]), max_size=30),
)
def test_a_text_that_is_joined_in_the_middle_is_whole(before: list[str], between: list[str], after: list[str]) -> None:
    """WEB-125: received and announced before the subscription, between it and the reading, and afterwards."""
    bus, buffer, live = Bus(), TextBuffer(), LiveText()
    received: list[str] = []

    def act(what: str) -> None:
        if what == "receive":
            received.append(f"{len(received)} ")
            buffer.add(received[-1])
        elif what == "announce" and (text := buffer.take_new()):
            bus.announce(delta(text))

    for step in before:
        act(step)
    with bus.subscribe() as subscription:
        for step in between:
            act(step)
        rest = live.restore([OpenText("text", "msg_1", "t", buffer.taken())], subscription.take())
        assert rest == []
        shown = ""
        for step in [*after, "announce", "read"]:
            act(step)
            if step == "read":
                batch = subscription.take()
                assert live.unknown(batch) == set()
                live.add(batch)
                for frame in live.take(()):
                    shown = frame.text if frame.text is not None else shown + (frame.add or "")
    assert shown == "".join(received)


def test_a_block_that_has_ended_is_not_written_to_again() -> None:
    """WEB-125."""
    live = LiveText()
    live.start({BLOCK})
    live.open(BLOCK, "msg_1")
    live.end({BLOCK})
    assert live.unknown([delta("late")]) == set()
    live.add([delta("late")])
    assert live.take(()) == []


def test_text_of_a_message_that_is_not_there_yet_is_held() -> None:
    """WEB-121."""
    live = LiveText()
    live.start({BLOCK})
    live.open(BLOCK, "msg_1")
    live.add([delta("a")])
    assert live.unplaced({"msg_0"}) == {"msg_1"}
    assert live.take({"msg_1"}) == []
    (frame,) = live.take(())
    assert frame.text == "a"
