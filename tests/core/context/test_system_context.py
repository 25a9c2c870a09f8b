"""The algebra: compose, observe once, and exactly one outcome."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.core.context.conftest import Fact, of, seen, steps

from holdfast.core.context.errors import DuplicateKeyError, InitializationBlocked
from holdfast.core.context.metrics import Metrics
from holdfast.core.context.snapshot import Snapshot
from holdfast.core.context.source import ABSENT, UNAVAILABLE, JsonCodec, Source, constant
from holdfast.core.context.system_context import (
    EMPTY,
    Generation,
    ReplacementBlocked,
    ReplacementReady,
    SystemContext,
    Unchanged,
    Updated,
    combine,
    initialize,
    make,
    observe,
    reconcile,
    replace,
)

pytestmark = pytest.mark.anyio


def admitted(*facts: Fact) -> Snapshot:
    snapshot = initialize(seen(*facts)).snapshot
    for fact in facts:
        fact.rendered.clear()
    return snapshot


def keys_of(context: SystemContext) -> list[str]:
    return [source.key for source in context._sources]


# -- composing -----------------------------------------------------------------------------------------------------


def test_combine_keeps_order_and_empty_changes_nothing() -> None:
    """CTX-025, CTX-026: caller order, identity on both sides, associative."""
    a, b, c = (Fact(f"core/{name}").context() for name in "bac")
    assert keys_of(combine([EMPTY, a, EMPTY, b, c])) == ["core/b", "core/a", "core/c"]
    assert keys_of(combine([combine([a, b]), c])) == keys_of(combine([a, combine([b, c])]))
    assert keys_of(combine([])) == keys_of(EMPTY) == []


def test_a_shared_key_is_refused_without_loading() -> None:
    """CTX-026: at once, even if both would say the same."""
    first, second = Fact("core/x"), Fact("core/x")
    with pytest.raises(DuplicateKeyError) as refused:
        of(Fact("core/a"), first, second)
    assert refused.value.key == "core/x"
    assert first.loads == second.loads == 0


# -- observing -----------------------------------------------------------------------------------------------------


def waiting(key: str, log: list[str], gate: asyncio.Event, *, timeout: float | None = None) -> SystemContext:
    async def load() -> str:
        log.append(f"start {key}")
        await gate.wait()
        log.append(f"end {key}")
        return key

    return make(
        Source(
            key=key,
            codec=JsonCodec(str),
            load=load,
            baseline=lambda value: f"B {value}",
            update=lambda _, value: f"U {value}",
            timeout=timeout,
        )
    )


async def test_sources_are_observed_at_the_same_time_and_in_order() -> None:
    """CTX-027, CTX-028: all have started before one has ended; the text follows the context, not completion."""
    log: list[str] = []
    gates = [asyncio.Event() for _ in range(3)]
    context = combine(waiting(f"core/{index}", log, gate) for index, gate in enumerate(gates))
    task = asyncio.create_task(observe(context))
    await steps(5)
    for gate in reversed(gates):
        gate.set()
        await steps(3)
    assert log[:3] == ["start core/0", "start core/1", "start core/2"]
    assert log[3:] == ["end core/2", "end core/1", "end core/0"]
    assert initialize(await task).baseline == "B core/0\n\nB core/1\n\nB core/2"


@pytest.mark.parametrize("count", [1, 3])
async def test_an_observation_has_a_bound_and_expiry_is_unavailable(count: int) -> None:
    """CTX-021: no exception reaches the turn; the expiry is counted."""
    metrics = Metrics()
    context = combine(waiting(f"core/{index}", [], asyncio.Event(), timeout=0.01) for index in range(count))
    observation = await observe(context, metrics)
    assert [value for _, value in observation] == [UNAVAILABLE] * count
    assert metrics.read()["context.source.timeout"]["core/0"]["times"] == 1


async def test_a_time_out_inside_a_loader_is_its_own_defect() -> None:
    """CTX-013, CTX-021: only the bound of the observation means unavailable."""

    async def load() -> str:
        raise TimeoutError("mine")

    source = Source(key="core/x", codec=JsonCodec(str), load=load, baseline=str, update=lambda _, now: now, timeout=9)
    with pytest.raises(TimeoutError, match="mine"):
        await observe(make(source))


async def test_one_defect_ends_the_others_and_leaves_nothing_running() -> None:
    """CTX-013: the defect itself is raised, and no task survives it."""
    log: list[str] = []
    before = asyncio.all_tasks()

    async def broken() -> str:
        await steps(5)
        raise LookupError("broken")

    source = Source(key="core/broken", codec=JsonCodec(str), load=broken, baseline=str, update=lambda _, now: now)
    with pytest.raises(LookupError):
        await observe(combine([waiting("core/held", log, asyncio.Event()), make(source)]))
    assert asyncio.all_tasks() == before
    assert log == ["start core/held"]


async def test_a_defect_of_a_direct_loader_leaves_no_coroutine_behind() -> None:
    """CTX-013: nothing that was begun is left waiting; a coroutine nobody awaited would warn."""

    async def broken() -> str:
        raise LookupError("broken")

    source = Source(
        key="core/z", codec=JsonCodec(str), load=broken, baseline=str, update=lambda _, now: now, immediate=True
    )
    held = [waiting(f"core/held-{number}", [], asyncio.Event()) for number in range(2)]
    with pytest.raises(LookupError):
        await observe(combine([*held, make(source)]))
    with pytest.raises(LookupError):
        await observe(combine([make(source), held[0]]))


async def test_immediate_sources_are_loaded_in_turn_without_a_task() -> None:
    """CTX-216, CTX-027: beside at most one source that may wait, nothing but the observing task runs."""
    tasks: set[asyncio.Task[Any] | None] = set()

    async def load() -> str:
        tasks.add(asyncio.current_task())
        return "here"

    def source(key: str, *, immediate: bool) -> SystemContext:
        return make(
            Source(
                key=key,
                codec=JsonCodec(str),
                load=load,
                baseline=str,
                update=lambda _, now: now,
                immediate=immediate,
            )
        )

    local = [source(f"core/{number}", immediate=True) for number in range(3)]
    await observe(combine([*local, source("core/slow", immediate=False)]))
    assert tasks == {asyncio.current_task()}


async def test_immediate_sources_are_loaded_while_others_wait() -> None:
    """CTX-216, CTX-027, CTX-028: none of them waits for the slow ones; the order is that of the context."""
    log: list[str] = []
    gate = asyncio.Event()

    async def load() -> str:
        log.append("immediate")
        gate.set()
        return "core/immediate"

    source = Source(
        key="core/immediate", codec=JsonCodec(str), load=load, baseline=str, update=lambda _, now: now, immediate=True
    )
    slow = [waiting(f"core/slow-{number}", log, gate) for number in range(2)]
    observation = await observe(combine([slow[0], make(source), slow[1]]))
    assert [value for _, value in observation] == ["core/slow-0", "core/immediate", "core/slow-1"]
    assert log.index("immediate") < log.index("end core/slow-0")


async def test_an_absent_source_is_not_in_the_observation() -> None:
    """CTX-056, CTX-057, CTX-047: its removal is told, unlike that of a source that is unavailable."""
    fact, other = Fact("core/x"), Fact("core/y")
    snapshot = initialize(await observe(of(fact, other))).snapshot
    fact.value = other.value = UNAVAILABLE
    assert reconcile(await observe(of(fact, other)), snapshot) == Unchanged()
    fact.value = ABSENT
    outcome = reconcile(await observe(of(fact, other)), snapshot)
    assert isinstance(outcome, Updated)
    assert (outcome.text, list(outcome.snapshot)) == ("Removed x", ["core/y"])
    assert initialize(await observe(of(fact))).baseline == ""


async def test_cancellation_is_not_unavailability() -> None:
    """CTX-056: cancelling the turn's preparation cancels its loaders and goes on up."""
    log: list[str] = []
    before = asyncio.all_tasks()
    context = combine(waiting(f"core/{index}", log, asyncio.Event(), timeout=60) for index in range(2))
    task = asyncio.create_task(observe(context))
    await steps(5)
    assert len(log) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before


