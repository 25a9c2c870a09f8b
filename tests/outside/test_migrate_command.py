"""`holdfast migrate` as a person uses it: what it refuses, how it is interrupted and gone on with, what it says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Provider, Ran, Server, finish
from tests.outside.test_left_behind import waiting_for_a_person
from tests.stores.stores import STORES

pytestmark = [
    pytest.mark.store("sqlite", reason="moves between files, and the source is the store of the machine"),
]
SECRET = "hunter2"


@pytest.fixture
def target(holdfast: Machine) -> str:
    return f"sqlite://{holdfast.home}/new/holdfast.db"


def new_session(machine: Machine) -> str:
    return machine("run", "--model", "demo/echo", "hello").session


def store_events(machine: Machine, count: int) -> None:
    """More than a moment's work."""
    assert machine("sessions").code == 0
    with STORES.rows(machine.data / "holdfast.db") as run:
        run("insert into event_sequence (aggregate_id, seq) values ('agg', ?)", count - 1)
        run(
            "with recursive number (seq) as (select 0 union all select seq + 1 from number where seq < ?) "
            "insert into event (id, aggregate_id, seq, type, data) "
            "select 'evt_' || seq, 'agg', seq, 't.1', ? from number",
            count - 1,
            json.dumps({"text": "x" * 400}),
        )


def test_sessions_are_moved_and_the_source_says_where(holdfast: Machine, target: str) -> None:
    """STO-160, STO-163, STO-171: nothing uses the source by mistake, and everything works at the new place."""
    session = new_session(holdfast)
    moved = holdfast("migrate", "--to", target)
    assert moved.code == 0, moved.err
    assert re.match(r"moved 1 sessions with \d+ events from \S+/holdfast.db to \S+/new/holdfast.db", moved.out)
    assert "everything there was compared with the source, which is read-only now" in moved.out
    assert moved.err == ""
    for command in (("sessions",), ("run", "--model", "demo/echo", "again"), ("doctor",), ("serve", "--port", "0")):
        refused = holdfast(*command)
        assert refused.code == 1
        assert f"its Sessions were moved to {holdfast.home}/new/holdfast.db" in refused.complaint
        assert "holdfast migrate --cancel" in refused.complaint
    line = moved.out.splitlines()[-1]
    assert line.startswith("to use it: ")
    there = dict(setting.split("=", 1) for setting in line.removeprefix("to use it: ").split())
    assert there == {"HOLDFAST_DATABASE": "sqlite", "HOLDFAST_DATA": str(holdfast.home / "new")}
    assert session in holdfast("sessions", **there).out
    doctor = holdfast("doctor", **there)
    assert (doctor.code, "all rows agree with the event log" in doctor.out) == (0, True)
    assert holdfast("run", "--session", session, "--model", "demo/echo", "again", **there).code == 0
    again = holdfast("migrate", "--to", target)
    assert again.code == 0


def test_the_source_can_be_used_again(holdfast: Machine, target: str) -> None:
    """STO-164: once; then there is nothing to cancel."""
    new_session(holdfast)
    assert holdfast("migrate", "--to", target).code == 0
    cancelled = holdfast("migrate", "--cancel")
    assert cancelled.code == 0
    assert "holdfast.db can be used again" in cancelled.out
    assert "new/holdfast.db has the same sessions: use one of the two" in cancelled.out
    assert holdfast("sessions").code == 0
    assert "nothing to cancel" in holdfast("migrate", "--cancel").complaint
    new_session(holdfast)


def test_a_running_server_is_named(holdfast: Machine, serve: Callable[..., Server], target: str) -> None:
    """STO-162: and the source is not marked."""
    session = new_session(holdfast)
    server = serve()
    refused = holdfast("migrate", "--to", target)
    assert refused.code == 1
    assert re.search(rf"is in use by the server \S+ \(process {server.process.pid}\); stop it first", refused.complaint)
    assert f"using the server at {server.url}" in holdfast("run", "--model", "demo/echo", "hi").err
    server.process.send_signal(signal.SIGTERM)
    finish(server.process)
    assert session in holdfast("sessions").out
    assert holdfast("migrate", "--to", target).code == 0


def test_a_server_on_the_target_is_named(holdfast: Machine, serve: Callable[..., Server], target: str) -> None:
    """STO-162, STO-170: an empty store that somebody serves."""
    new_session(holdfast)
    server = serve(HOLDFAST_DATA=str(holdfast.home / "new"))
    assert f"process {server.process.pid}" in holdfast("migrate", "--to", target).complaint
    server.process.kill()
    finish(server.process)
    assert holdfast("migrate", "--to", target).code == 0


def test_what_a_killed_process_left_is_found_at_the_target(
    holdfast: Machine, serve: Callable[..., Server], provider: Provider, target: str
) -> None:
    """STO-172: a call that waited for a person waits there."""
    session = asyncio.run(waiting_for_a_person(holdfast, serve, provider, signal.SIGKILL))
    before = holdfast("sessions", "--interrupted")
    assert before.code == 0
    assert session in before.out
    assert holdfast("migrate", "--to", target).code == 0
    assert holdfast("sessions", "--interrupted", HOLDFAST_DATA=str(holdfast.home / "new")).out == before.out


