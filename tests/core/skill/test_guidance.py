"""What an agent is told about skills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.core.skill.conftest import count_reads, write_skill

from holdfast.core.context.system_context import EMPTY, initialize, observe, reconcile
from holdfast.core.permission.rules import DENY_EVERYTHING
from holdfast.core.skill import guidance as texts
from holdfast.core.skill.downloads import SkillDownloads
from holdfast.core.skill.guidance import MOST_LISTED, Listed, SkillGuidance, baseline, guidance, permitted
from holdfast.core.skill.skill import DirectorySource, EmbeddedSource, Skill, SkillSource, UrlSource
from holdfast.core.skill.skills import Skills
from holdfast.schema.permission import Rule

pytestmark = pytest.mark.anyio

ALLOW = Rule(action="*", resource="*", effect="allow")


def rule(resource: str, effect: Any) -> Rule:
    return Rule(action="skill", resource=resource, effect=effect)


def skill(name: str, description: str | None = "d") -> Skill:
    return Skill(name=name, description=description, location=f"/secret/place/{name}.md", content="SECRET BODY")


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
async def test_an_agent_may_use_all_skills_that_are_not_denied(
    downloads: SkillDownloads, rules: list[Rule], shown: list[str], asked_for: bool
) -> None:
    """CTX-179, CTX-182, CTX-187: all that are not denied; nothing at all only where everything is."""
    skills = [skill("a"), skill("b")]
    fixed = Skills(lambda: [EmbeddedSource(item) for item in skills], downloads)
    assert [item.name for item in permitted(skills, rules)] == shown
    told = SkillGuidance(fixed, rules)
    assert bool(await observe(told.context())) is asked_for
    assert (told.hidden_tools() == frozenset()) is bool(shown)


async def test_the_source_follows_what_is_on_disk(skills: Skills, sources: list[SkillSource], tmp_path: Path) -> None:
    """CTX-178, CTX-180, CTX-181, TOL-245: baseline, update with the whole list, removal."""
    sources.append(DirectorySource(str(tmp_path)))
    told = SkillGuidance(skills, (ALLOW,)).context()
    first = initialize(await observe(told))
    assert first.baseline == texts.NONE
    write_skill(tmp_path / "a.md", description="first")
    changed = reconcile(await observe(told), first.snapshot)
    expected = f"{texts.CHANGED}\n{baseline((Listed(name='a', description='first'),))}"
    assert getattr(changed, "text", None) == expected
    gone = reconcile(await observe(EMPTY), getattr(changed, "snapshot", first.snapshot))
    assert getattr(gone, "text", None) == texts.REMOVED


async def test_skill_guidance_is_absent_for_unknown_agents_and_where_all_is_denied(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """CTX-182, CTX-187: absent, not empty; the tool is hidden. Nothing is allowed to an agent that does not exist."""
    write_skill(tmp_path / "a.md")
    sources.append(DirectorySource(str(tmp_path)))
    for rules, present in (
        (DENY_EVERYTHING.rules, False),
        ((rule("*", "deny"),), False),
        ((rule("*", "deny"), rule("a", "allow")), True),
    ):
        told = SkillGuidance(skills, rules)
        assert bool(await observe(told.context())) is present
        assert told.hidden_tools() == (frozenset() if present else {"skill"})


@pytest.mark.usefixtures("aged")
async def test_nothing_changed_is_at_hand(
    skills: Skills, sources: list[SkillSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTX-177: no task, no file opened, the same value."""
    write_skill(tmp_path / "a.md")
    sources.append(DirectorySource(str(tmp_path)))
    ((source, value),) = await observe(SkillGuidance(skills, (ALLOW,)).context())
    opened = count_reads(monkeypatch)
    ((_, again),) = await observe(SkillGuidance(skills, (ALLOW,)).context())
    assert source.immediate
    assert again == value
    assert opened == []


async def test_each_turn_keeps_the_skills_of_its_own_agent(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """CTX-187, CTX-108: whichever Session of the Location observes in between; nothing is hidden before."""
    write_skill(tmp_path / "a.md")
    sources.append(DirectorySource(str(tmp_path)))
    denied, allowed = SkillGuidance(skills, (rule("*", "deny"),)), SkillGuidance(skills, (ALLOW,))
    assert denied.hidden_tools() == frozenset()
    await observe(denied.context())
    await observe(allowed.context())
    assert (denied.hidden_tools(), allowed.hidden_tools()) == (frozenset({"skill"}), frozenset())


async def test_skills_behind_a_url_may_wait(skills: Skills, sources: list[SkillSource]) -> None:
    """CTX-021, CTX-027: they are loaded beside other sources."""
    assert skills.local
    sources.append(UrlSource("https://example.com/"))
    assert not skills.local
