"""`core/skill-guidance`: names and descriptions of the skills that the selected agent may use, and nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.context.source import JsonCodec, Source
from holdfast.core.context.system_context import EMPTY, make
from holdfast.core.permission.rules import evaluate
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.permission.rules import Fences
    from holdfast.core.skill.skill import Skill
    from holdfast.core.skill.skills import Skills
    from holdfast.schema.permission import Rule

KEY = "core/skill-guidance"
ACTION = "skill"
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
    """One per Location. Remembers its last answer: skills and rules are the same objects until they change."""

    def __init__(self, skills: Skills) -> None:
        self._skills = skills
        self._last: tuple[tuple[Skill, ...], Sequence[Rule], Fences, SystemContext] | None = None

    def context(self, rules: Sequence[Rule] | None, fences: Fences = ()) -> SystemContext | Awaitable[SystemContext]:
        """For an agent with these rules; None is an agent that nobody knows. At hand unless a skill must be read."""
        if rules is None:
            return EMPTY
        skills = self._skills.current()
        return self._context(skills, rules, fences) if skills is not None else self._read(rules, fences)

    async def _read(self, rules: Sequence[Rule], fences: Fences) -> SystemContext:
        return self._context(await self._skills.list(), rules, fences)

    def _context(self, skills: tuple[Skill, ...], rules: Sequence[Rule], fences: Fences) -> SystemContext:
        known = self._last
        if known is None or known[0] is not skills or known[1] is not rules or known[2] is not fences:
            known = self._last = (skills, rules, fences, _context(skills, rules, fences))
        return known[3]


def _context(skills: Sequence[Skill], rules: Sequence[Rule], fences: Fences) -> SystemContext:
    if not offered(skills, rules, fences):
        return EMPTY
    value = guidance(permitted(skills, rules, fences))
    return make(
        Source(
            key=KEY,
            codec=_CODEC,
            load=lambda: value,
            baseline=baseline,
            update=lambda _, current: f"{CHANGED}\n{baseline(current)}",
            removed=lambda _: REMOVED,
        )
    )


def offered(skills: Sequence[Skill], rules: Sequence[Rule], fences: Fences = ()) -> bool:
    """Whether skills concern this agent at all."""
    return bool(permitted(skills, rules, fences)) or evaluate(rules, ACTION, "*", fences) != "deny"


def permitted(skills: Iterable[Skill], rules: Sequence[Rule], fences: Fences = ()) -> tuple[Skill, ...]:
    return tuple(skill for skill in skills if evaluate(rules, ACTION, skill.name, fences) != "deny")


def guidance(skills: Iterable[Skill]) -> Guidance:
    """Those that are described, as many as a model can be told of."""
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
    """Text that cannot leave its tag: escaped, on one line, and not endless."""
    text = " ".join(text.split())[:DESCRIPTION_CHARACTERS]
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_CODEC = JsonCodec(Guidance)
