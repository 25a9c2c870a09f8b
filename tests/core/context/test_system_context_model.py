"""Random histories of values, outages, additions and removals against a plain model of what the model was told."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.context.conftest import Fact, of, steps

from holdfast.core.context.snapshot import Snapshot
from holdfast.core.context.source import UNAVAILABLE
from holdfast.core.context.system_context import (
    ReplacementBlocked,
    ReplacementReady,
    Unchanged,
    Updated,
    initialize,
    observe,
    reconcile,
    replace,
)

KEYS = ("core/a", "core/b", "core/c", "core/d")
STATES = st.sampled_from(["absent", "lost", "v0", "v1", "v2"])
WORLDS = st.tuples(*(STATES for _ in KEYS)).map(lambda states: dict(zip(KEYS, states, strict=True)))


def facts_of(world: dict[str, str]) -> list[Fact]:
    return [
        Fact(key, UNAVAILABLE if state == "lost" else state, optional=True)
        for key, state in world.items()
        if state != "absent"
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(WORLDS, min_size=1, max_size=12))
def test_no_update_is_lost_or_repeated(worlds: list[dict[str, str]]) -> None:
    """CTX-027, CTX-040, CTX-043, CTX-045, CTX-046, CTX-047, CTX-048, CTX-049: the model knows the newest observable
    state after every boundary, hears each change once, and every source is observed exactly once a boundary."""
    known: dict[str, str] = {}
    snapshot: Snapshot | None = None
    for world in worlds:
        facts = facts_of(world)
        observation = asyncio.run(observe(of(*facts)))
        assert [fact.loads for fact in facts] == [1] * len(facts)
        expected = {
            **{key: state for key, state in known.items() if world[key] == "lost"},
            **{key: state for key, state in world.items() if state.startswith("v")},
        }
        if snapshot is None:
            generation = initialize(observation)
            snapshot = generation.snapshot
            assert generation.baseline == "\n\n".join(f"{key[5:]} is {state}" for key, state in expected.items())
        else:
            text = [
                f"{key[5:]} is now {expected[key]}" if key in known else f"{key[5:]} is {expected[key]}"
                for key in KEYS
                if key in expected and known.get(key) != expected[key]
            ]
            text += [f"Removed {key[5:]}" for key in sorted(set(known) - set(expected))]
            outcome = reconcile(observation, snapshot)
            if text:
                assert isinstance(outcome, Updated)
                assert outcome.text == "\n\n".join(text)
                snapshot = Snapshot.decode(outcome.snapshot.encode())
            else:
                assert outcome == Unchanged()
        known = expected
        assert {key: snapshot.value(key, Fact(key).codec) for key in snapshot} == known
        assert reconcile(observation, snapshot) == Unchanged()


@settings(max_examples=100, deadline=None)
@given(WORLDS, WORLDS)
def test_replace_blocks_exactly_on_what_was_admitted_and_is_lost(before: dict[str, str], now: dict[str, str]) -> None:
    """CTX-042, CTX-052, CTX-053, CTX-054: otherwise the new baseline is the whole of what can be observed."""
    snapshot = initialize(asyncio.run(observe(of(*facts_of(before))))).snapshot
    outcome = replace(asyncio.run(observe(of(*facts_of(now)))), snapshot)
    lost = tuple(key for key, state in now.items() if state == "lost" and key in snapshot)
    if lost:
        assert outcome == ReplacementBlocked(lost)
        return
    assert isinstance(outcome, ReplacementReady)
    present = {key: state for key, state in now.items() if state.startswith("v")}
    assert outcome.generation.baseline == "\n\n".join(f"{key[5:]} is {state}" for key, state in present.items())
    assert list(outcome.generation.snapshot) == list(present)


@pytest.mark.anyio
async def test_order_does_not_depend_on_completion() -> None:
    """CTX-027: loaders that end in any order give the same text."""

    async def after(turns: int, value: str) -> str:
        await steps(turns)
        return value

    texts = set()
    for delays in ((3, 2, 1), (1, 2, 3), (2, 0, 4)):
        facts = [Fact(key) for key in KEYS[:3]]
        for fact, turns in zip(facts, delays, strict=True):
            fact.value = after(turns, fact.name)
        texts.add(initialize(await observe(of(*facts))).baseline)
    assert texts == {"a is a\n\nb is b\n\nc is c"}
