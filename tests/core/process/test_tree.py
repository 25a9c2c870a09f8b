"""Which processes belong to a call."""

from __future__ import annotations

import os
import subprocess

import pytest

from holdfast.core.process.tree import ProcessTree


@pytest.mark.skipif(os.geteuid() != 0, reason="needs processes of two users")
def test_processes_of_other_users_are_not_waited_for() -> None:
    """TOL-219: their environment is closed, which does not mean that they are just starting a program."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        tree = ProcessTree(os.getpid(), b"\0NO_SUCH_MARKER\0")
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        found, clear = tree.escapees()
        os._exit(0 if clear and not found else 1)
    os.read(ready[0], 1)
    with subprocess.Popen(["sleep", "1000"]) as other:
        os.write(go[1], b"x")
        _, status = os.waitpid(child, 0)
        other.kill()
    for end in (*ready, *go):
        os.close(end)
    assert os.waitstatus_to_exitcode(status) == 0
