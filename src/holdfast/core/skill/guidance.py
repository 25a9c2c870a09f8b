"""`core/skill-guidance`: names and descriptions of the skills that the selected agent may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.context.source import ABSENT, JsonCodec, Source
from holdfast.core.context.system_context import make
from holdfast.core.permission.rules import evaluate
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


class SkillGuidance:
    """The skills of one turn's agent. They are read when `context` is observed."""

    def __init__(self, skills: Skills, rules: Sequence[Rule], fences: Fences = ()) -> None:
        self._skills = skills
        self._rules = rules
        self._fences = fences
        self._usable: tuple[Skill, ...] | None = None

    def context(self) -> SystemContext:
        return make(
            Source(
                key=KEY,
                codec=_CODEC,
                load=self._load,
                baseline=baseline,
                update=lambda _, current: f"{CHANGED}\n{baseline(current)}",
                removed=lambda _: REMOVED,
                immediate=self._skills.local,
            )
        )

    def hidden_tools(self) -> frozenset[str]:
        """The `skill` tool if the agent may load no skill. Empty before the observation."""
        return frozenset({TOOL}) if self._usable == () else frozenset()

    async def _load(self) -> Guidance | Absent:
        self._usable = permitted(await self._skills.list(), self._rules, self._fences)
        if self._usable or evaluate(self._rules, ACTION, "*", self._fences) != "deny":
            return guidance(self._usable)
        return ABSENT


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
