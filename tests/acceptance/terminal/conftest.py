"""Terminals in tmux, real servers, and a scripted provider."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.acceptance.page.machine import HOLDFAST, Machine
from tests.acceptance.page.provider import Provider
from tests.acceptance.terminal.tmux import Pane, Tmux

from holdfast.client.discovery import running_servers
from holdfast.tui.requests_panel import GUARD_SECONDS

SIZES = [(80, 24), (40, 20)]
READY = "Type a prompt"


@pytest.fixture(scope="session")
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    program = shutil.which("tmux")
    if program is None:
        assert not os.environ.get("CI"), "tmux is missing"
        pytest.skip("tmux is not installed; `make acceptance` installs it where it can")
    tmux = Tmux(tmp_path_factory.mktemp("t"), program)
    yield tmux
    tmux.stop()


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    provider = Provider()
    with provider.serving():
        yield provider


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Machine]:
    """A machine with a running server, for tests with Sessions of their own on it."""
    machine = Machine(tmp_path_factory.mktemp("m"), provider.url)
    has_chosen(machine)
    machine.start()
    yield machine
    machine.close()
    end_servers(machine)


@pytest.fixture
def own_machine(tmp_path: Path, provider: Provider) -> Iterator[Machine]:
    """A machine on which nothing runs and nothing was ever started."""
    machine = Machine(tmp_path / "m", provider.url)
    yield machine
    machine.close()
    end_servers(machine)


class Terminals:
    """Opens panes, and closes them after the test."""

    def __init__(self, tmux: Tmux) -> None:
        self._tmux = tmux
        self._panes: list[Pane] = []

    def open(
        self, machine: Machine, *arguments: str, size: tuple[int, int] = (80, 24), program: str = HOLDFAST, **more: str
    ) -> Pane:
        environment = {**machine.environment, "TERM": "tmux-256color", "LANG": "C.UTF-8", **more}
        pane = Pane(
            self._tmux,
            [program, *arguments],
            folder=machine.project,
            environment=environment,
            columns=size[0],
            rows=size[1],
        )
        self._panes.append(pane)
        return pane

    def opened(self, machine: Machine, *arguments: str, size: tuple[int, int] = (80, 24), **more: str) -> Pane:
        """A terminal with a new Session, ready for a prompt."""
        pane = self.open(machine, "--new", *arguments, size=size, **more)
        pane.wait_for("A new session", READY)
        return pane

    def close(self) -> None:
        for pane in self._panes:
            with suppress(AssertionError):  # the test has closed it
                pane.close()


@pytest.fixture
def terminals(tmux: Tmux) -> Iterator[Terminals]:
    terminals = Terminals(tmux)
    yield terminals
    terminals.close()


def has_chosen(machine: Machine) -> None:
    """The question of the first start has been answered."""
    state = Path(machine.environment["XDG_STATE_HOME"], "holdfast")
    state.mkdir(parents=True, mode=0o700, exist_ok=True)
    (state / "choices.json").touch()


def end_servers(machine: Machine) -> list[int]:
    """As the kernel does when memory is short."""
    ended = [server.pid for server in running_servers(machine.environment)]
    for pid in ended:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return ended


def answer(pane: Pane, request: str, key: str) -> None:
    """Press a key for a request once it is there. In its first half second it takes none, so that a key that was meant
    for something else answers nothing."""
    pane.wait_for(request)
    time.sleep(GUARD_SECONDS + 0.1)
    pane.press(key)
