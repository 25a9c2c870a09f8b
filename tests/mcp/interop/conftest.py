"""One process with servers of the official package, for all tests here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "official_server.py"


@pytest.fixture(scope="session")
def ports() -> Iterator[dict[str, int]]:
    process = subprocess.Popen([sys.executable, str(SCRIPT), "ports"], stdin=-1, stdout=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()
