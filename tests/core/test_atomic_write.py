"""Files that are replaced as a whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.core.atomic_write import atomic_write


def test_an_atomic_write_leaves_the_new_or_the_old_file(tmp_path: Path) -> None:
    """CAT-096, CAT-135: nothing lies beside it afterwards."""
    path = tmp_path / "file.json"
    path.write_text("old")
    path.chmod(0o644)
    atomic_write(path, b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """CAT-096, CAT-132."""
    path = tmp_path / "file.json"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        atomic_write(path, b"new")
    assert [found.read_text() for found in tmp_path.iterdir()] == ["old"]
