"""The System Context of a Location: composed without reading, read by the observation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.conftest import MODEL

from holdfast.core.context.instructions import Instruction, InstructionFile, InstructionFiles
from holdfast.core.context.system_context import initialize, observe
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.skill.skills import Skills
from holdfast.schema.catalog import SkillInfo
from holdfast.schema.location import Location
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio


async def test_the_observation_reads_and_composing_does_not(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTX-070, CTX-215: so that its duration is that of the reading; each source is read once."""
    here = Location(directory=str(tmp_path / "here"))
    Path(here.directory).mkdir()
    (Path(here.directory) / "AGENTS.md").write_text("Be kind.", encoding="utf-8")
    session: Session = await runtime.sessions.create(location=here, project=await runtime.project(here), model=MODEL)
    done: list[str] = []
    read, list_skills = InstructionFiles.read, Skills.list

    def reading(self: InstructionFiles, files: Iterable[InstructionFile]) -> tuple[Instruction, ...]:
        done.append("instructions")
        return read(self, files)

    async def listing(self: Skills) -> tuple[SkillInfo, ...]:
        done.append("skills")
        return await list_skills(self)

    monkeypatch.setattr(InstructionFiles, "read", reading)
    monkeypatch.setattr(Skills, "list", listing)
    async with runtime.locations.use(here) as services:
        agent = services.agents.select(None).agent
        assert agent is not None
        context = services.context.compose(session, agent, services.catalog.resolve(session.id, MODEL, agent))
        assert done == []
        assert "Be kind." in initialize(await observe(context.system)).baseline
    assert done == ["instructions", "skills"]
