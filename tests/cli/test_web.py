"""`holdfast web`: a page that is signed in, of the server that runs or of one that is started."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Iterator

import httpx2
import pytest
from tests.cli.conftest import PATIENCE, ColdMachine, Machine, Server
from tests.plain_http import NO_TLS

from holdfast.client.discovery import running_servers

CODE = "/#/code/"


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ColdMachine]:
    """A machine whose background servers are ended after the test."""
    machine = ColdMachine(tmp_path_factory.mktemp("alone"))
    yield machine
    pids = [server.pid for server in running_servers(machine.environment)]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    machine.clean_up()
    deadline = time.monotonic() + PATIENCE
    while running_servers(machine.environment):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def sign_in(address: str) -> int:
    url, _, code = address.strip().partition(CODE)
    return httpx2.post(f"{url}/web/sign-in", json={"code": code}, verify=NO_TLS).status_code


def test_it_prints_an_address_that_signs_in_once(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """WEB-015, WEB-040: of the server that runs on the data; the password is not in it."""
    server = serve()
    ran = holdfast("web", "--print-url")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(server.url + CODE)
    assert (holdfast.home / "state" / "holdfast" / "server-password").read_text().strip() not in ran.out + ran.err
    assert (sign_in(ran.out), sign_in(ran.out)) == (200, 401)


def test_a_server_without_a_password_needs_no_code(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """WEB-016, WEB-040."""
    server = serve("--no-auth")
    assert holdfast("web", "--print-url").out == f"{server.url}/\n"


def test_a_given_password_is_not_needed_on_the_local_socket(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """WEB-015: whoever may open the socket is the owner."""
    server = serve(OPENCODE_SERVER_PASSWORD="mine")
    ran = holdfast("web", "--print-url")
    assert (ran.code, ran.out.startswith(server.url + CODE)) == (0, True)
    assert sign_in(ran.out) == 200


def test_a_browser_gets_a_file_that_leads_to_the_address(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """WEB-040: the code is not among the arguments of its process, which other users see."""
    serve()
    seen = holdfast.home / "seen"
    browser = holdfast.home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}\n', encoding="utf-8")
    browser.chmod(0o755)
    ran = holdfast("web", BROWSER=str(browser))
    assert ran.code == 0, ran.err
    opened = seen.read_text(encoding="utf-8").strip()
    assert opened.startswith("file://")
    assert CODE not in opened
    file = holdfast.home / "state" / "holdfast" / "open-page.html"
    assert opened.endswith("/open-page.html")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"url={ran.out.strip()}" in file.read_text(encoding="ascii")


def test_without_a_browser_the_address_is_left_to_the_person(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """WEB-040."""
    serve()
    ran = holdfast("web")
    assert (ran.code, CODE in ran.out) == (0, True)
    assert "no browser" in ran.err


def test_without_a_server_one_is_started_and_stays(alone: ColdMachine) -> None:
    """WEB-041: the next call uses it; its log is private."""
    ran = alone("web", "--print-url")
    assert ran.code == 0, ran.err
    assert sign_in(ran.out) == 200
    (server,) = running_servers(alone.environment)
    assert f"kill {server.pid}" in ran.err
    log = alone.home / "state" / "holdfast" / "serve.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert f"page: {server.url}/" in log.read_text(encoding="utf-8")
    again = alone("web", "--print-url")
    assert again.out.startswith(server.url + CODE)
    assert "started" not in again.err
    assert len(running_servers(alone.environment)) == 1


def test_a_started_server_imports_nothing_from_the_directory(alone: ColdMachine) -> None:
    """WEB-041: a cloned repository may have modules with the names of those that the server imports."""
    marker = alone.home / "imported"
    for name in ("asyncio", "logging", "msgspec", "uvicorn", "holdfast"):
        (alone.project / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n", encoding="utf-8")
    ran = alone("web", "--print-url")
    assert ran.code == 0, ran.err
    assert not marker.exists()


@pytest.mark.store("sqlite", reason="a damaged file")
def test_a_server_that_cannot_start_is_told_with_its_words(alone: ColdMachine) -> None:
    """WEB-041."""
    alone.data.mkdir(parents=True)
    (alone.data / "holdfast.db").write_bytes(b"not a database" * 1000)
    ran = alone("web", "--print-url")
    assert (ran.code, ran.out) == (1, "")
    assert "the server ended with 1" in ran.complaint
    assert "holdfast.db" in ran.complaint


def test_serve_says_where_the_page_is(holdfast: Machine) -> None:
    """WEB-042: in the line after the one that programs read."""
    process = holdfast.start("serve", "--port", "0", "--no-auth")
    assert process.stdout is not None
    listening, page = process.stdout.readline(), process.stdout.readline()
    assert listening.startswith("holdfast listening on http://127.0.0.1:")
    assert page == f"page: {listening.split()[-1]}/\n"
    process.terminate()


def test_a_link_needs_a_server(holdfast: Machine) -> None:
    """WEB-033: the way out is said."""
    ran = holdfast("sessions", "link", "ses_x")
    assert ran.code == 1
    assert "holdfast web" in ran.complaint
