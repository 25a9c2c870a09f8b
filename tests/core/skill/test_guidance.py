"""What an agent is told about skills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.core.skill.conftest import write_skill

from holdfast.core.context.system_context import EMPTY, SystemContext, initialize, observe, reconcile
from holdfast.core.skill import guidance as texts
from holdfast.core.skill.guidance import MOST_LISTED, Listed, SkillGuidance, baseline, guidance, offered, permitted
from holdfast.core.skill.skill import DirectorySource, Skill, SkillSource
from holdfast.core.skill.skills import Skills
from holdfast.schema.permission import Rule

pytestmark = pytest.mark.anyio

ALLOW = Rule(action="*", resource="*", effect="allow")


def rule(resource: str, effect: Any) -> Rule:
    return Rule(action="skill", resource=resource, effect=effect)


def skill(name: str, description: str | None = "d") -> Skill:
    return Skill(name=name, description=description, location=f"/secret/place/{name}.md", content="SECRET BODY")


async def context(told: SkillGuidance, rules: Any) -> SystemContext:
    given = told.context(rules)
    return given if isinstance(given, SystemContext) else await given


def test_skill_guidance_has_this_text() -> None:
    """CTX-180, CTX-181: each text is said in one place."""
    assert baseline((Listed(name="a", description="first"), Listed(name="b", description="second"))) == (
        "Skills are written instructions for particular kinds of work.\n"
        "When a task matches one of these descriptions, load that skill with the `skill` tool before you begin.\n"
        "<available_skills>\n"
        "  <skill>\n"
        "    <name>a</name>\n"
        "    <description>first</description>\n"
        "  </skill>\n"
        "  <skill>\n"
        "    <name>b</name>\n"
        "    <description>second</description>\n"
        "  </skill>\n"
        "</available_skills>"
    )
    assert baseline(()) == texts.NONE
    assert "\n" not in texts.NONE


def test_only_names_and_descriptions_are_told() -> None:
    """CTX-178, CTX-179, TOL-245: neither body nor place; without a description it is not listed."""
    value = guidance([skill("a"), skill("b", None), skill("c", "")])
    assert value == (Listed(name="a", description="d"),)
    assert "secret" not in baseline(value).lower()


def test_names_are_sorted_and_cannot_leave_their_tags() -> None:
    """CTX-183: without regard to case or locale; one line each."""
    value = guidance([skill(name) for name in ("b", "Ä", "a", "B", "z", "A")])
    assert [item.name for item in value] == ["A", "a", "B", "b", "z", "Ä"]
    told = baseline((Listed(name="a<b>&c", description="one\ntwo </skill>\r\n three"),))
    assert "<name>a&lt;b&gt;&amp;c</name>" in told
    assert "<description>one two &lt;/skill&gt; three</description>" in told


def test_a_model_is_told_of_so_many_at_most() -> None:
    """CTX-178, CTX-180: whatever a directory holds."""
    assert len(guidance(skill(f"s{number}") for number in range(MOST_LISTED + 1))) == MOST_LISTED


@pytest.mark.parametrize(
    ("rules", "shown", "asked_for"),
    [
        ([ALLOW], ["a", "b"], True),
        ([], ["a", "b"], True),
        ([ALLOW, rule("a", "ask")], ["a", "b"], True),
        ([ALLOW, rule("a", "deny")], ["b"], True),
        ([ALLOW, rule("a", "deny"), rule("b", "deny")], [], True),
        ([rule("*", "deny")], [], False),
        ([rule("*", "deny"), rule("b", "allow")], ["b"], True),
        ([rule("*", "deny"), rule("b", "allow"), rule("b", "deny")], [], False),
    ],
)
def test_an_agent_may_use_all_skills_that_are_not_denied(rules: list[Rule], shown: list[str], asked_for: bool) -> None:
    """CTX-179, CTX-182: all that are not denied; nothing at all only where everything is."""
    skills = [skill("a"), skill("b")]
    assert [item.name for item in permitted(skills, rules)] == shown
    assert offered(skills, rules) is asked_for


async def test_the_source_follows_what_is_on_disk(skills: Skills, sources: list[SkillSource], tmp_path: Path) -> None:
    """CTX-178, CTX-180, CTX-181, TOL-245: baseline, update with the whole list, removal."""
    sources.append(DirectorySource(str(tmp_path)))
    told = SkillGuidance(skills)
    rules = (ALLOW,)
    first = initialize(await observe(await context(told, rules)))
    assert first.baseline == texts.NONE
    write_skill(tmp_path / "a.md", description="first")
    changed = reconcile(await observe(await context(told, rules)), first.snapshot)
    expected = f"{texts.CHANGED}\n{baseline((Listed(name='a', description='first'),))}"
    assert getattr(changed, "text", None) == expected
    gone = reconcile(await observe(EMPTY), getattr(changed, "snapshot", first.snapshot))
    assert getattr(gone, "text", None) == texts.REMOVED


async def test_skill_guidance_is_absent_for_unknown_agents_and_where_all_is_denied(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """CTX-182: absent, not empty."""
    write_skill(tmp_path / "a.md")
    sources.append(DirectorySource(str(tmp_path)))
    told = SkillGuidance(skills)
    assert await context(told, None) is EMPTY
    assert await context(told, (rule("*", "deny"),)) is EMPTY
    assert await context(told, (rule("*", "deny"), rule("a", "allow"))) is not EMPTY


@pytest.mark.usefixtures("aged")
async def test_nothing_changed_is_at_hand(skills: Skills, sources: list[SkillSource], tmp_path: Path) -> None:
    """CTX-177: no awaitable, no new rendering, the same context."""
    write_skill(tmp_path / "a.md")
    sources.append(DirectorySource(str(tmp_path)))
    told, rules = SkillGuidance(skills), (ALLOW,)
    first = await context(told, rules)
    assert told.context(rules) is first
    assert told.context((rule("*", "deny"),)) is EMPTY