# -- initialize ----------------------------------------------------------------------------------------------------


def test_the_empty_context_has_the_empty_baseline() -> None:
    """CTX-028: no text and no entry."""
    generation = initialize(())
    assert (generation.baseline, generation.snapshot.encode()) == ("", "{}")


def test_initialize_gives_every_text_and_one_entry_each() -> None:
    """CTX-030, CTX-003: the joined text, and a snapshot in the same order."""
    generation = initialize(seen(Fact("core/b"), Fact("core/a", removable=False)))
    assert generation.baseline == "b is v0\n\na is v0"
    assert generation.snapshot.encode() == '{"core/b":{"value":"v0","removed":"Removed b"},"core/a":{"value":"v0"}}'


def test_a_first_baseline_is_complete_or_not_at_all() -> None:
    """CTX-031, CTX-032, CTX-033: all unavailable required keys, in context order, also in the message."""
    present, lost = Fact("core/m"), [Fact("core/z", UNAVAILABLE), Fact("core/a", UNAVAILABLE)]
    with pytest.raises(InitializationBlocked, match=r"core/z, core/a$") as blocked:
        initialize(seen(lost[0], present, lost[1]))
    assert blocked.value.keys == ("core/z", "core/a")
    assert present.rendered == []


def test_optional_sources_wait_until_they_are_there() -> None:
    """CTX-020, CTX-034, CTX-043: left out of the first baseline, then said once as something new."""
    fact, optional = Fact("core/a"), Fact("core/o", UNAVAILABLE, optional=True)
    generation = initialize(seen(fact, optional))
    assert generation.baseline == "a is v0"
    assert list(generation.snapshot) == ["core/a"]
    optional.value = "here"
    outcome = reconcile(seen(fact, optional), generation.snapshot)
    assert isinstance(outcome, Updated)
    assert outcome.text == "o is here"
    assert (
        Source(key="core/x", codec=JsonCodec(str), load=constant(""), baseline=str, update=lambda _, it: it).optional
        is False
    )


