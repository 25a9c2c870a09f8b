"""A transfer that ended somewhere is gone on with, and what it copied is compared."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.core.database.transfer.support import (
    BOTH,
    PAIRS,
    content,
    fill,
    many_events,
    new_place,
    opened,
    transfer,
)

from holdfast.core.database.errors import StorageFull, StorageTransferred, TransferDiffers
from holdfast.core.database.opening import open_database
from holdfast.core.database.place import Place
from holdfast.core.database.transfer import transfer as transfers
from holdfast.core.database.transfer.store import TransferStore

KILLED = Path(__file__).with_name("killed_transfer.py")


class Ended(BaseException):
    """As if the process had ended."""


def ending_at(number: int, *, after: bool, commits: list[int]) -> Any:
    """End at a commit of either store; `commits` counts those that came to pass."""

    def changed(*stores: Any) -> None:
        for store in stores:
            store._commit = counted(store._commit)

    def counted(commit: Any) -> Any:
        def run() -> None:
            if len(commits) + 1 == number and not after:
                raise Ended
            commit()
            commits.append(1)
            if len(commits) == number:
                raise Ended

        return run

    return changed


@pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_end_at_any_commit_loses_and_doubles_nothing(
    source_kind: str, target_kind: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-166: one run after the other ends at its third commit, which is the first or the second group of rows."""
    monkeypatch.setattr(transfers, "GROUP_ROWS", 40)
    source, target = new_place(source_kind, tmp_path, "a"), new_place(target_kind, tmp_path, "b")
    fill(source)
    fill(source, *many_events(500, aggregates=1))
    before = content(source)
    runs = copied = 0
    while True:
        commits: list[int] = []
        told: list[int] = []
        runs += 1
        try:
            done = transfer(
                source,
                target,
                changed=ending_at(3, after=after, commits=commits),
                told=partial(note, told),
            )
            copied += done.copied
            break
        except Ended:
            copied += max(told, default=0)
    assert runs > 8
    assert copied <= done.rows
    assert content(target) == before
    with opened(target):
        """Complete."""


def note(told: list[int], progress: transfers.Progress) -> None:
    told.append(progress.copied)


@pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS)
def test_a_killed_process_is_gone_on_with(source_kind: str, target_kind: str, tmp_path: Path) -> None:
    """STO-166: a real `kill -9` before a commit, and after one; in the end no row was copied twice."""
    source, target = new_place(source_kind, tmp_path, "a"), new_place(target_kind, tmp_path, "b")
    fill(source, *many_events(1_000))
    before = content(source)
    for at, when in ((2, "after"), (4, "before"), (6, "after")):
        assert killed(source, target, at, when).returncode == -signal.SIGKILL
        with pytest.raises(StorageTransferred):
            open_database(source)
        with pytest.raises(StorageTransferred):
            open_database(target)
    ended = killed(source, target, 0, "after")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["copied"] < json.loads(ended.stdout)["rows"]
    assert content(target) == before


def killed(source: Place, target: Place, at: int, when: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[4]
    return subprocess.run(
        [sys.executable, str(KILLED), str(source), str(target), str(at), when],
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def altering(*statements: str) -> Any:
    """Change the target behind the back of the transfer, when all is copied."""

    def changed(source: TransferStore, target: Any) -> None:
        settle = target.settle

        def alter() -> None:
            settle()
            with target._transaction():
                target._drop_triggers()
                for statement in statements:
                    target._all(statement)

        target.settle = alter

    return changed


DATA = "update event set data = '{}' where aggregate_id = 'agg_0001' and seq = 7"
DIFFERENCES = {
    DATA: r"the event 7 of agg_0001 is another one there \(data\)",
    "update event set metadata = 'm' where aggregate_id = 'agg_0001' and seq = 7": r"another one there \(metadata\)",
    "update event set type = 't.2' where aggregate_id = 'agg_0001' and seq = 7": r"another one there \(type\)",
    "delete from event where aggregate_id = 'agg_0001' and seq = 49": "the event 49 of agg_0001 is missing there",
    "delete from event where aggregate_id = 'agg_0001' and seq = 499": "the event 499 of agg_0001 is missing there",
    "delete from event where aggregate_id = 'agg_0001'": "the event 0 of agg_0001 is missing there",
    "insert into event (id, aggregate_id, seq, type, data) values ('evt_x', 'agg_0001', 500, 't.1', '{}')": (
        "agg_0001 has more events there"
    ),
    "insert into event (id, aggregate_id, seq, type, data) values ('evt_x', 'agg_x', 0, 't.1', '{}')": (
        "has 5001 events, and 5000 belong"
    ),
    "delete from project": "the table project has 0 rows there and 1 here",
    "update project set worktree = '/elsewhere'": "rows of the table project are not the same",
}


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("statement", DIFFERENCES)
def test_a_difference_is_found_and_the_copy_stays_incomplete(kind: str, statement: str, tmp_path: Path) -> None:
    """STO-169, STO-165."""
    source, target = new_place(kind, tmp_path, "a"), new_place(kind, tmp_path, "b")
    fill(source, project(), *many_events(5_000))
    with pytest.raises(TransferDiffers, match=DIFFERENCES[statement]):
        transfer(source, target, changed=altering(statement))
    with pytest.raises(StorageTransferred, match="incomplete copy"):
        open_database(target)


def project() -> Any:
    from holdfast.core.database.unit import Statement, Unit

    row = {"id": "p", "worktree": "/d", "vcs": None, "time_created": 1}
    return Unit("p", local=(Statement("project.ensure", row),))


def test_a_full_disk_is_told_and_gone_on_with(tmp_path: Path) -> None:
    """STO-175: what was copied stays."""
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    fill(source, *many_events(5_000, size=1_000))

    def small(source: TransferStore, target: Any) -> None:
        pages = target._all("pragma page_count")[0][0]
        target._all(f"pragma max_page_count = {pages + 600}")

    with pytest.raises(StorageFull, match=f"no space left to write {target}"):
        transfer(source, target, changed=small)
    done = transfer(source, target)
    assert 0 < done.copied < done.rows
    assert content(target) == content(source)


def test_an_older_schema_with_a_mark_is_not_upgraded(tmp_path: Path) -> None:
    """STO-170: its tables take no changes."""
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    fill(source, *many_events(500))
    with pytest.raises(Ended):
        transfer(source, target, changed=ending_at(3, after=True, commits=[]))
    with apsw.Connection(str(source)) as connection:
        connection.pragma("user_version", int(connection.pragma("user_version")) - 1)
    with pytest.raises(StorageTransferred, match="are being moved to"):
        transfer(source, target)
