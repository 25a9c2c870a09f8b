"""The `skill` tool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.permission.errors import DeniedByPerson, DeniedByRule, DeniedWithFeedback
from holdfast.core.permission.rules import ORDINARY, Terms
from holdfast.core.scope import Scope
from holdfast.core.skill.builtin import CUSTOMIZE
from holdfast.core.skill.content import BASE, MOST_ENTRIES, RELATIVE, SAMPLED, sample
from holdfast.core.skill.downloads import SkillDownloads
from holdfast.core.skill.skill import DirectorySource
from holdfast.core.skill.skills import Skills
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.builtin.skill import SkillInput, skill_tool
from holdfast.core.tool.registry import ToolRegistry
from holdfast.core.tool.tool import ToolContext, ToolFailure
from holdfast.core.web.fetch import Fetcher
from holdfast.schema.permission import Rule

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ses_1", "build", "msg_1", "c1")


class Approvals:
    """Answers as the real adapter does: a refusal is the cause of what the tool gets."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.asked: list[tuple[ToolContext, str, tuple[str, ...], tuple[str, ...]]] = []
        self._refusal = refusal

    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Sequence[str],
        *,
        save: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        terms: Terms = ORDINARY,
    ) -> None:
        self.asked.append((context, action, tuple(resources), tuple(save)))
        if isinstance(self._refusal, DeniedByPerson):
            raise self._refusal
        if self._refusal is not None:
            raise Denied(str(self._refusal)) from self._refusal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "skills"


@pytest.fixture
async def skills(root: Path, tmp_path: Path) -> AsyncIterator[Skills]:
    downloads = SkillDownloads(tmp_path / "cache", Fetcher())
    yield Skills(lambda: [CUSTOMIZE, DirectorySource(str(root))], downloads)
    await downloads.close()


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def put_skill(path: Path, name: str, body: str = "\n  Do it.\n\n") -> Path:
    return put(path, f"---\nname: {name}\ndescription: d\n---\n{body}")


async def loaded(skills: Skills, name: str, approvals: Approvals | None = None) -> dict[str, str]:
    tool = skill_tool(skills, approvals or Approvals())
    value: dict[str, str] = msgspec.to_builtins(await tool.execute(SkillInput(name), CONTEXT))
    assert tool.content is not None
    (shown,) = tool.content(SkillInput(name), value)
    assert msgspec.to_builtins(shown) == {"type": "text", "text": value["output"]}
    return value


async def failure(skills: Skills, name: str, approvals: Approvals) -> str:
    with pytest.raises(ToolFailure) as refused:
        await loaded(skills, name, approvals)
    return str(refused.value)


async def test_a_loaded_skill_has_its_body_directory_and_files(skills: Skills, root: Path) -> None:
    """TOL-243, TOL-245, CTX-185: the body in its tags, its directory, a sample of its files."""
    put_skill(root / "a" / "SKILL.md", "a")
    put(root / "a" / "b.txt")
    put(root / "a" / ".hidden" / "c.sh")
    folder = root / "a"
    assert await loaded(skills, "a") == {
        "name": "a",
        "directory": str(folder),
        "output": "\n".join(
            [
                '<skill_content name="a">',
                "# Skill: a",
                "",
                "Do it.",
                "",
                BASE.format(directory=folder),
                RELATIVE,
                SAMPLED,
                "",
                "<skill_files>",
                f"<file>{folder}/.hidden/c.sh</file>",
                f"<file>{folder}/b.txt</file>",
                "</skill_files>",
                "</skill_content>",
            ]
        ),
    }


async def test_approval_is_for_this_skill_and_comes_after_it_was_found(skills: Skills, root: Path) -> None:
    """TOL-242, CTX-184: action, name, and what may be saved; nobody is asked about what does not exist."""
    put_skill(root / "a.md", "a")
    approvals = Approvals()
    await loaded(skills, "a", approvals)
    assert approvals.asked == [(CONTEXT, "skill", ("a",), ("a",))]
    assert await failure(skills, "missing", approvals) == "Unable to load skill missing"
    assert len(approvals.asked) == 1


async def test_denied_and_unknown_look_alike(skills: Skills, root: Path) -> None:
    """TOL-242, CTX-184: a denied agent does not learn that the skill exists."""
    put_skill(root / "a" / "SKILL.md", "a")
    denied = await failure(skills, "a", Approvals(DeniedByRule("skill", ["a"])))
    (root / "a" / "SKILL.md").unlink()
    assert denied == await failure(skills, "a", Approvals()) == "Unable to load skill a"


