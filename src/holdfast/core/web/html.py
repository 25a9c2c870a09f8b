"""HTML as Markdown or text, made in a process of its own that can be ended: a page chooses how much work it is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Literal

from holdfast.core.web.errors import FetchFailed

Form = Literal["markdown", "text"]

CPU_SECONDS = 10
WALL_FACTOR = 3
WORKER = str(Path(__file__).with_name("html_worker.py"))


async def convert(page: str, form: Form, *, cpu_seconds: int = CPU_SECONDS) -> str:
    # Isolated: neither the environment nor the working directory may bring modules of their own.
    program = (sys.executable, "-I", WORKER, form, str(cpu_seconds))
    pipe = asyncio.subprocess.PIPE
    worker = await asyncio.create_subprocess_exec(
        *program, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
    )
    try:
        async with asyncio.timeout(cpu_seconds * WALL_FACTOR):
            output, _ = await worker.communicate(page.encode("utf-8", "replace"))
    except TimeoutError:
        raise FetchFailed("the page is too complex to convert") from None
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    if worker.returncode != 0:
        raise FetchFailed("the page is too complex to convert")
    return output.decode("utf-8")
