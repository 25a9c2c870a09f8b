"""Skills that are attached to a prompt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.core.skill.conftest import write_skill

from holdfast.core.permission.rules import Authority
from holdfast.core.skill.attachment import SkillRefused, attach_skills
from holdfast.core.skill.skill import DirectorySource, EmbeddedSource, Skill, SkillSource
from holdfast.core.skill.skills import Skills
from holdfast.schema.permission import Rule
from holdfast.schema.prompt import SkillAttachment, Source

pytestmark = pytest.mark.anyio

ALLOWED = Authority((Rule(action="*", resource="*", effect="allow"),))
SPAN = Source(start=0, end=4, text="/cut")


def asked(id: str) -> SkillAttachment:
    return SkillAttachment(id=id, name=id, text="", source=SPAN)


async def test_a_skill_is_attached_with_its_text(skills: Skills, sources: list[SkillSource], tmp_path: Path) -> None:
    """SES-282: the span stays, and files of its folder are listed."""
    write_skill(tmp_path / "s" / "cut" / "SKILL.md", "cut", body="With care.")
    (tmp_path / "s" / "cut" / "pattern.txt").touch()
    sources.append(DirectorySource(str(tmp_path / "s")))
    (attached,) = await attach_skills(skills, (asked("cut"),), "build", ALLOWED)

    assert (attached.id, attached.name, attached.source) == ("cut", "cut", SPAN)
    assert attached.text.startswith('<skill_content name="cut">')
    assert "With care." in attached.text
    assert str(tmp_path / "s" / "cut" / "pattern.txt") in attached.text


async def test_a_skill_whose_files_vanish_is_attached_or_unknown(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """SES-282: after it was read it is whole; before that it is not there."""
    folder = tmp_path / "s" / "cut"
    write_skill(folder / "SKILL.md", "cut", body="With care.")
    sources.append(DirectorySource(str(tmp_path / "s")))
    known = await skills.get("cut")
    assert known is not None
    shutil.rmtree(folder)
    with pytest.raises(SkillRefused, match="There is no skill cut"):
        await attach_skills(skills, (asked("cut"),), "build", ALLOWED)
    sources.append(EmbeddedSource(known))
    (attached,) = await attach_skills(skills, (asked("cut"),), "build", ALLOWED)
    assert "With care." in attached.text
    assert "<file>" not in attached.text


async def test_the_texts_of_all_skills_are_bounded(skills: Skills, sources: list[SkillSource]) -> None:
    """SES-282."""
    sources += [
        EmbeddedSource(Skill(name=f"s{number}", location=f"/{number}.md", content="x" * 1024 * 1024))
        for number in range(4)
    ]
    three = tuple(asked(f"s{number}") for number in range(3))
    assert len(await attach_skills(skills, three, "build", ALLOWED)) == 3
    with pytest.raises(SkillRefused, match="at most 4194304 characters"):
        await attach_skills(skills, (*three, asked("s3")), "build", ALLOWED)
    assert await attach_skills(skills, (), "build", ALLOWED) == ()


async def test_a_fence_denies_a_skill(skills: Skills, sources: list[SkillSource]) -> None:
    """SES-282, TOL-400: what a project forbids stays forbidden."""
    sources.append(EmbeddedSource(Skill(name="cut", location="/cut.md", content="x")))
    fenced = Authority(ALLOWED.rules, ((Rule(action="skill", resource="cut", effect="deny"),),))
    with pytest.raises(SkillRefused, match="deny the skill cut"):
        await attach_skills(skills, (asked("cut"),), "build", fenced)
