"""What protects the secrets of the runtime's own process from its children."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, os
from holdfast.core.process.protection import ProcessProtection

protection = ProcessProtection()
protection.apply()
protection.apply()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), "SOME_TOKEN" in os.environ, os.environ["PLAIN"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc and prctl")
def test_the_process_is_not_dumpable_and_forgets_its_secrets() -> None:
    """TOL-402: other variables stay."""
    environment = {"SOME_TOKEN": "s3cret", "PLAIN": "kept", "EMPTY_KEY": ""}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert (ran.stdout.split(), ran.stderr) == (["0", "False", "kept"], "")
