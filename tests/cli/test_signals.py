"""Signals: what runs is ended, recorded, and can be continued."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, Machine, Provider, Server, eventually, finish, frame

from holdfast.cli.answer import Answer
from holdfast.cli.answering import Answering
from holdfast.cli.attendance import Attendance
from holdfast.cli.following import Follower
from holdfast.cli.screen import Screen
from holdfast.client.call import Options
from holdfast.client.errors import ClientError


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Standard output, one character at a time, until this was said."""
    assert process.stdout is not None
    said = ""
    while text not in said:
        character = process.stdout.read(1)
        assert character, said
        said += character


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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
    assert holdfast.commands_work()
    provider.behave = Provider.answer
    again = holdfast("run", "--session", ran.session, "again")
    assert (again.code, again.out) == (0, "fine\n")


def test_interrupting_while_the_provider_is_silent(holdfast: Machine, provider: Provider) -> None:
    """API-124: nothing has been said yet; likewise twice in a row."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    process = holdfast.start("run", "hello")
    assert provider.asked.acquire(timeout=PATIENCE)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    ran = finish(process)

    assert ran.code == 130
    assert "Traceback" not in ran.err
    assert holdfast.healthy()


def test_under_nohup_the_terminal_may_go(holdfast: Machine, provider: Provider) -> None:
    """What the caller told us to ignore is ignored."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.answer_later
    holdfast.started_by = ["sh", "-c", 'trap "" HUP; exec "$0" "$@"']
    process = holdfast.start("run", "hello")
    assert provider.asked.acquire(timeout=PATIENCE)
    process.send_signal(signal.SIGHUP)
    provider.released.set()
    ran = finish(process)

    assert (ran.code, ran.out) == (0, "fine\n")


@pytest.mark.parametrize("controlling", [True, False])
def test_a_closed_terminal_interrupts_a_turn(holdfast: Machine, provider: Provider, controlling: bool) -> None:
    """API-463, API-124: exit code 130 although nothing can be printed, with SIGHUP or without, and the turn is
    recorded."""
    holdfast.use_provider(provider.url)
    arguments = '{"command": "touch made.txt", "description": "make a file"}'
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "bash", "arguments": arguments}}

    def call_bash(handler: Any) -> None:
        Provider.head(handler)
        handler.wfile.write(frame({"tool_calls": [call]}) + frame({}, "tool_calls") + b"data: [DONE]\n\n")

    provider.behave = call_bash
    holdfast.configure(permission={"bash": "ask"})
    person = holdfast.at_terminal("run", "hello", controlling=controlling)
    person.wait_for("your answer:")
    person.hang_up()
    ran = finish(person.process)

    assert ran.code == 130
    assert not (holdfast.project / "made.txt").exists()
    assert holdfast.healthy()


def test_a_closed_terminal_ends_a_silent_turn(holdfast: Machine, provider: Provider) -> None:
    """API-463: nothing is being printed or asked when the terminal is closed."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    person = holdfast.at_terminal("run", "hello", controlling=True)
    assert provider.asked.acquire(timeout=PATIENCE)
    person.hang_up()

    assert finish(person.process).code == 130
    assert holdfast.healthy()


def test_interrupting_a_question_of_the_command_itself(holdfast: Machine) -> None:
    """130 like everywhere, and nothing was done."""
    session = holdfast("run", "--model", "demo/echo", "hello").session
    person = holdfast.at_terminal("sessions", "delete", session)
    person.wait_for("Delete")
    person.process.send_signal(signal.SIGINT)
    ran = person.leave()

    assert ran.code == 130
    assert session in holdfast("sessions").out


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
    """Without the ten seconds of grace that open requests get; exit code 0, nothing on standard error about it."""
    server = serve("--no-auth")
    assert httpx2.get(f"{server.url}/api/health").status_code == 200
    started = time.monotonic()
    server.process.send_signal(number)
    ran = finish(server.process)

    assert (ran.code, time.monotonic() - started < 10) == (0, True)
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
        assert provider.asked.acquire(timeout=PATIENCE)
        eventually(lambda: "text.started" in client.get(f"/api/session/{session}/history").text)
    server.process.terminate()
    ran = finish(server.process)

    assert ran.code == 0
    assert holdfast.healthy()
    provider.behave = Provider.answer
    again = holdfast("run", "--session", session, "again")
    assert (again.code, again.out) == (0, "fine\n")


@pytest.mark.anyio
async def test_an_interruption_that_does_not_arrive_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """API-124: the command ends as interrupted all the same."""

    class Gone:
        def __init__(self) -> None:
            self.sessions = self

        async def events(self, session_id: str, *, options: Options, **query: bool) -> AsyncIterator[str]:
            assert options.on_heartbeat is not None
            options.on_heartbeat()
            await asyncio.Event().wait()
            yield "never"

        tree_events = events

        async def interrupt(self, session_id: str) -> None:
            raise ClientError("Transport", "nobody is there")

    async def begin() -> None:
        raise asyncio.CancelledError

    client: Any = Gone()
    screen = Screen(quiet=False)
    answering = Answering(client, "ses_1", screen, Attendance(None, allow=False))
    with pytest.raises(asyncio.CancelledError):
        await Follower(client, "ses_1", screen, answering, Answer()).follow(begin)

    assert capsys.readouterr().err == "\ninterrupted\nthe server did not get the interruption: nobody is there\n"
