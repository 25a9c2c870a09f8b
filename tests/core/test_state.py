"""Replayable state: order, batches, isolation, and leaving without a trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from holdfast.core.scope import Scope
from holdfast.core.state import MOST_FAILURES, Batches, Phase, ReentrantChange, State, TransformFailure


class Names(list[str]):
    def copy(self) -> Names:
        return Names(self)


def appending(name: str) -> Callable[[Names], None]:
    return lambda draft: draft.append(name)


def test_transforms_run_by_phase_then_in_order() -> None:
    """CAT-140, CAT-143: one that arrives late still runs before those of a later phase."""
    state, scope = State(Names, Batches(), finalize=appending("end")), Scope()
    state.transform(appending("config"), scope, phase=Phase.CONFIG)
    state.transform(appending("builtin"), scope, phase=Phase.BUILTIN)
    state.transform(appending("policy"), scope, phase=Phase.POLICY)
    state.transform(appending("variants"), scope, phase=Phase.VARIANTS)
    state.transform(appending("plugin 1"), scope, phase=Phase.PLUGIN)
    state.transform(appending("discovery"), scope, phase=Phase.DISCOVERY)
    state.transform(appending("plugin 2"), scope, phase=Phase.PLUGIN)
    assert state.value == [
        "builtin",
        "discovery",
        "plugin 1",
        "plugin 2",
        "config",
        "variants",
        "policy",
        "end",
    ]


def test_closing_a_scope_removes_its_transforms() -> None:
    """CAT-140: disposing twice is once; closing the scope takes the rest; what remains runs again from scratch."""
    state, mine, other = State(Names, Batches()), Scope(), Scope()
    dispose = state.transform(appending("a"), mine, phase=Phase.PLUGIN)
    state.transform(appending("b"), other, phase=Phase.PLUGIN)
    state.transform(appending("c"), mine, phase=Phase.PLUGIN)
    dispose()
    dispose()
    assert state.value == ["b", "c"]
    mine.close()
    assert state.value == ["b"]
    state.transform(appending("late"), mine, phase=Phase.PLUGIN)
    assert state.value == ["b"]


def test_a_reload_runs_effectful_transforms_again() -> None:
    """CAT-140."""
    source = ["one"]
    state = State(Names, Batches())
    state.transform(lambda draft: draft.extend(source), Scope(), phase=Phase.DISCOVERY)
    source.append("two")
    assert state.value == ["one"]
    state.reload()
    assert state.value == ["one", "two"]


def test_readers_keep_what_they_read() -> None:
    """CAT-140: neither a later rebuild nor a transform that kept its draft changes a value."""
    state, scope = State(Names, Batches()), Scope()
    kept: list[Names] = []
    state.transform(kept.append, scope, phase=Phase.PLUGIN)
    before = state.value
    state.transform(appending("x"), scope, phase=Phase.PLUGIN)
    kept[0].append("smuggled")
    kept[1].append("smuggled")
    assert (before, state.value) == ([], ["x"])


def test_a_batch_rebuilds_each_domain_once_and_tells_after_all_are_readable() -> None:
    """CAT-141: inside nothing is visible; an inner batch joins; observers see every new value."""
    batches, scope = Batches(), Scope()
    built: list[str] = []
    heard: list[object] = []

    def initial(name: str) -> Callable[[], Names]:
        def make() -> Names:
            built.append(name)
            return Names()

        return make

    first: State[Names] = State(initial("first"), batches, updated=lambda: heard.append(list(second.value)))
    second: State[Names] = State(initial("second"), batches, updated=lambda: heard.append("second"))
    third: State[Names] = State(initial("third"), batches, updated=lambda: heard.append("third"))
    built.clear()
    with batches.batch():
        second.transform(appending("x"), scope, phase=Phase.PLUGIN)
        with batches.batch():
            first.transform(appending("x"), scope, phase=Phase.PLUGIN)
            second.transform(appending("y"), scope, phase=Phase.PLUGIN)
        assert (first.value, second.value, built) == ([], [], [])
    assert built == ["first", "second"]
    assert heard == [["x", "y"], "second"]
    assert third.value == []


def test_a_batch_that_fails_still_shows_what_was_registered() -> None:
    """CAT-141: what is registered is registered."""
    batches, scope = Batches(), Scope()
    state = State(Names, batches)

    def fail() -> None:
        with batches.batch():
            state.transform(appending("x"), scope, phase=Phase.PLUGIN)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert state.value == ["x"]


def test_a_transform_that_raises_changes_nothing_and_is_named() -> None:
    """CAT-149: the rest applies; after three failures in a row it is skipped until it is registered anew."""
    state, scope = State(Names, Batches()), Scope()
    calls = 0

    def bad(draft: Names) -> None:
        nonlocal calls
        calls += 1
        draft.append("half")
        raise ValueError("no")

    state.transform(appending("before"), scope, phase=Phase.PLUGIN)
    remove = state.transform(bad, scope, phase=Phase.PLUGIN, owner="acme")
    state.transform(appending("after"), scope, phase=Phase.PLUGIN)
    assert state.value == ["before", "after"]
    assert list(state.failures) == [TransformFailure("acme", "ValueError: no", 2)]
    state.reload()
    state.reload()
    assert calls == MOST_FAILURES
    assert [failure.owner for failure in state.failures] == ["acme"]
    remove()
    assert list(state.failures) == []
    state.transform(bad, scope, phase=Phase.PLUGIN, owner="acme")
    assert calls == MOST_FAILURES + 1


def test_a_success_ends_a_row_of_failures() -> None:
    """CAT-149: only failures in a row count."""
    state, scope = State(Names, Batches()), Scope()
    works = False

    def sometimes(draft: Names) -> None:
        if not works:
            raise ValueError
        draft.append("ok")

    state.transform(sometimes, scope, phase=Phase.PLUGIN)
    state.reload()
    works = True
    state.reload()
    works = False
    state.reload()
    state.reload()
    works = True
    state.reload()
    assert state.value == ["ok"]


def test_a_transform_cannot_change_what_it_is_part_of() -> None:
    """CAT-140, CAT-149: it neither deadlocks nor recurses; it fails, alone."""
    state, scope = State(Names, Batches()), Scope()

    def adding(_: Names) -> None:
        state.transform(appending("x"), scope, phase=Phase.PLUGIN)

    state.transform(lambda _: state.reload(), scope, phase=Phase.PLUGIN, owner="a")
    state.transform(adding, scope, phase=Phase.PLUGIN, owner="b")
    state.transform(appending("fine"), scope, phase=Phase.PLUGIN)
    assert state.value == ["fine"]
    assert [failure.message.partition(":")[0] for failure in state.failures] == [ReentrantChange.__name__] * 2


def test_a_transform_may_take_itself_out() -> None:
    """CAT-140: it is gone from the next rebuild on, which follows at once."""
    state, scope = State(Names, Batches()), Scope()
    disposers: list[Callable[[], None]] = []

    def once(draft: Names) -> None:
        draft.append("once")
        for dispose in disposers:
            dispose()

    disposers.append(state.transform(once, scope, phase=Phase.PLUGIN))
    assert state.value == ["once"]
    state.reload()
    assert state.value == []


@limits(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(Phase), st.integers(0, 3), st.booleans()), max_size=25))
def test_the_value_is_always_that_of_the_live_registrations(steps: list[tuple[Phase, int, bool]]) -> None:
    """CAT-140, CAT-143: against a plain list, over any history of registering and leaving."""
    state = State(Names, Batches())
    scopes = [Scope() for _ in range(4)]
    live: list[tuple[Phase, int, str]] = []
    for number, (phase, owner, leaves) in enumerate(steps):
        if leaves:
            scopes[owner].close()
            scopes[owner] = Scope()
            live = [entry for entry in live if entry[1] != owner]
        else:
            state.transform(appending(str(number)), scopes[owner], phase=phase)
            live.append((phase, owner, str(number)))
        assert state.value == [name for _, _, name in sorted(live, key=lambda entry: entry[0])]
