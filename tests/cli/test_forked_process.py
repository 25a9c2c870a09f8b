"""Processes that are forked do what started ones do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import ColdMachine, Machine, Ran, finish
from tests.forked_process import ForkedProcess, can_fork

pytestmark = pytest.mark.skipif(not can_fork({}), reason="processes are not forked here")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    (tmp_path / "forked").mkdir()
    (tmp_path / "cold").mkdir()
    forked, cold = Machine(tmp_path / "forked"), ColdMachine(tmp_path / "cold")
    yield forked, cold
    forked.clean_up()
    cold.clean_up()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("sessions", "show", "ses_unknown"),
        ("no-such-command",),
        ("config", "check"),
        ("run", b"\xff", "--x"),
    ],
)
def test_output_and_exit_code_are_the_same(
    machines: tuple[Machine, Machine], arguments: tuple[str | bytes, ...]
) -> None:
    forked, cold = (machine(*arguments) for machine in machines)
    home = str(machines[1].home)
    assert forked == Ran(cold.code, *(text.replace(home, str(machines[0].home)) for text in (cold.out, cold.err)))


def test_a_signal_ends_it_and_is_its_status(machines: tuple[Machine, Machine]) -> None:
    process = machines[0].start("serve", "--port", "0")
    assert isinstance(process, ForkedProcess)
    assert process.stdout is not None
    assert "listening" in process.stdout.readline()
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL


@pytest.mark.parametrize("name", ["PYTHONIOENCODING", "LC_ALL", "TZ"])
def test_what_an_interpreter_reads_at_its_start_needs_a_start(machines: tuple[Machine, Machine], name: str) -> None:
    process = machines[0].start("--version", **{name: "C"})
    assert not isinstance(process, ForkedProcess)
    assert finish(process).code in (0, 1)
