"""Storage that cannot be used: said in one line, left as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Machine

from holdfast.core.database.sqlite import BusyWait, connect

pytestmark = pytest.mark.store("sqlite", reason="files that are damaged, locked or cannot be written")

COMMANDS = [("run", "--model", "demo/echo", "x"), ("sessions",), ("doctor",), ("serve", "--port", "0")]


def database(machine: Machine) -> Path:
    machine.data.mkdir(parents=True, exist_ok=True)
    return machine.data / "holdfast.db"


def refused(machine: Machine, commands: list[tuple[str, ...]] = COMMANDS[:1]) -> list[str]:
    """What each command says; all must fail in one line."""
    complaints = []
    for command in commands:
        ran = machine(*command)
        assert ran.code == 1, (command, ran)
        complaints.append(ran.complaint)
    return complaints


@pytest.mark.parametrize("content", [b"no database at all" * 500, b"SQLite format 3\0" + b"\xff" * 8000, b"\0" * 5000])
def test_a_corrupt_file_is_refused_and_kept(holdfast: Machine, content: bytes) -> None:
    """Nothing is overwritten; the path is named."""
    path = database(holdfast)
    path.write_bytes(content)

    assert str(path) in refused(holdfast)[0]
    assert path.read_bytes() == content


def test_every_command_refuses_a_corrupt_file(holdfast: Machine) -> None:
    """Each in one line, a server before it listens."""
    path = database(holdfast)
    path.write_bytes(b"no database at all" * 500)

    assert all(str(path) in complaint for complaint in refused(holdfast, COMMANDS))


def test_a_database_with_a_hole_is_refused(holdfast: Machine) -> None:
    """A good file of which pages were overwritten."""
    assert holdfast("run", "--model", "demo/echo", "x").code == 0
    path = database(holdfast)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)

    assert all(str(path) in complaint for complaint in refused(holdfast, COMMANDS[:3]))


def test_a_newer_database_is_refused(holdfast: Machine) -> None:
    """Written by a later version; use that one."""
    assert holdfast("run", "--model", "demo/echo", "x").code == 0
    connection = connect(str(database(holdfast)), BusyWait())
    connection.execute("pragma user_version=999").fetchall()
    connection.close()

    assert all("newer" in complaint for complaint in refused(holdfast))


def test_another_programs_database_is_refused(holdfast: Machine) -> None:
    """It is not ours to change."""
    connection = connect(str(database(holdfast)), BusyWait())
    connection.execute("create table theirs (x)").fetchall()
    connection.close()

    assert all("another program" in complaint for complaint in refused(holdfast))


def test_a_data_directory_that_is_a_file_is_refused(holdfast: Machine) -> None:
    """Named, not replaced."""
    holdfast.data.parent.mkdir()
    holdfast.data.write_text("mine", encoding="utf-8")

    assert all(str(holdfast.data) in complaint for complaint in refused(holdfast))
    assert holdfast.data.read_text(encoding="utf-8") == "mine"


def test_a_database_that_is_a_directory_is_refused(holdfast: Machine) -> None:
    """Likewise."""
    database(holdfast).mkdir()

    assert all(str(holdfast.data) in complaint for complaint in refused(holdfast))


def test_an_empty_file_becomes_a_database(holdfast: Machine) -> None:
    """A file that was only touched holds nothing that could be lost."""
    database(holdfast).touch()

    assert holdfast("run", "--model", "demo/echo", "x").code == 0
    assert holdfast.healthy()


def test_doctor_finds_and_repairs_what_disagrees_with_the_log(holdfast: Machine) -> None:
    """A projection row that was changed behind our back."""
    ran = holdfast("run", "--model", "demo/echo", "x")
    connection = connect(str(database(holdfast)), BusyWait())
    connection.execute("update session set title = 'changed'").fetchall()
    connection.close()
    found = holdfast("doctor")
    repaired = holdfast("doctor", "--rebuild")

    assert (found.code, ran.session in found.err) == (1, True)
    assert repaired.code == 0
    assert holdfast.healthy()
    assert "changed" not in holdfast("sessions").out
