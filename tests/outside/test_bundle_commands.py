"""`holdfast export`, `import` and `verify` as a person uses them."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, finish


def new_session(machine: Machine, text: str = "hello") -> str:
    return machine("run", "--model", "demo/echo", text).session


def bundle_of(machine: Machine, *sessions: str) -> Path:
    path = machine.home / "work.holdfast"
    assert machine("export", *sessions, "-o", str(path)).code == 0
    return path


@pytest.fixture
def there(holdfast: Machine) -> dict[str, str]:
    """Another database, for the same person."""
    return {"XDG_DATA_HOME": str(holdfast.home / "there")}


def test_a_session_is_exported_verified_and_imported(holdfast: Machine, there: dict[str, str]) -> None:
    """OPS-001, OPS-006, OPS-010, OPS-020: and can be gone on with there."""
    session = new_session(holdfast)
    path = holdfast.home / "work.holdfast"
    exported = holdfast("export", session, "-o", str(path))
    assert (exported.code, exported.err) == (0, "")
    assert re.search(r"work\.holdfast: 1 session with \d+ events, sha256 [0-9a-f]{64}\n$", exported.out)
    assert path.stat().st_mode & 0o777 == 0o600
    verified = holdfast("verify", str(path))
    assert verified.code == 0
    assert "is whole: 1 session with" in verified.out
    imported = holdfast("import", str(path), **there)
    assert (imported.code, imported.err) == (0, "")
    assert re.search(r"1 session \(1 imported\), \d+ new events", imported.out)
    doctor = holdfast("doctor", **there)
    assert (doctor.code, "all rows agree with the event log" in doctor.out) == (0, True)
    assert holdfast("run", "--session", session, "--model", "demo/echo", "again", **there).code == 0
    again = holdfast("import", str(path), **there)
    assert "1 session (1 unchanged), 0 new events" in again.out


def test_all_sessions_and_json(holdfast: Machine, there: dict[str, str]) -> None:
    """OPS-006: --all; reports as JSON have the same digest."""
    sessions = {new_session(holdfast, text) for text in ("one", "two")}
    path = holdfast.home / "all.holdfast"
    exported = json.loads(holdfast("export", "--all", "-o", str(path), "--json").out)
    assert set(exported["requested"]) == sessions
    verified = json.loads(holdfast("verify", str(path), "--json").out)
    imported = json.loads(holdfast("import", str(path), "--json", **there).out)
    assert verified == exported
    assert imported["digest"] == exported["digest"]
    assert {session["id"] for session in imported["sessions"]} == sessions


def test_what_cannot_be_exported_is_told(holdfast: Machine) -> None:
    """OPS-005, OPS-006: no file is left."""
    path = holdfast.home / "none.holdfast"
    assert "No session ses_none in this database" in holdfast("export", "ses_none", "-o", str(path)).complaint
    assert "Name the sessions to export, or give --all" in holdfast("export", "-o", str(path)).complaint
    assert "There are no sessions to export" in holdfast("export", "--all", "-o", str(path)).complaint
    assert not path.exists()


def test_a_damaged_bundle_is_refused(holdfast: Machine, there: dict[str, str]) -> None:
    """OPS-010, OPS-011: `verify` says so and exits with 1, and nothing of it is imported."""
    path = bundle_of(holdfast, new_session(holdfast))
    whole = path.read_bytes()
    damaged = {
        "cut": whole[: len(whole) // 2],
        "more": whole + b"more",
        "text": b"hello world",
        "empty": b"",
        "changed": whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:],
    }
    for name, content in damaged.items():
        path.write_bytes(content)
        verified = holdfast("verify", str(path))
        assert (verified.code, verified.out) == (1, ""), name
        assert f"{path}: The bundle cannot be used: " in verified.complaint, name
        assert "Nothing was imported" in holdfast("import", str(path), **there).complaint, name
    assert "no sessions" in (listed := holdfast("sessions", "--all", **there)).out + listed.err


def test_a_directory_that_is_not_there_is_told(holdfast: Machine, there: dict[str, str]) -> None:
    """OPS-024: and --directory gives another one, later too."""
    path = bundle_of(holdfast, new_session(holdfast))
    holdfast.project.rename(holdfast.home / "moved")
    holdfast.project = holdfast.home / "moved"
    imported = holdfast("import", str(path), **there)
    assert imported.code == 0
    assert f"there is no directory {holdfast.home / 'project'} here" in imported.err
    again = holdfast("import", str(path), "--directory", str(holdfast.project), **there)
    assert (again.code, again.err) == (0, "")


def test_an_interrupted_export_leaves_no_file(holdfast: Machine) -> None:
    """OPS-005: Ctrl-C and SIGTERM."""
    session = new_session(holdfast)
    path = holdfast.home / "cut.holdfast"
    for number in (signal.SIGINT, signal.SIGTERM):
        process = holdfast.start("export", session, "-o", str(path))
        process.send_signal(number)
        ran = finish(process)
        assert ran.code in (0, 130, -number), ran
        assert path.exists() == (ran.code == 0)
        path.unlink(missing_ok=True)
        assert not [item for item in holdfast.home.iterdir() if item.name.startswith(".cut")]