# -- reconcile -----------------------------------------------------------------------------------------------------


def test_equal_values_reconcile_to_unchanged() -> None:
    """CTX-040, CTX-044, CTX-049: no text, no new snapshot, no rendering."""
    facts = Fact("core/a"), Fact("core/b")
    snapshot = admitted(*facts)
    assert reconcile(seen(*facts), snapshot) == Unchanged()
    assert reconcile((), Snapshot({})) == Unchanged()
    assert [fact.rendered for fact in facts] == [[], []]


def test_changes_additions_and_removals_are_one_text_in_a_fixed_order() -> None:
    """CTX-043, CTX-045, CTX-047, CTX-048, CTX-019: context order, then removals by key; the old value is not said."""
    a, b, c, gone = Fact("core/a", "old"), Fact("core/b"), Fact("core/c"), [Fact("core/z"), Fact("core/y")]
    snapshot = admitted(a, b, *gone)
    a.value = "new"
    outcome = reconcile(seen(c, b, a), snapshot)
    assert isinstance(outcome, Updated)
    assert outcome.text == "c is v0\n\na is now new\n\nRemoved y\n\nRemoved z"
    assert outcome.keys == ("core/c", "core/a", "core/y", "core/z")
    assert {key: bytes(outcome.snapshot[key].value) for key in outcome.snapshot} == {
        "core/a": b'"new"',
        "core/b": b'"v0"',
        "core/c": b'"v0"',
    }
    assert "old" not in outcome.text


def test_removals_are_in_the_order_of_their_keys() -> None:
    """CTX-048: whatever their order in the snapshot."""
    outcome = reconcile((), admitted(Fact("core/z"), Fact("core/a")))
    assert isinstance(outcome, Updated)
    assert outcome.text == "Removed a\n\nRemoved z"


def test_an_unchanged_entry_is_carried_over_as_it_was_stored() -> None:
    """CTX-044: also its removal text, whatever the source would say today."""
    kept, changed = Fact("core/kept", removable=False), Fact("core/changed", "v1")
    snapshot = Snapshot.decode(
        '{"core/kept":{"value":"v0","removed":"an older text"},"core/changed":{"value":"v0","removed":"r"}}'
    )
    outcome = reconcile(seen(kept, changed), snapshot)
    assert isinstance(outcome, Updated)
    assert outcome.snapshot["core/kept"] is snapshot["core/kept"]
    assert outcome.snapshot["core/changed"].removed == "Removed changed"


