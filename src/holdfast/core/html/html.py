"""HTML to Markdown or text, in a separate process that can be killed, because a page decides how much work it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from holdfast.core.process.environment import child_environment
from holdfast.core.process.process import Capture, ProcessError, Processes
from holdfast.core.web.errors import FetchFailed

Form = Literal["markdown", "text"]

CPU_SECONDS = 10
WALL_FACTOR = 3
OUTPUT_BYTES = 5 * 1024 * 1024
WORKER = Path(__file__).with_name("worker.py")


async def convert(page: str, form: Form, *, cpu_seconds: int = CPU_SECONDS) -> str:
    output = Capture(OUTPUT_BYTES)
    try:
        ended = await Processes(watched=False).run(
            # Isolated: no modules from the environment or the working directory.
            (sys.executable, "-I", str(WORKER), form, str(cpu_seconds)),
            cwd=WORKER.parent,
            environment=child_environment(os.environ),
            output=output,
            error=Capture(0),
            given=page.encode("utf-8", "replace"),
            timeout=cpu_seconds * WALL_FACTOR,
        )
    except (ProcessError, OSError) as error:
        raise FetchFailed("the page could not be converted") from error
    if ended.code != 0 or output.truncated:
        raise FetchFailed("the page is too complex to convert")
    return output.text()
