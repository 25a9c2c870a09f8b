"""Signals: what runs is ended, recorded, and can be continued."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import httpx2
import pytest
from tests.cli.conftest import Machine, Provider, Server, eventually, finish


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Standard output, one character at a time, until this was said."""
    assert process.stdout is not None
    said = ""
    while text not in said:
        character = process.stdout.read(1)
        assert character, said
        said += character


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_a_turn_records_it(holdfast: Machine, provider: Provider, number: signal.Signals) -> None:
    """API-124: exit code 130, what was said is kept, and the session goes on."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.stall
    process = holdfast.start("run", "hello")
    read_until(process, "so far")
    process.send_signal(number)
    ran = finish(process)

    assert ran.code == 130
    assert "Traceback" not in ran.err
    assert holdfast.healthy()
    provider.behave = Provider.answer
    again = holdfast("run", "--session", ran.session, "again")
    assert (again.code, again.out) == (0, "fine\n")


def test_interrupting_while_the_provider_is_silent(holdfast: Machine, provider: Provider) -> None:
    """API-124: nothing has been said yet; likewise twice in a row."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    process = holdfast.start("run", "hello")
    assert provider.asked.acquire(timeout=10)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    ran = finish(process)

    assert ran.code == 130
    assert "Traceback" not in ran.err
    assert holdfast.healthy()


def test_interrupting_an_attached_run_interrupts_the_server(
    holdfast: Machine, provider: Provider, serve: Callable[..., Server]
) -> None:
    """API-124: the turn ends there too, before the command does."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.stall
    url = serve("--no-auth").url
    process = holdfast.start("run", "--attach", url, "hello")
    read_until(process, "so far")
    process.send_signal(signal.SIGINT)
    ran = finish(process)

    assert ran.code == 130
    assert httpx2.get(f"{url}/api/session/active").json() == {"data": {}}
    history = httpx2.get(f"{url}/api/session/{ran.session}/history").json()["data"]
    assert history[-1]["type"] == "session.next.step.failed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_stops_when_told(serve: Callable[..., Server], number: signal.Signals) -> None:
    """API-205: soon, with exit code 0 and nothing on standard error about it."""
    server = serve("--no-auth")
    assert httpx2.get(f"{server.url}/api/health").status_code == 200
    started = time.monotonic()
    server.process.send_signal(number)
    ran = finish(server.process)

    assert (ran.code, time.monotonic() - started < 5) == (0, True)
    assert "Traceback" not in ran.err
    assert "ERROR" not in ran.err


def test_a_stopping_server_says_goodbye_on_its_streams(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-205, API-213: `global.disposed`, then the proper end of the response, on both kinds of stream."""
    server = serve("--no-auth")
    with httpx2.Client(base_url=server.url) as client:
        session = client.post("/api/session", json={}).json()["data"]["id"]
        with (
            client.stream("GET", "/api/event") as live,
            client.stream("GET", f"/api/session/{session}/event") as durable,
        ):
            chunks = live.iter_raw()
            assert b"server.connected" in next(chunks)
            server.process.terminate()
            farewell = b"".join(chunks)
            assert b"".join(durable.iter_raw()) == b""
    ran = finish(server.process)

    assert b'"type":"global.disposed"' in farewell
    assert ran.code == 0
    assert holdfast.healthy()


def test_a_server_that_is_stopped_in_mid_turn_records_it(
    holdfast: Machine, provider: Provider, serve: Callable[..., Server]
) -> None:
    """API-124, API-213: the turn is interrupted, not torn off, and can be continued."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.stall
    server = serve("--no-auth")
    with httpx2.Client(base_url=server.url) as client:
        session = client.post("/api/session", json={}).json()["data"]["id"]
        client.post(f"/api/session/{session}/prompt", json={"prompt": {"text": "hello"}})
        assert provider.asked.acquire(timeout=10)
        eventually(lambda: "text.started" in client.get(f"/api/session/{session}/history").text)
    server.process.terminate()
    ran = finish(server.process)

    assert ran.code == 0
    assert holdfast.healthy()
    provider.behave = Provider.answer
    again = holdfast("run", "--session", session, "again")
    assert (again.code, again.out) == (0, "fine\n")


@pytest.fixture
def busy(holdfast: Machine, provider: Provider) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A run that waits for its model, and its session."""
    holdfast.use_provider(provider.url)
    provider.behave = lambda handler: (provider.released.wait(20), Provider.answer(handler))[1]
    process = holdfast.start("run", "one")
    assert provider.asked.acquire(timeout=10)
    assert process.stderr is not None
    yield process, process.stderr.readline().split()[1]
    if process.poll() is None:
        process.kill()
    process.communicate()


def admitted(machine: Machine, text: str) -> bool:
    from holdfast.core.database.sqlite import BusyWait, connect

    connection = connect(str(machine.data / "holdfast.db"), BusyWait(), readonly=True)
    try:
        return bool(connection.execute("select 1 from event where data like ?", (f"%{text}%",)).fetchall())
    finally:
        connection.close()


def test_two_runs_on_one_session_both_end(
    holdfast: Machine, provider: Provider, busy: tuple[subprocess.Popen[str], str]
) -> None:
    """API-405, SES-079: the second prompt joins the first one's drain; both commands end, and nothing runs twice."""
    first, session = busy
    second = holdfast.start("run", "--session", session, "number two")
    eventually(lambda: admitted(holdfast, "number two"))
    provider.released.set()
    ran = [finish(first), finish(second)]

    assert [item.code for item in ran] == [0, 0]
    assert "fine" in ran[1].out
    assert holdfast.healthy()


def test_a_second_run_can_be_interrupted_while_it_waits(
    holdfast: Machine, provider: Provider, busy: tuple[subprocess.Popen[str], str]
) -> None:
    """API-124: Ctrl-C ends it, though the drain belongs to another process."""
    _, session = busy
    second = holdfast.start("run", "--session", session, "number two")
    eventually(lambda: admitted(holdfast, "number two"))
    second.send_signal(signal.SIGINT)
    ran = finish(second)

    assert ran.code == 130
    assert "Traceback" not in ran.err


def test_many_runs_at_once_on_one_session(holdfast: Machine) -> None:
    """SES-079: each prompt is answered once, whoever's process does it."""
    session = holdfast("run", "--model", "demo/echo", "start").session
    started = [holdfast.start("run", "--session", session, f"prompt {number}") for number in range(4)]
    ran = [finish(process) for process in started]

    assert [item.code for item in ran] == [0] * 4
    assert holdfast.healthy()
