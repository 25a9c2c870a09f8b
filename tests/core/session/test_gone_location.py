"""A Session whose directory was deleted."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from holdfast.core.context.errors import InitializationBlocked
from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio


async def test_nothing_is_lost_and_everyone_is_told(
    runtime: Runtime, session: Session, model: ScriptedTransport, project: Path
) -> None:
    """SES-092, CTX-083, CMP-040: the prompt waits, whoever asked for a run or a compaction hears why, and once the
    directory is back the prompt is answered."""
    shutil.rmtree(project)
    await runtime.sessions.prompt(session.id, Prompt(text="hello"))
    async with asyncio.timeout(10):
        await runtime.sessions.wait(session.id)
        for asked in (runtime.sessions.run(session.id), runtime.sessions.compact(session.id)):
            with pytest.raises(InitializationBlocked, match="core/instructions"):
                await asked
    assert [item.prompt.text for item in await runtime.sessions.pending(session.id)] == ["hello"]
    assert model.requests == []

    project.mkdir()
    await runtime.sessions.run(session.id)
    assert len(model.requests) == 1
    assert await runtime.sessions.pending(session.id) == []
