"""Instructions that the model gets from files: the user's, the project's, configured ones, those found by reading."""

from __future__ import annotations

import pytest
from tests.outside.scripted_provider import calling
from tests.outside.world import World, ask

pytestmark = pytest.mark.anyio


def updates(world: World) -> list[str]:
    return [str(text) for role, text in world.model.last.said if role == "user" and "<system-update>" in str(text)]


async def test_instructions_are_read_from_the_user_and_up_to_the_projects_root(world: World) -> None:
    """CTX-125, CTX-126, CTX-127, CTX-130: the user's first, then nearest first; nothing above the
    root; the words are not touched; an empty file counts."""
    world.repository()
    (world.home / "AGENTS.md").write_text("ABOVE")
    (world.user_folder / "AGENTS.md").write_text("  GLOBAL\n\n")
    world.write("AGENTS.md", "ROOT\n")
    world.write("a/AGENTS.md", "")
    world.write("a/b/AGENTS.md", "LEAF\n")
    async with world.host(directory=world.project / "a" / "b") as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
    told = world.model.last.system
    assert "ABOVE" not in told
    expected = [
        f"{world.user_folder / 'AGENTS.md'}\n  GLOBAL\n\n",
        f"{world.project / 'a/b/AGENTS.md'}\nLEAF\n",
        f"{world.project / 'a/AGENTS.md'}\n",
        f"{world.project / 'AGENTS.md'}\nROOT\n",
    ]
    places = [told.index(part) for part in expected]
    assert places == sorted(places)


async def test_a_changed_file_replaces_the_whole_set(world: World) -> None:
    """CTX-128, CTX-129, CTX-139: what is there now, all of it; after the last one is gone, that none applies."""
    world.write("AGENTS.md", "ROOT\n")
    (world.user_folder / "AGENTS.md").write_text("GLOBAL\n")
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        world.write("AGENTS.md", "CHANGED\n")
        await ask(hf, session, "two")
        assert "GLOBAL" in updates(world)[-1]
        assert "CHANGED" in updates(world)[-1]
        (world.project / "AGENTS.md").unlink()
        await ask(hf, session, "three")
        assert "GLOBAL" in updates(world)[-1]
        assert "CHANGED" not in updates(world)[-1]
        (world.user_folder / "AGENTS.md").unlink()
        await ask(hf, session, "four")
        assert "no longer" in updates(world)[-1]
        assert "GLOBAL" not in updates(world)[-1]
        assert len(updates(world)) == 3


async def test_an_instruction_file_behind_a_link_out_of_the_project_does_not_count(world: World) -> None:
    """CTX-134, CTX-136, CTX-140: never through a link that leaves the project; a folder of
    that name is none; CLAUDE.md where there is no AGENTS.md; text in another encoding is read as well as can be."""
    world.repository()
    secret = world.home / "secret"
    secret.write_text("SECRET")
    (world.project / "AGENTS.md").symlink_to(secret)
    (world.project / "a").mkdir()
    (world.project / "a" / "AGENTS.md").mkdir()
    world.write("a/CLAUDE.md", "CLAUDE A\n")
    world.write("a/b/CLAUDE.md", "CLAUDE B\n")
    (world.project / "a" / "b" / "AGENTS.md").write_bytes(b"LATIN \xe9\n")
    async with world.host(directory=world.project / "a" / "b") as hf:
        await ask(hf, await hf.sessions.create(), "go")
    told = world.model.last.system
    assert "SECRET" not in told
    assert "CLAUDE A" in told
    assert "CLAUDE B" not in told
    assert "LATIN \ufffd" in told


@pytest.mark.parametrize(
    ("name", "global_file", "project_file"),
    [("OPENCODE_DISABLE_PROJECT_CONFIG", True, False), ("OPENCODE_DISABLE_CLAUDE_CODE", True, True)],
)
async def test_project_instructions_can_be_switched_off(
    world: World, name: str, global_file: bool, project_file: bool
) -> None:
    """CTX-137, CTX-140, CAT-013: `TRUE` and `1` count, anything else does not."""
    (world.user_folder / "AGENTS.md").write_text("GLOBAL\n")
    world.write("AGENTS.md", "PROJECT\n")
    for value, off in (("TRUE", True), ("1", True), ("yes", False), ("0", False)):
        world.environment[name] = value
        async with world.host() as hf:
            await ask(hf, await hf.sessions.create(), "go")
        told = world.model.last.system
        assert ("GLOBAL" in told, "PROJECT" in told) == (global_file, project_file or not off)