def test_it_is_interrupted_and_goes_on(holdfast: Machine, target: str) -> None:
    """STO-166, STO-174: by Ctrl-C and SIGTERM; progress is shown to a person."""
    store_events(holdfast, 60_000)
    for number in (signal.SIGINT, signal.SIGTERM):
        person = holdfast.at_terminal("migrate", "--to", target)
        person.wait_for("of 60,000 events")
        person.process.send_signal(number)
        ended = person.leave()
        if ended.code == 0:  # it was quicker
            break
        assert ended.code == 130
        assert "interrupted; what was copied stays. Run the same command again to go on" in ended.err
        assert "Traceback" not in ended.err
        assert "are being moved to" in holdfast("sessions").complaint
        assert "is an incomplete copy" in holdfast("sessions", HOLDFAST_DATA=str(holdfast.home / "new")).complaint
    done = holdfast("migrate", "--json", "--to", target)
    assert done.code == 0, done.err
    assert done.err == ""
    result = json.loads(done.out)
    assert result["events"] == 60_000
    assert result["copied"] < result["rows"]


def test_an_incomplete_copy_is_emptied(holdfast: Machine, target: str) -> None:
    """STO-164."""
    store_events(holdfast, 60_000)
    person = holdfast.at_terminal("migrate", "--to", target)
    person.wait_for("of 60,000 events")
    person.process.kill()
    person.leave()
    emptied = holdfast("migrate", "--cancel", "--from", target)
    assert emptied.code == 0
    assert "was an incomplete copy of" in emptied.out
    assert holdfast("sessions", HOLDFAST_DATA=str(holdfast.home / "new")).code == 0
    back = holdfast("migrate", "--cancel", "--json")
    assert json.loads(back.out)["emptied"] is False


REFUSED = {
    ("--to", f"postgresql://u:{SECRET}@127.0.0.1:1/db"): (2, "put the password into a password file or PGPASSWORD"),
    ("--to", "postgresql://u@127.0.0.1:1/db"): (1, "cannot use the database postgresql://127.0.0.1:1/db"),
    ("--to", f"mysql://u:{SECRET}@h/db"): (2, "put the password into a password file"),
    ("--to", "mysql://h/db"): (1, "is no address of a database: only postgresql:// is known"),
    ("--to", "sqlite://new.db"): (1, "names no file; expected sqlite:///PATH"),
    ("--to", "sqlite:///tmp"): (1, "/tmp is a directory"),
    ("--to", "sqlite:///proc/none/new.db"): (1, "cannot use the database /proc/none/new.db"),
    ("--to", "sqlite"): (1, "are the same store"),
    ("--from", "sqlite:///none/at/all.db", "--to", "sqlite"): (1, "there is no database /none/at/all.db"),
    (): (2, "Give either --to ADDRESS or --cancel."),
    ("--cancel", "--to", "sqlite"): (2, "Give either --to ADDRESS or --cancel."),
    ("--cancel",): (1, "nothing to cancel"),
}


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda arguments: " ".join(arguments) or "nothing")
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], holdfast: Machine, here: Callable[..., Ran]) -> None:
    """STO-170, STO-175: the store stays as it was, and no password is shown."""
    assert here("sessions").code == 0
    ran = here("migrate", *arguments)
    code, text = REFUSED[arguments]
    assert ran.code == code, ran.err
    assert text in ran.complaint
    assert SECRET not in ran.err + ran.out
    assert here("sessions").code == 0


def test_a_newer_store_is_refused(holdfast: Machine, here: Callable[..., Ran], target: str) -> None:
    """STO-170: as the source and as the target."""
    import apsw

    assert here("sessions").code == 0
    newer = holdfast.home / "newer.db"
    with apsw.Connection(str(holdfast.data / "holdfast.db")) as source, apsw.Connection(str(newer)) as copy:
        with copy.backup("main", source, "main") as backup:
            backup.step()
        copy.pragma("user_version", 999)
    for arguments in (("--to", f"sqlite://{newer}"), ("--from", f"sqlite://{newer}", "--to", target)):
        assert "has schema 999" in here("migrate", *arguments).complaint
    assert here("sessions").code == 0


def test_a_store_that_cannot_be_written_is_told(holdfast: Machine, target: str) -> None:
    """STO-175."""
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    folder = Path(target.removeprefix("sqlite://")).parent
    folder.mkdir(mode=0o500)
    new_session(holdfast)
    assert "cannot use the database" in holdfast("migrate", "--to", target).complaint
    assert holdfast("sessions").code == 0


ADDRESS = f"postgresql://me:{SECRET}@db.example/holdfast"


@pytest.mark.parametrize(
    "arguments",
    [
        (ADDRESS,),
        ("--to", "sqlite", ADDRESS),
        ("--into", ADDRESS),
        ("--to", ADDRESS),
        (f"postgresql://db.example/holdfast?password={SECRET}",),
    ],
)
def test_a_password_in_a_wrong_argument_is_not_repeated(holdfast: Machine, arguments: tuple[str, ...]) -> None:
    """STO-175: nor in the message about another mistake."""
    refused = holdfast("migrate", *arguments)
    assert refused.code == 2
    assert SECRET not in refused.out + refused.err


def test_a_sequence_that_is_no_whole_number_is_named(holdfast: Machine, target: str) -> None:
    """STO-168: the row is not copied, and the command says which it is."""
    session = new_session(holdfast)
    with STORES.rows(holdfast.data / "holdfast.db") as run:
        run("update event set seq = 1.5 where aggregate_id = ? and seq = 1", session)
    refused = holdfast("migrate", "--to", target)
    assert refused.code == 1
    assert f"an event of '{session}' with the sequence 1.5" in refused.complaint
    assert "Traceback" not in refused.err
