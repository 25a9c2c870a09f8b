"""Ending confined commands that do not want to end."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, eventually
from tests.outside.test_sandbox import BACKENDS, machine, reasons, run, use

__all__ = ["machine", "reasons", "use"]
pytestmark = pytest.mark.prove


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_command_that_takes_too_long_ends_with_everything_it_started(
    machine: Machine, use: Callable[[str], None], backend: str
) -> None:
    """TOL-374, TOL-218: also when it ignores the request to end, and what it started has left its group."""
    use(backend)
    (machine.project / "src").mkdir()
    hold = "import fcntl,os,time;fcntl.flock(os.open('src/alive',66),2);open('src/held','w');time.sleep(1000)"
    line = f"trap '' TERM; env -i setsid {sys.executable} -I -S -c \"{hold}\" & sleep 1000; sleep 1000"
    run(machine, {"command": line, "timeout": 700}, sandbox="workspace")
    assert (machine.project / "src" / "held").exists()

    def free() -> bool:
        with (machine.project / "src" / "alive").open() as alive:
            try:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    eventually(free)
