"""Says where a test hangs: the stacks of all threads and of all asyncio tasks, shortly before the test is ended.

pytest-timeout ends the process, and in a worker of xdist what it prints is lost."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import traceback
from types import CoroutineType, FrameType
from typing import IO, Any

SHARE = 0.9
"""Of a test's time after which it is reported."""
LOOK_SECONDS = 1.0


class HangReport:
    """One thread for all tests of a process. `began` and `ended` are called around each test."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds * SHARE
        self._running: tuple[str, float] | None = None
        # Before capturing begins: the report must not wait for the end of the test.
        self._output = os.fdopen(os.dup(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2), "w")
        threading.Thread(target=self._watch, name="hang-report", daemon=True).start()

    def began(self, test: str) -> None:
        self._running = test, time.monotonic()

    def ended(self) -> None:
        self._running = None

    def _watch(self) -> None:
        reported: tuple[str, float] | None = None
        while True:
            time.sleep(LOOK_SECONDS)
            running = self._running
            if running is None or running is reported or time.monotonic() - running[1] < self._seconds:
                continue
            reported = running
            write_report(running[0], self._output)


def write_report(test: str, output: IO[str]) -> None:
    print(f"\nHANGS {test}", file=output)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident():
            print(f"-- thread {names.get(ident, ident)}", file=output)
            output.writelines(traceback.format_stack(frame))
    for task in [found for found in gc.get_objects() if isinstance(found, asyncio.Task)]:
        if not task.done():
            print(f"-- task {task.get_name()}", file=output)
            output.writelines(f"  {_place(frame)}\n" for frame in _awaiting(task.get_coro()))
    output.flush()


def _awaiting(awaited: Any) -> list[FrameType]:
    """The frames of a coroutine, from the outermost to where it waits."""
    frames = []
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            frames.append(frame)
        below = getattr(awaited, "cr_await" if isinstance(awaited, CoroutineType) else "gi_yieldfrom", None)
        awaited = below
    return frames


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
