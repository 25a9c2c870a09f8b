"""Files that a person names on the command line, and that are none."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest
from tests.cli.conftest import HOLDFAST, PATIENCE, Machine, finish


@pytest.mark.parametrize("kind", ["pipe", "socket", "link"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("import", "FILE"),
        ("verify", "FILE"),
        ("backup", "--check", "FILE"),
        ("backup", "FILE"),
        ("restore", "FILE"),
        ("run", "--format", "FILE", "hello"),
        ("run", "--file", "FILE", "hello"),
    ],
    ids=lambda words: "-".join(words[:-1] if words[0] != "run" else words[:2]),
)
def test_what_is_no_file_ends_at_once(holdfast: Machine, arguments: tuple[str, ...], kind: str) -> None:
    """TOL-508: a pipe without a writer would be waited for; the error names it and what to do."""
    path = holdfast.home / "p"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    else:
        os.mkfifo(target := path if kind == "pipe" else holdfast.home / "target")
        if target != path:
            path.symlink_to(target)
    ran = finish(holdfast.start(*(str(path) if word == "FILE" else word for word in arguments)), timeout=PATIENCE)
    assert ran.code == 2
    assert str(path) in ran.err
    assert "neither a file nor a directory" in ran.err


def test_a_pipe_that_the_shell_opened_is_read(holdfast: Machine) -> None:
    """TOL-508: process substitution has a writer."""
    reading, writing = os.pipe()
    os.write(writing, b"from a pipe")
    os.close(writing)
    command = ["run", "--standalone", "--model", "demo/echo", "--file", f"/dev/fd/{reading}", "hello"]
    ran = subprocess.run(
        [HOLDFAST, *command],
        cwd=holdfast.project,
        env=holdfast.environment,
        pass_fds=[reading],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    os.close(reading)
    assert ran.returncode == 0, ran.stderr
