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
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
shown = open("/proc/self/environ", "rb").read()
print(libc.prctl(3, 0, 0, 0, 0), "SOME_TOKEN" in os.environ, os.environ["PLAIN"], libc.getenv(b"PLAIN").decode())
print(b"s3cret" in shown, b"kept" in shown, b"HOME=/somewhere" in shown, b"pr0xy" in shown)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has /proc and prctl")
def test_the_process_is_not_dumpable_and_forgets_its_secrets() -> None:
    """TOL-402: other variables stay, for Python and for libraries; the kernel shows only those that children get."""
    environment = {
        "SOME_TOKEN": "s3cret",
        "PLAIN": "kept",
        "EMPTY_KEY": "",
        "HOME": "/somewhere",
        "HTTP_PROXY": "http://u:pr0xy@h",
    }
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert (ran.stdout.split(), ran.stderr) == (
        ["0", "False", "kept", "kept", "False", "False", "True", "False"],
        "",
    )