async def test_the_correction_of_a_user_reaches_the_model(skills: Skills, root: Path) -> None:
    """TOL-242: a correction is the user's word; a plain decline passes through and stops the turn."""
    put_skill(root / "a.md", "a")
    assert "use b instead" in await failure(skills, "a", Approvals(DeniedWithFeedback("use b instead")))
    with pytest.raises(DeniedByPerson):
        await loaded(skills, "a", Approvals(DeniedByPerson("per_1")))


async def test_a_flat_skill_lists_no_neighbours(skills: Skills, root: Path) -> None:
    """TOL-244, CTX-186: they may be anything; the one that comes along has no directory at all."""
    put_skill(root / "flat.md", "flat")
    put(root / "secret.txt")
    assert "<file>" not in (await loaded(skills, "flat"))["output"]
    assert "<file>" not in (await loaded(skills, "customize-opencode"))["output"]


async def test_at_most_ten_files_sorted(skills: Skills, root: Path) -> None:
    """TOL-244, CTX-186: `SKILL.md` files are not among them."""
    put_skill(root / "a" / "SKILL.md", "a")
    put_skill(root / "a" / "inner" / "SKILL.md", "inner")
    for number in range(12):
        put(root / "a" / f"f{number:02}.txt")
    skill = await skills.get("a")
    assert skill is not None
    assert sample(skill) == [str(root / "a" / f"f{number:02}.txt") for number in range(10)]


async def test_links_that_leave_the_directory_are_not_listed(skills: Skills, root: Path, tmp_path: Path) -> None:
    """TOL-247: neither files nor directories."""
    put_skill(root / "a" / "SKILL.md", "a")
    put(tmp_path / "out" / "secret.txt")
    inside = put(root / "a" / "inside.txt")
    (root / "a" / "file").symlink_to(tmp_path / "out" / "secret.txt")
    (root / "a" / "folder").symlink_to(tmp_path / "out")
    (root / "a" / "broken").symlink_to(tmp_path / "nowhere")
    (root / "a" / "same").symlink_to(inside)
    skill = await skills.get("a")
    assert skill is not None
    assert sample(skill) == [str(inside), str(root / "a" / "same")]


async def test_the_listing_of_skill_files_is_bounded(
    skills: Skills, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-247: at most so many entries are looked at, in one directory or many."""
    assert MOST_ENTRIES == 2000
    monkeypatch.setattr("holdfast.core.skill.content.MOST_ENTRIES", 5)
    put_skill(root / "a" / "SKILL.md", "a")
    for number in range(30):
        put(root / "a" / f"d{number}" / "x.txt")
    skill = await skills.get("a")
    assert skill is not None
    assert len(sample(skill)) < 5


async def test_skill_content_cannot_close_its_tags(skills: Skills, root: Path) -> None:
    """TOL-247: name, paths and body."""
    folder = root / 'a&"<b>'
    put_skill(folder / "SKILL.md", "'a\"<b>'", body="before </skill_content> </ Skill_Content > after")
    put(folder / "<file>.txt")
    output = (await loaded(skills, 'a"<b>'))["output"]
    assert output.startswith('<skill_content name="a&quot;&lt;b&gt;">\n# Skill: a&quot;&lt;b&gt;\n')
    assert output.count("</skill_content>") == 1
    assert "before &lt;/skill_content> &lt;/skill_content > after" in output
    assert "&lt;file&gt;.txt</file>" in output


async def test_the_skill_tool_is_advertised_unless_every_skill_is_denied(skills: Skills, root: Path) -> None:
    """CTX-187, TOL-243: the last rule about skills decides; through the registry the result is the same."""
    put_skill(root / "a.md", "a")
    registry = ToolRegistry()
    registry.register({"skill": skill_tool(skills, Approvals())}, Scope())
    deny = Rule(action="skill", resource="*", effect="deny")
    allow = Rule(action="skill", resource="a", effect="allow")
    assert registry.materialize((allow, deny)).definitions == ()
    offered = registry.materialize((deny, allow))
    assert [definition.name for definition in offered.definitions] == ["skill"]
    output = await offered.execute("skill", {"name": "a"}, CONTEXT)
    assert output.structured == await loaded(skills, "a")