def test_unavailability_alone_says_nothing_and_forgets_nothing() -> None:
    """CTX-046, CTX-056: an admitted source keeps its entry, also inside an update; a new one is left out."""
    lost, other, never = Fact("core/lost"), Fact("core/other"), Fact("core/never", UNAVAILABLE)
    snapshot = admitted(lost, other)
    lost.lose()
    assert reconcile(seen(lost, other, never), snapshot) == Unchanged()
    other.value = "v1"
    outcome = reconcile(seen(lost, other, never), snapshot)
    assert isinstance(outcome, Updated)
    assert outcome.text == "other is now v1"
    assert outcome.snapshot["core/lost"] is snapshot["core/lost"]
    assert "core/never" not in outcome.snapshot


def test_the_removal_text_comes_from_the_snapshot() -> None:
    """CTX-047: the code that wrote it may be gone."""
    snapshot = Snapshot.decode('{"core/x":{"value":{"any":"thing"},"removed":"as it was written then"}}')
    outcome = reconcile((), snapshot)
    assert isinstance(outcome, Updated)
    assert outcome.text == "as it was written then"
    assert len(outcome.snapshot) == 0


NUMBER = JsonCodec(int)


@pytest.mark.parametrize("step", ["undecodable", "not removable"])
def test_a_change_without_an_update_text_replaces_the_baseline(step: str) -> None:
    """CTX-041, CTX-042, CTX-113, CTX-027: a full generation from the same observation; no update was rendered."""
    changed = Fact("core/changed", "v1")
    if step == "undecodable":
        facts = (changed, Fact("core/n", 1, codec=NUMBER))
        stored = Snapshot.decode(
            '{"core/changed":{"value":"v0","removed":"r"},"core/n":{"value":"not a number","removed":"r"}}'
        )
    else:
        facts = (changed, Fact("core/n", 1))
        stored = Snapshot.decode('{"core/changed":{"value":"v0","removed":"r"},"core/gone":{"value":1}}')
    outcome = reconcile(seen(*facts), stored)
    assert isinstance(outcome, ReplacementReady)
    assert outcome.generation.baseline == "changed is v1\n\nn is 1"
    assert sorted(outcome.generation.snapshot) == ["core/changed", "core/n"]
    assert "update" not in changed.rendered


def test_a_replacement_waits_for_what_the_model_was_told_before() -> None:
    """CTX-042, CTX-050, CTX-052: blocked by an admitted source that is unavailable, for reconcile and replace alike."""
    number, lost = Fact("core/n", 1, codec=NUMBER), Fact("core/lost", UNAVAILABLE)
    stored = Snapshot.decode('{"core/n":{"value":"x"},"core/lost":{"value":"v0"}}')
    assert reconcile(seen(number, lost), stored) == ReplacementBlocked(("core/lost",))
    assert replace(seen(number, lost), stored) == ReplacementBlocked(("core/lost",))


def test_an_unavailable_source_with_an_undecodable_value_is_left_alone() -> None:
    """CTX-041, CTX-046: only available sources are compared."""
    lost = Fact("core/n", UNAVAILABLE, codec=NUMBER)
    assert reconcile(seen(lost), Snapshot.decode('{"core/n":{"value":"x"}}')) == Unchanged()


# -- replace -------------------------------------------------------------------------------------------------------


def test_replace_omits_what_was_never_admitted() -> None:
    """CTX-053, CTX-033: unavailable and unknown does not block."""
    outcome = replace(seen(Fact("core/never", UNAVAILABLE)), Snapshot({}))
    assert isinstance(outcome, ReplacementReady)
    assert outcome.generation.baseline == ""
    assert len(outcome.generation.snapshot) == 0


def test_replace_does_not_look_at_stored_values() -> None:
    """CTX-052, CTX-054: it succeeds where they cannot be decoded, and says everything anew."""
    facts = Fact("core/n", 1, codec=NUMBER), Fact("core/same")
    stored = Snapshot.decode('{"core/n":{"value":"x"},"core/same":{"value":"v0"},"core/gone":{"value":1}}')
    outcome: Any = replace(seen(*facts), stored)
    assert isinstance(outcome.generation, Generation)
    assert outcome.generation.baseline == "n is 1\n\nsame is v0"
    assert sorted(outcome.generation.snapshot) == ["core/n", "core/same"]
