"""A process whose clock is wrong. `shifted(folder, seconds)` is the environment that makes it so.

Python imports `sitecustomize` before anything else; the one written here shifts the clock of the process. The clocks
that only measure, such as `time.monotonic`, are right everywhere and stay."""

from __future__ import annotations

from pathlib import Path

PROGRAM = """
import time

_real, _real_ns = time.time, time.time_ns
time.time = lambda: _real() + {seconds}
time.time_ns = lambda: _real_ns() + {seconds} * 10**9
"""


def shifted(folder: Path, seconds: int) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(PROGRAM.format(seconds=seconds), encoding="utf-8")
    return {"PYTHONPATH": str(folder)}
