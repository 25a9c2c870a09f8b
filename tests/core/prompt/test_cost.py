"""What mentions cost."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from holdfast.core.filesystem.image import ImageLimits
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.attachment_source import read_address
from holdfast.core.session.attachments import Attachments, AttachmentSource
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio

FILES = 20
ROUNDS = 15


@pytest.mark.store("sqlite", reason="a ratio that holds for SQLite")
async def test_admitting_mentions_costs_at_most_twice_what_reading_costs(
    runtime: Runtime, session: Session, project: Path
) -> None:
    """SES-278: in processor time, of which other processes take nothing; the best of some rounds."""
    paths = [project / f"file{number}.py" for number in range(FILES)]
    for path in paths:
        path.write_text("value = compute(argument)  # a line of code\n" * 200)
    prompt = Prompt(text=" ".join(f"@{path.name}" for path in paths))
    sources = [AttachmentSource(partial(read_address, path.as_uri(), project, "text/x-python"), "") for path in paths]
    reader = Attachments()
    reading, admitting = [], []
    async with runtime.locations.use(runtime.location) as services:
        for _ in range(ROUNDS):
            started = time.process_time()
            for source in sources:
                async for _ in reader.read((source,), ImageLimits()):
                    pass
            reading.append(time.process_time() - started)
            started = time.process_time()
            mentioned = await services.mentions.resolve(session, prompt)
            receipt = await runtime.sessions.prompt(session.id, prompt, mentioned=mentioned, resume=False)
            admitting.append(time.process_time() - started)
            assert len(receipt.prompt.files or ()) == FILES
    ratio = min(admitting) / min(reading)
    print(f"admitting {FILES} mentions: {min(admitting) * 1000:.2f} ms, {ratio:.2f} times reading")
    assert ratio <= 2
