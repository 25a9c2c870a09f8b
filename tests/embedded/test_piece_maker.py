"""Pieces from events, however the connection fares."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast import DurableEvent, LiveEvent, ModelRef
from holdfast.embedded.piece_maker import PieceMaker
from holdfast.embedded.pieces import Piece, RetryPiece, TextPiece
from holdfast.schema import live_event as live
from holdfast.schema import session_event as ev
from holdfast.schema.event import DurablePosition
from holdfast.schema.prompt import Prompt, PromptOptions
from holdfast.schema.session import NO_TOKENS

SESSION, PROMPT, ANSWER, TEXT = "ses_1", "msg_1", "msg_2", "text_1"
FIXED: dict[str, Any] = {"timestamp": 1, "session_id": SESSION}
BLOCK: dict[str, Any] = {**FIXED, "assistant_message_id": ANSWER, "text_id": TEXT}


def durable(seq: int, data: Any) -> DurableEvent:
    return DurableEvent(
        id=f"evt_{seq}", type="x", durable=DurablePosition(aggregate_id=SESSION, seq=seq, version=1), data=data
    )


def delta(text: str) -> LiveEvent:
    return LiveEvent(id="evt_live", type="x", data=live.TextDelta(**BLOCK, delta=text))


def prompted(seq: int, id: str = PROMPT, delivery: Any = "steer", no_reply: bool | None = None) -> DurableEvent:
    prompt = Prompt(text="hi", options=PromptOptions(no_reply=True) if no_reply else None)
    return durable(seq, ev.Prompted(**FIXED, message_id=id, prompt=prompt, delivery=delivery))


STARTED = ev.TextStarted(**BLOCK)
ENDED = ev.TextEnded(**BLOCK, text="one two three")


@pytest.fixture
def maker() -> PieceMaker:
    maker = PieceMaker()
    maker.expect(PROMPT, 1)
    return maker


def take(maker: PieceMaker, *events: DurableEvent | LiveEvent, live_begun: bool = True) -> list[Piece]:
    return [piece for event in events for piece in maker.take(event, live_begun=live_begun)]


def test_deltas_are_passed_on_and_the_end_adds_nothing(maker: PieceMaker) -> None:
    """API-502."""
    pieces = take(maker, prompted(2), durable(3, STARTED), delta("one "), delta("two three"), durable(4, ENDED))
    assert [piece.text for piece in pieces] == ["one ", "two three"]


def test_a_lost_connection_loses_and_repeats_nothing(maker: PieceMaker) -> None:
    """API-502: later deltas may have a gap before them, so the rest comes with the end; replayed events count once."""
    pieces = take(maker, prompted(2), durable(3, STARTED), delta("one "))
    maker.connection_lost()
    pieces += take(maker, prompted(2), durable(3, STARTED), live_begun=False)
    pieces += take(maker, delta("three"), durable(4, ENDED), durable(4, ENDED))
    assert [piece.text for piece in pieces] == ["one ", "two three"]


def test_a_block_that_began_before_live_events_comes_whole(maker: PieceMaker) -> None:
    """API-502."""
    pieces = take(maker, prompted(2), durable(3, STARTED), live_begun=False)
    pieces += take(maker, delta("two "), durable(4, ENDED))
    assert [piece.text for piece in pieces] == ["one two three"]


def test_a_gap_that_nobody_noticed_is_corrected(maker: PieceMaker) -> None:
    """API-502: the recorded text decides."""
    pieces = take(maker, prompted(2), durable(3, STARTED), delta("three"), durable(4, ENDED))
    whole = TextPiece(text="one two three", message_id=ANSWER, part_id=TEXT, replaces=True)
    assert pieces == [TextPiece(text="three", message_id=ANSWER, part_id=TEXT), whole]


def test_only_what_follows_the_prompt_counts(maker: PieceMaker) -> None:
    """API-501: not the work before it, nor that of a queued prompt after it."""
    before = take(maker, durable(2, STARTED), delta("one"), durable(3, ENDED))
    take(maker, prompted(4), prompted(5, "msg_8"), prompted(6, "msg_9", "queue", no_reply=True))
    during = maker.next_began
    take(maker, prompted(7, "msg_10", "queue"))
    after = take(maker, durable(8, STARTED), durable(9, ENDED))
    assert (before, during, after, maker.next_began) == ([], False, [], True)


def test_another_attempt_is_a_piece(maker: PieceMaker) -> None:
    """API-501: the provider failed, and the request is sent again."""
    retried = ev.Retried(**FIXED, attempt=1, error=ev.RetryError(message="overloaded", is_retryable=True))
    assert take(maker, prompted(2), durable(3, retried)) == [RetryPiece(attempt=1, error="overloaded")]


def test_a_prompt_that_joins_after_the_answer_is_other_work(maker: PieceMaker) -> None:
    """API-501: one that joins before the last step is answered by the same step."""
    step: dict[str, Any] = {**FIXED, "assistant_message_id": ANSWER}
    started = ev.StepStarted(**step, agent="build", model=ModelRef(id="m", provider_id="p"))
    ended: dict[str, Any] = {"cost": 0.0, "tokens": NO_TOKENS}
    take(maker, prompted(2), durable(3, started), durable(4, ev.StepEnded(**step, finish="tool-calls", **ended)))
    assert (maker.may_be_over, maker.next_began) == (False, False)
    take(maker, prompted(5, "msg_8"), durable(6, started))
    take(maker, durable(7, ev.StepEnded(**step, finish="stop", **ended)))
    assert (maker.may_be_over, maker.next_began) == (True, False)
    take(maker, prompted(8, "msg_9"))
    assert (maker.next_began, maker.answer_id) == (True, ANSWER)


def test_a_synthetic_input_after_the_answer_is_other_work(maker: PieceMaker) -> None:
    """API-501: text that the runtime adds by itself is not."""
    step: dict[str, Any] = {**FIXED, "assistant_message_id": ANSWER}
    started = ev.StepStarted(**step, agent="build", model=ModelRef(id="m", provider_id="p"))
    ended = ev.StepEnded(**step, finish="stop", cost=0.0, tokens=NO_TOKENS)
    take(maker, prompted(2), durable(3, started), durable(4, ended))
    take(maker, durable(5, ev.Synthetic(**FIXED, message_id="msg_8", text="a note")))
    assert not maker.next_began
    take(maker, durable(6, ev.Synthetic(**FIXED, message_id="msg_9", text="an input", delivery="steer")))
    assert maker.next_began


def test_a_prompt_that_joins_after_a_rejected_answer_joins_the_same_work(maker: PieceMaker) -> None:
    """API-512: a rejected answer is not the end."""
    step: dict[str, Any] = {**FIXED, "assistant_message_id": ANSWER}
    started = ev.StepStarted(**step, agent="build", model=ModelRef(id="m", provider_id="p"))
    rejected = ev.StepEnded(**step, finish="stop", cost=0.0, tokens=NO_TOKENS, rejected="it is not JSON")
    take(maker, prompted(2), durable(3, started), durable(4, rejected), prompted(5, "msg_8"))
    assert (maker.may_be_over, maker.next_began) == (False, False)


@pytest.mark.parametrize("seed", range(50))
def test_the_text_is_whole_wherever_the_connection_breaks(maker: PieceMaker, seed: int) -> None:
    """API-502: several parts, broken at random places, with the replay that follows."""
    chance = random.Random(seed)
    events: list[DurableEvent | LiveEvent] = [prompted(2)]
    expected = ""
    for number in range(5):
        block = {**BLOCK, "text_id": f"text_{number}"}
        words = [f"{number}.{word} " for word in range(chance.randrange(6))]
        expected += "".join(words)
        events.append(durable(len(events) + 2, ev.TextStarted(**block)))
        events += [LiveEvent(id="evt_x", type="x", data=live.TextDelta(**block, delta=word)) for word in words]
        events.append(durable(len(events) + 2, ev.TextEnded(**block, text="".join(words))))
    pieces: list[Piece] = []
    place = 0
    while place < len(events):
        until = chance.randint(place + 1, len(events))
        for event in events[place:until]:
            pieces += maker.take(event, live_begun=True)
        place = until
        if place < len(events):
            maker.connection_lost()
            place = chance.randint(until, len(events))
            for event in events[:place]:  # the replay has durable events only
                if event.durable is not None:
                    pieces += maker.take(event, live_begun=False)
    assert not any(isinstance(piece, TextPiece) and piece.replaces for piece in pieces)
    assert "".join(piece.text for piece in pieces) == expected


def test_of_a_block_that_broke_off_nothing_is_passed_on_twice(maker: PieceMaker) -> None:
    """SES-474: less of it was kept than was passed on, or more than had arrived before the connection was lost."""
    broken = ev.TextEnded(**BLOCK, text="one two ", broken_off=True)
    pieces = take(maker, prompted(2), durable(3, STARTED), delta("one "), delta("two three"))
    maker.connection_lost()
    assert take(maker, durable(4, broken)) == []
    other = PieceMaker()
    other.expect(PROMPT, 1)
    pieces = take(other, prompted(2), durable(3, STARTED), delta("one "))
    other.connection_lost()
    pieces += take(other, durable(4, broken))
    assert [piece.text for piece in pieces] == ["one ", "two "]
