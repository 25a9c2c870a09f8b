"""Backups taken while others work, and what a restored one is."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Server, finish
from tests.stores.stores import on_postgres

pytestmark = pytest.mark.store("sqlite", reason="PostgreSQL has its own backups")

COUNT = {"tool": "bash", "input": {"command": "seq 1 20000", "description": "count"}}


def there(machine: Machine, name: str = "there") -> dict[str, str]:
    """Another data directory, for the same person."""
    return {"XDG_DATA_HOME": str(machine.home / name)}


@contextmanager
def load(machine: Machine, streams: int = 2) -> Iterator[threading.Semaphore]:
    """Sessions that answer prompts one after the other meanwhile. The semaphore counts the answers."""
    stop, answered, failed = threading.Event(), threading.Semaphore(0), list[str]()

    def work(number: int) -> None:
        session = machine("run", "--model", "demo/echo", f"stream {number}").session
        while not stop.is_set():
            ran = machine("run", "--session", session, "--model", "demo/echo", "x" * 5000)
            if ran.code:
                failed.append(ran.err)
            answered.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(streams)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failed == []


def test_backups_taken_under_load_restore_to_a_healthy_state(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """OPS-130, OPS-131, OPS-132: with a server and other processes at work; each one is a state that there was."""
    serve()
    taken = []
    with load(holdfast) as answered:
        for number in range(3):
            for _ in range(2):
                assert answered.acquire(timeout=45)
            path = holdfast.home / f"{number}.backup"
            assert holdfast("backup", str(path)).code == 0
            taken.append(path)
    counts = []
    for number, path in enumerate(taken):
        checked = holdfast("backup", "--check", str(path), "--json")
        assert checked.code == 0, checked.err
        counts.append(json.loads(checked.out)["events"])
        restored = holdfast("restore", str(path), **there(holdfast, f"there{number}"))
        assert restored.code == 0, restored.err
        doctor = holdfast("doctor", **there(holdfast, f"there{number}"))
        assert (doctor.code, "all rows agree with the event log" in doctor.out) == (0, True)
    assert counts == sorted(counts)
    assert counts[0] > 10


def test_outputs_of_tools_are_in_it(holdfast: Machine) -> None:
    """OPS-130, OPS-133: and come back, with the Sessions that can be gone on with."""
    holdfast.script({"text": "I count.", "calls": [COUNT]}, {"text": "Good."}, {"text": "Again."})
    session = holdfast("run", "--yes", "--model", "demo/scripted", "go").session
    (output,) = (holdfast.data / "tool-output").iterdir()
    path = holdfast.home / "a.backup"
    made = holdfast("backup", str(path))
    assert made.code == 0, made.err
    assert "1 sessions with" in made.out
    assert "not in it: credentials" in made.out
    assert path.stat().st_mode & 0o777 == 0o600
    restored = holdfast("restore", str(path), **there(holdfast))
    assert restored.code == 0, restored.err
    copy = holdfast.home / "there" / "holdfast" / "tool-output" / output.name
    assert copy.read_bytes() == output.read_bytes()
    again = holdfast("run", "--session", session, "--model", "demo/echo", "again", **there(holdfast))
    assert again.code == 0, again.err
    bundles = [holdfast.home / name for name in ("one.holdfast", "two.holdfast")]
    assert holdfast("run", "--session", session, "--model", "demo/echo", "here").code == 0
    assert holdfast("export", session, "-o", str(bundles[0])).code == 0


def test_a_restore_replaces_nothing(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """OPS-134: neither a database nor one that a process is about to use."""
    assert holdfast("run", "--model", "demo/echo", "one").code == 0
    path = holdfast.home / "a.backup"
    assert holdfast("backup", str(path)).code == 0
    before = (holdfast.data / "holdfast.db").read_bytes()
    assert "exists, and a restore replaces nothing" in holdfast("restore", str(path)).complaint
    assert (holdfast.data / "holdfast.db").read_bytes() == before
    serve()
    (holdfast.data / "holdfast.db").rename(holdfast.home / "away.db")
    assert "A process uses" in holdfast("restore", str(path)).complaint
    (holdfast.home / "away.db").rename(holdfast.data / "holdfast.db")


@pytest.mark.parametrize("kind", ["text", "cut", "other", "bytes", "missing"])
def test_what_is_no_backup_is_refused(holdfast: Machine, kind: str) -> None:
    """OPS-132: with the reason, and nothing is restored."""
    assert holdfast("run", "--model", "demo/echo", "one").code == 0
    path = holdfast.home / "a.backup"
    assert holdfast("backup", str(path)).code == 0
    whole = path.read_bytes()
    if kind == "text":
        path.write_text("hello\n" * 1000, encoding="utf-8")
    elif kind == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "bytes":
        middle = len(whole) // 2 // 4096 * 4096
        path.write_bytes(whole[:middle] + os.urandom(4096) + whole[middle + 4096 :])
    elif kind == "other":
        path.write_bytes((holdfast.data / "holdfast.db").read_bytes())
    else:
        path.unlink()
    checked = holdfast("backup", "--check", str(path))
    assert checked.code == 1
    assert str(path) in checked.complaint
    restored = holdfast("restore", str(path), **there(holdfast))
    assert restored.code == 1
    assert not (holdfast.home / "there" / "holdfast" / "holdfast.db").exists()


def test_nothing_is_left_of_a_backup_that_is_interrupted(holdfast: Machine) -> None:
    """OPS-131: and what was there under the name stays."""
    assert holdfast("run", "--model", "demo/echo", "x" * 100_000).code == 0
    folder = holdfast.home / "backups"
    folder.mkdir()
    path = folder / "a.backup"
    path.write_text("mine", encoding="utf-8")
    making = holdfast.start("backup", str(path))
    while making.poll() is None and len(list(folder.iterdir())) == 1:
        pass  # it has not begun to write
    making.send_signal(signal.SIGINT)
    ended = finish(making)
    assert (ended.code, path.read_bytes() == b"mine") in ((130, True), (0, False))
    assert [each.name for each in folder.iterdir()] == ["a.backup"]
    nowhere = holdfast("backup", str(holdfast.home / "nowhere" / "a.backup"))
    assert "nowhere: No such file or directory" in nowhere.complaint


def test_nothing_to_back_up_is_told(holdfast: Machine) -> None:
    """OPS-131."""
    assert "There is no database at" in holdfast("backup", str(holdfast.home / "a.backup")).complaint


@pytest.mark.store("postgres", reason="what it says there")
def test_postgresql_names_its_own_program(holdfast: Machine) -> None:
    """OPS-135: as does a restore."""
    assert on_postgres()
    for command in ("backup", "restore"):
        assert "pg_dump" in holdfast(command, str(holdfast.home / "a.backup")).complaint


def test_an_address_of_a_server_is_refused_without_connecting(holdfast: Machine, tmp_path: Path) -> None:
    """OPS-135: nobody listens there."""
    address = {"HOLDFAST_DATABASE": "postgresql://u@127.0.0.1:1/db"}
    for command in ("backup", "restore"):
        assert "`pg_dump --format=custom" in holdfast(command, str(tmp_path / "a.backup"), **address).complaint
