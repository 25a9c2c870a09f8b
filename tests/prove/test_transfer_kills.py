"""`kill -9` before and after every commit of a transfer, between a file and a server in both directions."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.core.database.transfer.support import FILE, SERVER, content, fill, many_events, new_place
from tests.core.database.transfer.test_marks import cancelled
from tests.core.database.transfer.test_resume import killed

from holdfast.core.database.errors import StorageTransferred
from holdfast.core.database.opening import open_database

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(("source_kind", "target_kind"), [(FILE, FILE), (FILE, SERVER), (SERVER, FILE)])
def test_a_kill_at_any_commit_loses_and_doubles_nothing(source_kind: str, target_kind: str, tmp_path: Path) -> None:
    """STO-161, STO-165, STO-166: after each kill the incomplete copy cannot be opened, and the next run completes it
    without copying again what was committed."""
    source = new_place(source_kind, tmp_path, "source")
    fill(source)
    fill(source, *many_events(1_000, aggregates=2))
    before = content(source)
    rows = sum(map(len, before.values()))
    whole = json.loads(killed(source, new_place(target_kind, tmp_path, "whole"), 0, "after").stdout)
    assert whole["copied"] == rows
    cancelled(source)
    again = 0
    for at in range(1, whole["commits"] + 1):
        for when in ("before", "after"):
            target = new_place(target_kind, tmp_path, f"{at}-{when}")
            assert killed(source, target, at, when).returncode == -signal.SIGKILL, (at, when)
            committed = at if when == "after" else at - 1
            if 2 <= committed < whole["commits"] - 1:  # both are marked, and the copy is not complete
                for place in (source, target):
                    with pytest.raises(StorageTransferred):
                        open_database(place)
            ended = killed(source, target, 0, "after")
            assert ended.returncode == 0, ended.stderr
            result = json.loads(ended.stdout)
            assert content(target) == before, (at, when)
            assert result["commits"] == whole["commits"] - committed, (at, when)
            again += rows - result["copied"]
            open_database(target).close()
            assert cancelled(source) is not None
    print(f"{source_kind} to {target_kind}: {2 * whole['commits']} kills, {again} rows not copied again")
    assert again > 0