async def test_configured_instructions_follow_the_ambient_ones_without_repeats(world: World) -> None:
    """CTX-142, CTX-143, CTX-144, CTX-145, CTX-146, CTX-147, CTX-152: paths and globs, relative to the file that names
    them; behind the ambient ones; not twice; what is not there is simply not there; the entries of a project that
    nobody trusts stay inside it."""
    (world.user_folder / "rules").mkdir()
    for name in ("b", "a"):
        (world.user_folder / "rules" / f"{name}.md").write_text(f"RULE {name}\n")
    (world.home / "outside.md").write_text("OUTSIDE\n")
    world.write("AGENTS.md", "AMBIENT\n")
    world.write("docs/style.md", "STYLE\n")
    world.write("opencode.json", '{"instructions": ["docs/*.md", "../outside.md", "AGENTS.md"]}')
    (world.home / "mine.md").write_text("MINE\n")
    world.configure(instructions=["rules/*.md", "rules/a.md", "absent.md", "~/mine.md"])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        told = world.model.last.system
        order = ["AMBIENT", "RULE a", "RULE b", "MINE", "STYLE"]
        assert sorted(order, key=told.index) == order
        assert [told.count(word) for word in order] == [1] * len(order)
        assert "OUTSIDE" not in told
        report = await hf.config.report()
        assert any("../outside.md" in problem.message for problem in report.problems)
        world.configure(instructions=[])
        await hf.config.reload()
        await ask(hf, session, "again")
        assert "RULE" not in updates(world)[-1]
        assert "STYLE" in updates(world)[-1]


async def test_instructions_are_found_by_reading(world: World) -> None:
    """CTX-155, CTX-156, CTX-157, CTX-158, TOL-157: after a read below the place of work, at the next boundary, once,
    and not in the result of the read; a search finds none."""
    world.repository()
    world.write("deep/AGENTS.md", "DEEP\n")
    world.write("deep/er/AGENTS.md", "DEEPER\n")
    world.write("deep/er/file.txt", "text\n")
    world.write("other/AGENTS.md", "OTHER\n")
    world.write("other/file.txt", "text\n")
    world.model.plays(calling("grep", pattern="text", path="other"), calling("read", path="deep/er/file.txt"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        found = updates(world)[-1]
        assert found.index("DEEP\n") < found.index("DEEPER")
        assert "OTHER" not in found
        assert all("DEEP" not in result for result in world.model.last.results)
        assert updates(world) == [found]
        world.model.plays(calling("read", path="deep/er/file.txt"))
        await ask(hf, session, "again")
        assert len(updates(world)) == 1
        (world.project / "deep/er/AGENTS.md").unlink()
        await ask(hf, session, "and now")
        assert "DEEPER" not in updates(world)[-1]
        assert "DEEP\n" in updates(world)[-1]
    async with world.host() as hf:
        await ask(hf, session, "later")
        assert len(updates(world)) == 2


async def test_references_are_told_with_their_description(world: World) -> None:
    """CTX-190, CTX-191, CTX-193, CTX-194, TOL-122: a folder by its path from the file that names it; without a
    description it is usable but not told; it can be read as `@name` and never written."""
    (world.user_folder / "lib").mkdir()
    (world.user_folder / "lib" / "api.txt").write_text("api text\n")
    named = {"path": "lib", "description": "The <library>"}
    world.configure(references={"lib": named, "quiet": "./lib", "bad name": "./lib"})
    async with world.host() as hf:
        session = await hf.sessions.create()
        world.model.plays(calling("read", path="@lib/api.txt"), calling("write", path="@lib/api.txt", content="x"))
        await ask(hf, session, "go")
        told = world.model.last.system
        listed = told[told.index("<available_references>") : told.index("</available_references>")]
        assert "<name>lib</name>" in listed
        assert "<path>@lib</path>" in listed
        assert "The &lt;library&gt;" in listed
        assert "quiet" not in listed
        assert "api text" in world.model.last.results[0]
        assert {reference.name for reference in (await hf.references.list()).data} == {"lib", "quiet"}
        world.configure(references={})
        await hf.config.reload()
        await ask(hf, session, "and now")
        assert "reference" in updates(world)[-1]
    assert (world.user_folder / "lib" / "api.txt").read_text() == "api text\n"
