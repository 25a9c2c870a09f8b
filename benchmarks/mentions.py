"""Admitting a prompt that mentions twenty files, against reading these files. `make bench`.

Both read and examine the same files with the attachment reader. The admission also finds the mentions, asks for
permission, and commits the prompt with the content of the files. The best of many rounds counts: the others wait for
the disk."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from holdfast.core.filesystem.image import ImageLimits
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.session.attachment_source import read_address
from holdfast.core.session.attachments import Attachments, AttachmentSource
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt

FILES = 20
LINES = 200
ROUNDS = 30
BOUND = 2.0
MODEL = ModelRef(id="echo", provider_id="demo")


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        for number in range(FILES):
            (project / f"file{number}.py").write_text("value = compute(argument)  # a line of code\n" * LINES)
        options = HostOptions(titles=False)
        async with Runtime(
            paths=Paths(Path(folder) / "data"), directory=project, environment={"HOME": folder}, options=options
        ) as runtime:
            reading, resolving, admitting = await measure(runtime, project)
    print(f"reading {FILES} files: {reading * 1000:.2f} ms")
    print(f"resolving {FILES} mentions: {resolving * 1000:.2f} ms, {resolving / reading:.2f} times reading")
    print(f"admitting them: {admitting * 1000:.2f} ms, {admitting / reading:.2f} times reading (at most {BOUND:g})")
    return admitting / reading > BOUND


async def measure(runtime: Runtime, project: Path) -> tuple[float, float, float]:
    """The shortest times of reading the files, of resolving their mentions, and of the whole admission."""
    location = runtime.location
    session = await runtime.sessions.create(location=location, project=await runtime.project(location), model=MODEL)
    prompt = Prompt(text=" ".join(f"@file{number}.py" for number in range(FILES)))
    reader = Attachments()
    taken: list[tuple[float, float, float]] = []
    async with runtime.locations.use(location) as services:
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            for number in range(FILES):
                uri = (project / f"file{number}.py").as_uri()
                source = AttachmentSource(partial(read_address, uri, project, "text/x-python"), uri)
                async for _ in reader.read((source,), ImageLimits()):
                    pass
            read = time.perf_counter()
            mentioned = await services.mentions.resolve(session, prompt)
            resolved = time.perf_counter()
            await runtime.sessions.prompt(session.id, prompt, mentioned=mentioned, resume=False)
            taken.append((read - begun, resolved - read, time.perf_counter() - read))
    reading, resolving, admitting = (min(column) for column in zip(*taken, strict=True))
    return reading, resolving, admitting


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
