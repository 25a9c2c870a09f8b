"""A process that exchanges a directory and a link to another one, as fast as it can."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import os, sys
here, link, kept = sys.argv[1:]
print("ready", flush=True)
while True:
    for source, target in ((here, kept), (link, here), (here, link), (kept, here)):
        try:
            os.rename(source, target)
        except OSError:
            pass
"""


@contextmanager
def swapped(directory: Path, outside: Path) -> Iterator[None]:
    """While it lasts, `directory` is a link to `outside` half of the time."""
    link, kept = directory.with_name(".swapped-link"), directory.with_name(".swapped-away")
    link.symlink_to(outside)
    command = (sys.executable, "-c", PROGRAM, str(directory), str(link), str(kept))
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
