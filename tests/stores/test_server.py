"""The PostgreSQL of a test run ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.stores.server import NoPostgres, programs

PROGRAM = """
import sys
from tests.stores.server import shared_server

print(shared_server().folder, flush=True)
sys.stdin.read()
"""
PATIENCE = 30.0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_server_ends_however_the_run_ends(number: int, tmp_path: Path) -> None:
    try:
        programs()
    except NoPostgres as error:
        pytest.skip(str(error))
    root = str(Path(__file__).parents[2])
    run = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": root, "HOME": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    server = Path("/proc") / (folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0]
    run.send_signal(number)
    run.communicate()
    deadline = time.monotonic() + PATIENCE
    while (folder.exists() or server.exists()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not folder.exists()
    assert not server.exists()
