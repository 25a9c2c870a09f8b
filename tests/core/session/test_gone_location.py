"""A Session whose directory was deleted."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.stores.stores import on_postgres

from holdfast.core.context.errors import InitializationBlocked
from holdfast.core.runtime.placement import NoNodeServes
from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio

# On a database that other machines use too, the directory may be on one of them.
BLOCKED, REASON = (NoNodeServes, "No running node") if on_postgres() else (InitializationBlocked, "core/instructions")


async def test_nothing_is_lost_and_everyone_is_told(
    runtime: Runtime, session: Session, model: ScriptedTransport, project: Path
) -> None:
    """SES-092, CTX-083, CMP-040, STO-109: the prompt waits, whoever asked for a run or a compaction hears why, and once
    the directory is back the prompt is answered."""
    shutil.rmtree(project)
    await runtime.sessions.prompt(session.id, Prompt(text="hello"))
    async with asyncio.timeout(10):
        await runtime.sessions.wait(session.id)
        for ask in (runtime.sessions.run, runtime.sessions.compact):
            with pytest.raises(BLOCKED, match=REASON):
                await ask(session.id)
    assert [item.prompt.text for item in await runtime.sessions.pending(session.id)] == ["hello"]
    assert model.requests == []

    project.mkdir()
    await runtime.sessions.run(session.id)
    assert len(model.requests) == 1
    assert await runtime.sessions.pending(session.id) == []
