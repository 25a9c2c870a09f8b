"""The directory of confined commands' temporary files."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.process.sandbox import private_directory
from holdfast.core.process.sandbox.private_directory import MOST_REMOVED, PREFIX, make, remove


def test_private_directories_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-370: what is in use, too young or not a directory of ours is not; at most so many at a time."""
    used = make(tmp_path)
    (tmp_path / f"{PREFIX}abandoned").mkdir()
    (tmp_path / f"{PREFIX}abandoned" / "file").write_text("", encoding="utf-8")
    remove(make(tmp_path))
    assert (tmp_path / f"{PREFIX}abandoned").exists()
    monkeypatch.setattr(private_directory, "SETTLED_SECONDS", 0)
    remove(make(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [used.path.name]
    remove(used)
    for number in range(MOST_REMOVED + 5):
        (tmp_path / f"{PREFIX}-{number:03}").mkdir()
    remove(make(tmp_path))
    assert len(list(tmp_path.iterdir())) == 5
