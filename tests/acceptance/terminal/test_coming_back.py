"""Recorded sessions at the terminal: servers that are killed and restarted, windows that are closed, suspension."""

from __future__ import annotations

import sqlite3
import threading
import time

import httpx2
import pytest
from tests.acceptance.page.machine import PASSWORD, PATIENCE, Json, Machine
from tests.acceptance.page.provider import Held, Provider, Reply
from tests.acceptance.terminal.conftest import READY, SIZES, Terminals, end_servers, has_chosen

from holdfast.client.discovery import running_servers

pytestmark = pytest.mark.acceptance
Size = tuple[int, int]
sizes = pytest.mark.parametrize("size", SIZES, ids=["80x24", "40x20"])


@sizes
def test_nothing_is_lost_or_doubled_when_the_server_is_killed_in_an_answer(
    own_machine: Machine, provider: Provider, terminals: Terminals, size: Size
) -> None:
    """TUI-042, TUI-121, TUI-138: the terminal starts another server, which asks the model again."""
    has_chosen(own_machine)
    first = f"Answer slowly {size}"
    provider.on(first, Reply(Held("A first try", provider.stopped, " that broke off.")))
    provider.on("A prompt before", Reply("An answer before."))
    provider.on("A prompt after", Reply("An answer after."))
    pane = terminals.opened(own_machine, size=size)
    pane.send("A prompt before")
    pane.wait_for("An answer before.", "idle")
    pane.send(first)
    pane.wait_for("A first try")
    provider.on(first, Reply("The beginning and the end."))
    assert end_servers(own_machine)
    pane.wait_for("The beginning and the end.", "idle")
    pane.send("A prompt after")
    pane.wait_for("An answer after.", "idle")
    pane.resize(size[0], 60)  # everything is visible
    shown = pane.wait_for("A prompt before", "An answer after.")
    written = texts(own_machine)
    assert {"A prompt before", first, "The beginning and the end.", "An answer after."} <= set(written)
    assert [shown.count(text) for text in written] == [1] * len(written), f"{written}\n{shown}"
    assert sorted(written, key=shown.index) == written


def test_a_server_that_restarts_under_the_screen_is_found_again(
    own_machine: Machine, provider: Provider, terminals: Terminals
) -> None:
    """TUI-042, TUI-120, TUI-141: what is typed meanwhile stays, and is sent once."""
    has_chosen(own_machine)
    own_machine.start()
    provider.on("While it was away", Reply("Received once."))
    pane = terminals.opened(own_machine, "--server", own_machine.url)
    pane.send("Before the restart")
    pane.wait_for("done", "idle")
    own_machine.kill()
    pane.wait_for("reconnecting")
    pane.send("While it was away")
    pane.wait_for("sending")
    own_machine.start()
    shown = pane.wait_for("Received once.", "idle")
    assert shown.count("While it was away") == shown.count("Received once.") == 1


def test_a_closed_window_stops_nothing(machine: Machine, provider: Provider, terminals: Terminals) -> None:
    """TUI-105"""
    goes_on = threading.Event()
    provider.on("Work while I am away", Reply(Held("Beginning.", goes_on, " Finished alone.")))
    pane = terminals.opened(machine)
    pane.send("Work while I am away")
    pane.wait_for("Beginning.")
    pane.close()
    goes_on.set()
    session = newest_session(machine)
    machine.wait(session)
    again = terminals.open(machine, "--session", session)
    again.wait_for("Beginning. Finished alone.", "idle")


def test_a_terminal_that_is_opened_in_an_answer_shows_what_was_written_before(
    machine: Machine, provider: Provider, terminals: Terminals
) -> None:
    """TUI-040: also if nobody has watched so far and the model pauses."""
    goes_on = threading.Event()
    provider.on("Write unobserved", Reply(Held("Written before.", goes_on, " And after.")))
    session = machine.create("Unobserved")
    machine.prompt(session, "Write unobserved")
    pane = terminals.open(machine, "attach", "Unobserved")
    pane.wait_for("Written before.", "the model answers")
    goes_on.set()
    pane.wait_for("Written before. And after.", "idle")


def test_suspended_and_brought_back(machine: Machine, terminals: Terminals) -> None:
    """TUI-108: the shell has its screen meanwhile, and the draft is still there."""
    from tests.acceptance.page.machine import HOLDFAST

    shell = terminals.open(machine, "--norc", "--noprofile", "-i", program="bash", PS1="shell> ")
    shell.wait_for("shell> ")
    shell.send(f"{HOLDFAST} --new")
    shell.wait_for("A new session", READY)
    shell.type("half a prompt")
    shell.wait_for("half a prompt")
    shell.press("C-z")
    shell.wait_for("Stopped")
    assert not shell.is_full_screen
    shell.send("echo the $((40 + 2)) shell works")
    shell.wait_for("the 42 shell works")
    shell.send("fg")
    shell.wait_until(lambda screen: shell.is_full_screen and "half a prompt" in screen, "it is not back")
    shell.press("C-c", "C-c")
    shell.wait_until(lambda screen: not shell.is_full_screen and screen.count("shell> ") >= 3, "it has not ended")


def test_a_database_of_a_newer_version_is_refused_with_the_way_out(own_machine: Machine, terminals: Terminals) -> None:
    """TUI-200"""
    has_chosen(own_machine)
    own_machine.run("sessions")
    (database,) = own_machine.data.glob("*.db")
    with sqlite3.connect(database) as connection:
        connection.execute("pragma user_version=999")
    pane = terminals.open(own_machine)
    pane.wait_for("use a newer Holdfast or another file")
    assert pane.wait_for_exit() != 0


def texts(machine: Machine) -> list[str]:
    """Everything that people and the model wrote, as the server renders it."""
    deadline = time.monotonic() + PATIENCE
    while not (servers := running_servers(machine.environment)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    transport = httpx2.HTTPTransport(uds=servers[0].socket)
    with httpx2.Client(base_url="http://127.0.0.1", transport=transport, auth=("opencode", PASSWORD)) as api:
        session = api.get("/api/session", params={"limit": 1}).raise_for_status().json()["data"][0]["id"]
        path = f"/api/session/{session}/rendered"
        entries: list[Json] = api.get(path, params={"format": "text", "order": "asc"}).raise_for_status().json()["data"]
    found: list[str] = []
    for entry in entries:
        if entry["type"] == "user":
            found.append(entry["text"])
        found += [part["text"] for part in entry.get("parts", ()) if part["type"] == "text" and part.get("text")]
    return found


def newest_session(machine: Machine) -> str:
    return str(machine.get("/api/session", limit=1)[0]["id"])
