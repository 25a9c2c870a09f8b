"""Which trees a policy names, in corners."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast.core.config.holdfast_schema import ProjectRetention, Retention
from holdfast.core.config.retention import RetentionPolicy
from holdfast.core.runtime.retention import DAY, SLICE, Tree, _by_age_and_count, _in_removal_order

NOW = 1000 * DAY


def tree(id: str, *, days: float = 0, directory: str = "/work", **marks: Any) -> Tree:
    return Tree(
        id=id,
        title=id,
        directory=directory,
        members=(id,),
        updated=int(NOW - days * DAY),
        archived=marks.get("archived", False),
        pinned=marks.get("pinned", False),
        busy=marks.get("busy", False),
    )


def chosen(trees: list[Tree], projects: dict[str, ProjectRetention] | None = None, **general: Any) -> dict[str, str]:
    policy = RetentionPolicy(Retention(**general), projects or {}, None)
    return asyncio.run(_by_age_and_count(asyncio.run(_in_removal_order(trees)), policy, NOW))


def test_archived_ones_have_an_age_of_their_own() -> None:
    """OPS-110: in days without a change; exactly as many days are enough."""
    trees = [tree("a", days=8, archived=True), tree("b", days=8), tree("c", days=90), tree("d", days=89.9)]
    assert chosen(trees, age=90, archived=7) == {
        "a": "archived, and not changed for 8 days",
        "c": "not changed for 90 days",
    }


def test_what_stays_counts_too() -> None:
    """OPS-110, OPS-112: a pinned Session takes one of the places."""
    trees = [tree("a", days=3, pinned=True), tree("b", days=2), tree("c", days=1)]
    assert set(chosen(trees, count=2)) == {"b"}
    assert set(chosen(trees, count=0)) == {"b", "c"}
    assert chosen(trees, count=3) == {}


def test_those_that_go_by_age_leave_their_places() -> None:
    """OPS-110: the number is counted after that."""
    trees = [tree("a", days=100), tree("b", days=2), tree("c", days=1)]
    assert set(chosen(trees, age=90, count=2)) == {"a"}


def test_the_innermost_directory_counts(tmp_path: Path) -> None:
    """OPS-110: a name that only begins alike is another directory."""
    projects = {"/work": ProjectRetention(age=10), "/work/deep": ProjectRetention(count=0)}
    trees = [
        tree("a", days=20, directory="/work/a"),
        tree("b", days=1, directory="/work/deep/b"),
        tree("c", days=20, directory="/works"),
    ]
    assert chosen(trees, projects, age=30) == {
        "a": "not changed for 20 days",
        "b": "more than 0 sessions of /work/deep",
    }


def test_any_number_of_trees_is_in_one_order() -> None:
    """OPS-110: archived first, then by the last change; of those that changed together the newer one stays longer."""
    trees = [
        tree(f"ses_{(number * 37) % 10_000:05}", days=number % 7, archived=number % 3 == 0)
        for number in range(5 * SLICE + 3)
    ]
    expected = sorted(trees, key=lambda tree: tree.id, reverse=True)  # newer ids come first
    expected.sort(key=lambda tree: (not tree.archived, tree.updated))
    assert asyncio.run(_in_removal_order(trees)) == expected
