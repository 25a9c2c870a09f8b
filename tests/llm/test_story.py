"""The model of the demonstration: it answers by the conversation alone, and counts like a provider with a cache."""

from __future__ import annotations

from typing import Any

from holdfast.llm.offline import Turn
from holdfast.llm.story.model import CACHE_BLOCK, StoryModel, choose
from holdfast.llm.story.script import FIX, KEEP_SIGNATURE, LOOK_ELSEWHERE, NOTES, REPLIES, STRANGER


def said(*messages: tuple[str, str], model: str = "story") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": role, "content": text} for role, text in messages]}


def test_the_turn_follows_from_the_conversation() -> None:
    """WEB-493: any process can go on; a steer belongs to the prompt before it."""
    conversation = [("system", "rules"), ("user", FIX), ("assistant", ""), ("user", KEEP_SIGNATURE)]

    assert choose(said(("user", FIX))) == (REPLIES[FIX][0], FIX)
    assert choose(said(*conversation)) == (REPLIES[FIX][1], FIX)


def test_a_checkpoint_that_repeats_prompts_does_not_confuse_it() -> None:
    """WEB-493: the last prompt counts."""
    assert choose(said(("user", f"notes: {FIX}"), ("user", LOOK_ELSEWHERE)))[1] == LOOK_ELSEWHERE
    assert choose(said(("user", f"{FIX} {LOOK_ELSEWHERE}")))[1] == LOOK_ELSEWHERE
    assert choose(said(("user", f"{FIX}\n\nWrite the working notes from …"))) == (NOTES, None)


def test_other_prompts_are_told_that_the_story_is_over() -> None:
    """WEB-493: also once it has come to its end."""
    over = [("user", FIX), *[("assistant", "")] * len(REPLIES[FIX])]

    assert choose(said(("user", "hello"))) == (STRANGER, None)
    assert choose(said(*over, ("user", "and now?"))) == (STRANGER, None)


def test_a_prefix_that_was_sent_before_is_cached_for_the_same_model() -> None:
    """WEB-490: in whole blocks, as providers count."""
    model, long = StoryModel(), "x" * 4000
    first = model.turn(said(("user", long))).usage
    again = model.turn(said(("user", long), ("user", "more"))).usage
    other = model.turn(said(("user", long), model="story-mini")).usage

    assert first is not None
    assert again is not None
    assert other is not None
    assert (first.cached, other.cached) == (0, 0)
    assert again.input - CACHE_BLOCK < again.cached + 30 <= again.input
    assert again.cached % CACHE_BLOCK == 0


def test_the_provider_is_busy_once() -> None:
    """WEB-490: the first request for one of the prompts is refused, so that there is a retry to see."""
    model, asked = StoryModel(), said(("user", LOOK_ELSEWHERE))

    assert model.turn(asked).fail == 503
    assert isinstance(model.turn(asked), Turn)
    assert model.turn(asked).fail is None
