"""Reading conversations of OpenCode: limits, and what is not an ordinary file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.bundle.opencode import source
from holdfast.core.bundle.opencode.foreign import DEEPEST, amount, is_deep, is_id, number
from holdfast.core.bundle.opencode.source import Storage, read_file
from holdfast.core.bundle.opencode.transcript import TranscriptInvalid

FIRST, SECOND = "ses_00000000000000000000000001", "ses_00000000000000000000000002"


def record(storage: Path, id: str, **more: Any) -> None:
    folder = storage / "session" / "global"
    folder.mkdir(parents=True, exist_ok=True)
    info = {"id": id, "directory": "/x", "time": {"created": 1}, **more}
    (folder / f"{id}.json").write_text(json.dumps(info), encoding="utf-8")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FILE_BYTES", 1_000)
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"info": {}, "messages": [], "more": "x" * 1_000}), encoding="utf-8")
    with pytest.raises(TranscriptInvalid, match="limit of what is read, 1,000 bytes"):
        read_file(path)


def test_a_session_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SESSION_BYTES", 1_000)
    record(tmp_path, FIRST)
    folder = tmp_path / "message" / FIRST
    folder.mkdir(parents=True)
    for number_ in range(20):
        (folder / f"msg_{number_:026d}.json").write_text(json.dumps({"role": "user", "x": "x" * 100}), encoding="utf-8")
    with pytest.raises(TranscriptInvalid, match="limit of what is read"):
        Storage(tmp_path).read(FIRST)


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(TranscriptInvalid, match="no regular file"):
        read_file(tmp_path / "pipe.json")
    with pytest.raises(TranscriptInvalid, match="No such file"):
        read_file(tmp_path / "absent.json")


def test_sessions_that_are_ancestors_of_themselves_are_refused(tmp_path: Path) -> None:
    record(tmp_path, FIRST, parentID=SECOND)
    record(tmp_path, SECOND, parentID=FIRST)
    storage = Storage(tmp_path)
    assert storage.trees() == []
    assert [error.source for error in storage.refused] == [FIRST, SECOND]


def test_a_project_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(json.dumps({"worktree": "/secret"}), encoding="utf-8")
    record(tmp_path, FIRST, projectID="../secret")
    assert Storage(tmp_path).read(FIRST).worktree == "/x"


def test_values_of_other_types_are_absent() -> None:
    assert [number(value) for value in (True, -1, "7", None, 2**60, 1.5)] == [0, 0, 0, 0, 0, 1]
    assert [amount(value) for value in (True, float("nan"), float("inf"), "1", 0.5)] == [0, 0, 0, 0, 0.5]
    ids = ("ses_0123456789", "ses_../../etc/x", "ses_", "msg_0123456789", "ses_0123456789\n")
    assert [is_id("ses", id) for id in ids] == [True, False, False, False, False]
    nested: Any = 1
    for _ in range(DEEPEST - 1):
        nested = [nested]
    assert not is_deep(nested)
    assert is_deep({"a": [nested]})
