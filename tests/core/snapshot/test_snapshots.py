"""Trees of a project's files, taken by several at once."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from tests.core.session.test_move import repository

from holdfast.core.location.project import find_project
from holdfast.core.snapshot.snapshot import LEFT_SECONDS, Snapshots

pytestmark = pytest.mark.anyio


async def test_two_locations_of_a_project_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    """SES-112, SES-060: both take their trees at the same time, and one goes on when the other is closed."""
    root = repository(tmp_path / "one")
    project = await find_project(root)
    several = [Snapshots(project, tmp_path / "store") for _ in range(6)]
    assert len(set(await asyncio.gather(*(taken.capture() for taken in several)))) == 1
    one, other, *others = several
    for text in ("first", "second", "third"):
        (root / "a.txt").write_text(text, encoding="utf-8")
        tree, same = await asyncio.gather(one.capture(), other.capture())
        assert tree == same
    one.close()
    assert await other.capture() == tree
    for taken in (other, *others):
        taken.close()
    (store,) = (tmp_path / "store").iterdir()
    assert [path.name for path in store.glob("index*")] == ["index"]


async def test_what_a_dead_process_left_is_removed(tmp_path: Path) -> None:
    """SES-112: its index, and the lock that would be in the way of whoever gets its number; not a living one's."""
    project = await find_project(repository(tmp_path / "one"))
    first = Snapshots(project, tmp_path / "store")
    tree = await first.capture()
    (store,) = (tmp_path / "store").iterdir()
    left = [store / "index.1", store / "index.1.lock"]
    for path in left:
        path.touch()
        os.utime(path, (0, time.time() - LEFT_SECONDS - 1))
    assert await Snapshots(project, tmp_path / "store").capture() == tree
    assert not [path for path in left if path.exists()]
    assert await first.capture() == tree
