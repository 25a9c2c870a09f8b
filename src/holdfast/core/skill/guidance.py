"""`core/skill-guidance`: names and descriptions of the skills that the selected agent may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.context.source import ABSENT, JsonCodec, Source
from holdfast.core.context.system_context import make
from holdfast.core.permission.rules import evaluate
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.context.source import Absent
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.permission.rules import Fences
    from holdfast.core.skill.skill import Skill
    from holdfast.core.skill.skills import Skills
    from holdfast.schema.permission import Rule

KEY = "core/skill-guidance"
ACTION = "skill"
TOOL = "skill"
INTRODUCTION = "Skills are written instructions for particular kinds of work."
HOW_TO_LOAD = "When a task matches one of these descriptions, load that skill with the `skill` tool before you begin."
NONE = "No skills are available at present."
CHANGED = "The available skills have changed. This list takes the place of the earlier one."
REMOVED = "The guidance on skills has ended. Do not use the skills that were listed earlier."
DESCRIPTION_CHARACTERS = 2000
MOST_LISTED = 500


class Listed(Record):
    name: str
    description: str


Guidance = tuple[Listed, ...]


class Offer(Frozen):
    """What an agent with these rules is told about these skills."""

    skills: tuple[Skill, ...]
    rules: Sequence[Rule]
    fences: Fences
    value: Guidance | Absent
    usable: bool
    """Whether there is a skill that the agent may load, listed or not."""

    @classmethod
    def of(cls, skills: tuple[Skill, ...], rules: Sequence[Rule], fences: Fences) -> Offer:
        usable = permitted(skills, rules, fences)
        offered = usable or evaluate(rules, ACTION, "*", fences) != "deny"
        return cls(skills, rules, fences, guidance(usable) if offered else ABSENT, bool(usable))


class SkillGuidance:
    """One per Location. Skills, rules and fences are the same objects until they change, so the last offer is kept."""

    def __init__(self, skills: Skills) -> None:
        self._skills = skills
        self._last: Offer | None = None

    def for_agent(self, rules: Sequence[Rule], fences: Fences = ()) -> AgentSkills:
        return AgentSkills(self, rules, fences)

    @property
    def immediate(self) -> bool:
        """Whether all skills are local."""
        return self._skills.local

    async def offer(self, rules: Sequence[Rule], fences: Fences) -> Offer:
        skills = await self._skills.list()
        last = self._last
        if last is None or last.skills is not skills or last.rules is not rules or last.fences is not fences:
            last = self._last = Offer.of(skills, rules, fences)
        return last


class AgentSkills:
    """The skills of one turn's agent. Read when `context` is observed."""

    def __init__(self, guidance: SkillGuidance, rules: Sequence[Rule], fences: Fences) -> None:
        self._guidance = guidance
        self._rules = rules
        self._fences = fences
        self._offer: Offer | None = None

    def context(self) -> SystemContext:
        return make(
            Source(
                key=KEY,
                codec=_CODEC,
                load=self._load,
                baseline=baseline,
                update=lambda _, current: f"{CHANGED}\n{baseline(current)}",
                removed=lambda _: REMOVED,
                immediate=self._guidance.immediate,
            )
        )

    def hidden_tools(self) -> frozenset[str]:
        """The `skill` tool if the agent may load no skill. Empty before the observation."""
        return frozenset() if self._offer is None or self._offer.usable else _SKILL_TOOL

    async def _load(self) -> Guidance | Absent:
        self._offer = await self._guidance.offer(self._rules, self._fences)
        return self._offer.value


def permitted(skills: Iterable[Skill], rules: Sequence[Rule], fences: Fences = ()) -> tuple[Skill, ...]:
    return tuple(skill for skill in skills if evaluate(rules, ACTION, skill.name, fences) != "deny")


def guidance(skills: Iterable[Skill]) -> Guidance:
    """The skills that have a description, sorted by name, up to the limit."""
    listed = (Listed(name=skill.name, description=skill.description) for skill in skills if skill.description)
    return tuple(sorted(listed, key=lambda skill: (skill.name.casefold(), skill.name)))[:MOST_LISTED]


def baseline(value: Guidance) -> str:
    if not value:
        return NONE
    lines = [INTRODUCTION, HOW_TO_LOAD, "<available_skills>"]
    for skill in value:
        lines += [
            "  <skill>",
            f"    <name>{one_line(skill.name)}</name>",
            f"    <description>{one_line(skill.description)}</description>",
            "  </skill>",
        ]
    return "\n".join([*lines, "</available_skills>"])


def one_line(text: str) -> str:
    """Escape, join the lines and shorten, so that the text cannot leave its tag."""
    text = " ".join(text.split())[:DESCRIPTION_CHARACTERS]
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_CODEC = JsonCodec(Guidance)
_SKILL_TOOL = frozenset({TOOL})
