"""The terminal starts quickly and stays small. The bounds of time are three times those that a calm machine keeps."""

from __future__ import annotations

import statistics

import pytest
from benchmarks.terminal_start import first_frame, imported
from tests.acceptance.page.machine import Machine

pytestmark = pytest.mark.acceptance
START_MS = 350
TIMES = 1.5
MEMORY_MB = 70
BUSY = 3


def test_the_first_frame_comes_soon_and_the_terminal_stays_small(machine: Machine) -> None:
    """TUI-101: beside the import of the library that draws it, in the same minute."""
    environment = {**machine.environment, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    folder = str(machine.project)
    _, memory = first_frame(environment, folder, settle=True)
    base = statistics.median(imported() for _ in range(3))
    frame = statistics.median(first_frame(environment, folder)[0] for _ in range(3))
    assert frame <= START_MS * BUSY
    assert frame <= base * TIMES * BUSY
    assert memory <= MEMORY_MB
