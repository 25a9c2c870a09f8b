"""Where skills are found, which of them win, and what is read again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.core.skill.conftest import count_reads, write_skill

from holdfast.core.skill.builtin import CUSTOMIZE
from holdfast.core.skill.skill import (
    DirectorySource,
    EmbeddedSource,
    Skill,
    SkillSource,
    SkillSources,
    UrlSource,
    configured_sources,
    directory_sources,
)
from holdfast.core.skill.skills import Skills

pytestmark = pytest.mark.anyio


async def names(skills: Skills) -> list[str]:
    return [skill.name for skill in await skills.list()]


# -- sources -------------------------------------------------------------------------------------------------------


def test_equal_skill_sources_count_once() -> None:
    """CTX-170: by path, URL, or the embedded skill's name."""
    one = Skill(name="a", location="/a.md", content="1")
    other = Skill(name="a", location="/b.md", content="2")
    sources = SkillSources([DirectorySource("/x"), UrlSource("https://x/"), EmbeddedSource(one)])
    before = sources.copy()
    for source in (DirectorySource("/x"), UrlSource("https://x/"), EmbeddedSource(other), DirectorySource("/y")):
        sources.add(source)
    assert sources.list() == (*before.list(), DirectorySource("/y"))


def test_skill_sources_come_from_folders_and_configuration_in_order() -> None:
    """CTX-173: both folders of each directory, low to high; entries by their form."""
    assert directory_sources([Path("/global"), Path("/repo/.opencode")]) == [
        DirectorySource("/global/skill"),
        DirectorySource("/global/skills"),
        DirectorySource("/repo/.opencode/skill"),
        DirectorySource("/repo/.opencode/skills"),
    ]
    entries = [
        "https://a.test/x",
        "http://b.test",
        "~/mine",
        "/abs",
        "rel/ative",
        "",
        "a\0b",
        "\ud800",
        "https://\ud800",
    ]
    assert configured_sources(entries, Path("/repo"), Path("/home/me")) == [
        UrlSource("https://a.test/x"),
        UrlSource("http://b.test"),
        DirectorySource("/home/me/mine"),
        DirectorySource("/abs"),
        DirectorySource("/repo/rel/ative"),
    ]


