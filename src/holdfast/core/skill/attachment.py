"""Attaches skills to a prompt: their text is read once, before the prompt is admitted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.permission.rules import evaluate
from holdfast.core.skill.content import skill_text
from holdfast.core.skill.guidance import ACTION
from holdfast.schema.exceptions import NAME_CHARACTERS, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.permission.rules import Authority
    from holdfast.core.skill.skill import Skill
    from holdfast.core.skill.skills import Skills
    from holdfast.schema.prompt import SkillAttachment

MOST_SKILLS = 32
TEXT_CHARACTERS = 4 * 1024 * 1024
"""Limit of the texts of all skills of a prompt."""


class SkillRefused(InvalidRequest):
    """A skill cannot be attached; the whole prompt was refused."""

    code = "Session.SkillRefusedError"

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}. The prompt was not admitted.", kind="Payload", field="prompt.skills")


async def attach_skills(
    skills: Skills, given: Sequence[SkillAttachment], agent: str, authority: Authority
) -> tuple[SkillAttachment, ...]:
    """The attachments with name and text. Raises SkillRefused for one that is unknown or denied to the agent. A rule
    that says `ask` does not refuse: whoever attaches a skill has decided."""
    if not given:
        return ()
    if len(given) > MOST_SKILLS:
        raise SkillRefused(f"A prompt may have at most {MOST_SKILLS} skills")
    known = {skill.name: skill for skill in await skills.list()}
    attached = [await _attached(item, known.get(item.id), agent, authority) for item in given]
    if sum(len(item.text) for item in attached) > TEXT_CHARACTERS:
        raise SkillRefused(f"The skills of a prompt may have at most {TEXT_CHARACTERS} characters")
    return tuple(attached)


async def _attached(given: SkillAttachment, skill: Skill | None, agent: str, authority: Authority) -> SkillAttachment:
    if skill is None:
        raise SkillRefused(f"There is no skill {given.id[:NAME_CHARACTERS]}; `holdfast skills` lists them")
    if evaluate(authority.rules, ACTION, skill.name, authority.fences) == "deny":
        raise SkillRefused(f"The rules of the agent {agent} deny the skill {skill.name}")
    return replace(given, name=skill.name, text=await asyncio.to_thread(skill_text, skill))