async def test_the_skill_that_comes_along_can_be_replaced(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """CTX-172, CTX-173, TOL-246: it stands first, and keeps that place."""
    sources += [CUSTOMIZE, DirectorySource(str(tmp_path / "s"))]
    write_skill(tmp_path / "s" / "a.md")
    assert (await skills.list())[0] == CUSTOMIZE.skill
    own = write_skill(tmp_path / "s" / "zz" / "SKILL.md", "customize-opencode", body="Mine.")
    assert [(skill.name, skill.content) for skill in await skills.list()] == [
        ("customize-opencode", "Mine."),
        ("a", "Do it."),
    ]
    assert (await skills.list())[0].location == str(own)


# -- discovery -----------------------------------------------------------------------------------------------------


async def test_skills_are_found_at_the_top_and_as_skill_md_below(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """CTX-171, TOL-246: `*.md` at the top, `SKILL.md` anywhere, hidden ones too, sorted by path."""
    root = tmp_path / "s"
    sources.append(DirectorySource(str(root)))
    write_skill(root / "flat.md")
    write_skill(root / "named.md", "another-name")
    write_skill(root / ".hidden" / "SKILL.md", "hidden")
    write_skill(root / "b" / "deep" / "er" / "SKILL.md", "deep")
    write_skill(root / "a" / "SKILL.md", "a")
    write_skill(root / "c" / "SKILL.md", None)
    write_skill(root / "a" / "notes.md", "not-a-skill")
    write_skill(root / "skill.txt", "nor-this")
    assert await names(skills) == ["hidden", "a", "deep", "flat", "another-name"]
    assert await skills.get("flat") == Skill(
        name="flat", description="about it", location=str(root / "flat.md"), content="Do it."
    )
    assert await skills.get("c") is None


async def test_links_are_followed_and_circles_are_not(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """CTX-171: a linked directory or file counts; one that contains itself ends."""
    elsewhere = write_skill(tmp_path / "elsewhere" / "SKILL.md", "linked").parent
    root = tmp_path / "s"
    root.mkdir()
    (root / "link").symlink_to(elsewhere)
    (elsewhere / "again").symlink_to(root)
    (root / "file.md").symlink_to(write_skill(tmp_path / "x.md"))
    (root / "broken.md").symlink_to(tmp_path / "nowhere")
    sources.append(DirectorySource(str(root)))
    assert await names(skills) == ["file", "linked"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"  \n",
        b"---\nname: [a]\n---\nx",
        b"---\nname: ''\n---\nx",
        b"---\nname: x\ndescription: 3\n---\nx",
        b"---\nname: x\nslash: maybe\n---\nx",
        b"---\nname: x\n  bad: [\n---\nx",
        b"---\n- a\n---\nx",
        b"\xff\xfe\x00",
        b"x" * (1024 * 1024 + 1),
    ],
)
async def test_a_file_that_is_no_skill_is_skipped_alone(
    skills: Skills, sources: list[SkillSource], tmp_path: Path, content: bytes
) -> None:
    """CTX-171: empty, unparsable, wrong types, not text, too large."""
    sources.append(DirectorySource(str(tmp_path / "s")))
    write_skill(tmp_path / "s" / "good.md")
    (tmp_path / "s" / "bad.md").write_bytes(content)
    assert await names(skills) == ["good"]


async def test_a_skill_file_that_cannot_be_opened_is_skipped(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """CTX-171: a pipe does not hold anyone up, a missing directory is an empty one."""
    root = tmp_path / "s"
    write_skill(root / "good.md")
    os.mkfifo(root / "pipe.md")
    (root / "dir.md").mkdir()
    sources += [DirectorySource(str(tmp_path / "missing")), DirectorySource(str(root))]
    assert await names(skills) == ["good"]


async def test_frontmatter_is_read_and_left_out(skills: Skills, sources: list[SkillSource], tmp_path: Path) -> None:
    """CTX-170, CTX-171, TOL-246: name, description and slash; the rest of the file is the content."""
    sources.append(DirectorySource(str(tmp_path)))
    (tmp_path / "a.md").write_text(
        "---\nname: x\ndescription: Use when: always\nslash: true\nother: 1\n---\n\nBody\n", encoding="utf-8"
    )
    (tmp_path / "plain.md").write_text("No head at all.", encoding="utf-8")
    assert await skills.list() == (
        Skill(
            name="x",
            description="Use when: always",
            slash=True,
            location=str(tmp_path / "a.md"),
            content="\nBody\n",
        ),
        Skill(name="plain", location=str(tmp_path / "plain.md"), content="No head at all."),
    )


async def test_the_search_for_skills_is_bounded(
    skills: Skills,
    sources: list[SkillSource],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CTX-171: a directory that is no place for skills costs a line in the log, not minutes."""
    monkeypatch.setattr("holdfast.core.skill.reader.ENTRIES", 20)
    for number in range(50):
        (tmp_path / f"d{number}").mkdir()
    write_skill(tmp_path / "a.md")
    sources.append(DirectorySource(str(tmp_path)))
    assert await names(skills) == ["a"]
    assert "not all of it was searched" in caplog.text


# -- reading again -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("aged")
async def test_unchanged_skill_directories_are_not_read_again(
    skills: Skills, sources: list[SkillSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTX-177: the same tuple, and no file opened or directory listed."""
    for number in range(5):
        write_skill(tmp_path / "s" / f"n{number}" / "SKILL.md", f"n{number}")
    sources += [CUSTOMIZE, DirectorySource(str(tmp_path / "s")), DirectorySource(str(tmp_path / "none"))]
    assert skills.current() is None
    first = await skills.list()
    opened = count_reads(monkeypatch)
    assert skills.current() is first
    assert await skills.list() is first
    assert opened == []


@pytest.mark.usefixtures("aged")
async def test_only_what_changed_is_read_again(
    skills: Skills, sources: list[SkillSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTX-177: a changed file, a new one, a removed one, a new directory that did not exist."""
    root = tmp_path / "s"
    sources += [DirectorySource(str(root)), DirectorySource(str(tmp_path / "late"))]
    a, b = write_skill(root / "a" / "SKILL.md", "a"), write_skill(root / "b" / "SKILL.md", "b")
    await skills.list()
    opened = count_reads(monkeypatch)
    write_skill(b, "b", body="Changed.")
    assert skills.current() is None
    assert [skill.content for skill in await skills.list()] == ["Do it.", "Changed."]
    assert [path for path in opened if path.endswith(".md")] == [str(b)]
    write_skill(root / "a" / "inner" / "SKILL.md", "inner")
    assert await names(skills) == ["a", "inner", "b"]
    a.unlink()
    assert await names(skills) == ["inner", "b"]
    write_skill(tmp_path / "late" / "new.md")
    assert await names(skills) == ["inner", "b", "new"]


async def test_a_file_changed_in_the_same_moment_is_noticed(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """CTX-177: size and times alike; a fresh stamp is not trusted."""
    file = write_skill(tmp_path / "a.md", body="One.")
    sources.append(DirectorySource(str(tmp_path)))
    stamp = time.time_ns()
    os.utime(file, ns=(stamp, stamp))
    assert [skill.content for skill in await skills.list()] == ["One."]
    file.write_text(file.read_text(encoding="utf-8").replace("One.", "Two."), encoding="utf-8")
    os.utime(file, ns=(stamp, stamp))
    assert [skill.content for skill in await skills.list()] == ["Two."]


@pytest.mark.usefixtures("aged")
async def test_a_source_that_goes_takes_its_skills_along(
    skills: Skills, sources: list[SkillSource], tmp_path: Path
) -> None:
    """CTX-172, TOL-246: what it had overridden is back."""
    write_skill(tmp_path / "low" / "a.md", body="Low.")
    write_skill(tmp_path / "high" / "a.md", body="High.")
    sources += [DirectorySource(str(tmp_path / "low")), DirectorySource(str(tmp_path / "high"))]
    assert [skill.content for skill in await skills.list()] == ["High."]
    sources.pop()
    assert [skill.content for skill in await skills.list()] == ["Low."]


async def test_a_link_in_a_circle_hides_nothing(tmp_path: Path, sources: list[SkillSource], skills: Skills) -> None:
    """CTX-171: what cannot be looked at is passed over, and not what is listed after it."""
    for number in range(8):
        write_skill(tmp_path / "skills" / f"s{number}" / "SKILL.md", f"s{number}")
        (tmp_path / "skills" / f"loop{number}").symlink_to(f"loop{number}")
    sources.append(DirectorySource(str(tmp_path / "skills")))
    assert await names(skills) == [f"s{number}" for number in range(8)]


async def test_a_file_name_that_is_no_text_is_no_skill(
    tmp_path: Path, sources: list[SkillSource], skills: Skills
) -> None:
    """CTX-171, CTX-178: a turn could not tell of it, and is not to fail for it."""
    write_skill(tmp_path / "good.md")
    write_skill(tmp_path / os.fsdecode(b"\xff.md"))
    write_skill(tmp_path / os.fsdecode(b"\xff") / "SKILL.md", "named")
    sources.append(DirectorySource(str(tmp_path)))
    assert await names(skills) == ["good"]
