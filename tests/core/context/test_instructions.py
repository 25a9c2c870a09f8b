"""Ambient instructions: which files, in which order, and what happens when they change."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.core.context.places import Place, baseline, forbidden, instructions, stored, told

from holdfast.core.context import file_cache
from holdfast.core.context import instructions as module
from holdfast.core.context.file_cache import FILE_BYTES_LIMIT
from holdfast.core.context.instructions import FILE_TOO_LARGE
from holdfast.core.context.system_context import initialize, observe
from holdfast.core.project.project import find_project

pytestmark = pytest.mark.anyio


async def test_global_first_then_nearest_first_up_to_the_root(place: Place) -> None:
    """CTX-125, CTX-126, CTX-127: one source, verbatim content, absolute paths; nothing above the root."""
    place.write("../AGENTS.md", "above the root")
    near = place.write("packages/core/AGENTS.md", "  near \n\n")
    root = place.write("AGENTS.md", "root\n")
    own = place.config / "AGENTS.md"
    own.write_text("mine", encoding="utf-8")
    context = place.files().ambient()
    assert await baseline(context) == instructions((own, "mine"), (near, "  near \n\n"), (root, "root\n"))
    assert list(await stored(context)) == ["core/instructions"]


async def test_without_a_file_the_source_is_absent(place: Place) -> None:
    """CTX-135, CTX-057: a missing global file, or a missing configuration directory, is no outage."""
    assert await baseline(place.files().ambient()) == ""
    place.config.rmdir()
    assert await baseline(place.files().ambient()) == ""


async def test_a_change_says_the_whole_set_again(place: Place) -> None:
    """CTX-128, CTX-129, CTX-139: changed, added, deleted, all deleted; each at the very next boundary."""
    files = place.files()
    near, root = place.write("packages/core/AGENTS.md", "near"), place.write("AGENTS.md", "root")
    snapshot = await stored(files.ambient())

    root.write_text("ROOT", encoding="utf-8")  # the same size, within the same tick
    text, snapshot = await told(files.ambient(), snapshot)
    assert text == f"{module.UPDATE}\n\n{instructions((near, 'near'), (root, 'ROOT'))}"

    middle = place.write("packages/AGENTS.md", "middle")
    text, snapshot = await told(files.ambient(), snapshot)
    assert text == f"{module.UPDATE}\n\n{instructions((near, 'near'), (middle, 'middle'), (root, 'ROOT'))}"

    near.unlink()
    text, snapshot = await told(files.ambient(), snapshot)
    assert text == f"{module.UPDATE}\n\n{instructions((middle, 'middle'), (root, 'ROOT'))}"

    middle.unlink()
    root.unlink()
    text, snapshot = await told(files.ambient(), snapshot)
    assert (text, len(snapshot)) == (module.REMOVED, 0)


async def test_an_empty_file_is_content(place: Place) -> None:
    """CTX-130: the heading and nothing after it."""
    root = place.root / "AGENTS.md"
    root.touch()
    assert await baseline(place.files().ambient()) == f"Instructions from: {root}\n"


async def test_the_boundaries_are_canonical(place: Place) -> None:
    """CTX-131: a Location reached through a link and a root with a trailing slash meet; paths are the real ones."""
    root = place.write("AGENTS.md", "root")
    place.write("../AGENTS.md", "above")
    link = place.base / "link"
    link.symlink_to(place.work, target_is_directory=True)
    context = place.files(directory=link, project=Path(f"{place.root}/")).ambient()
    assert await baseline(context) == instructions((root, "root"))


@pytest.mark.parametrize("name", ["project-evil", "projec", "other"])
async def test_outside_the_project_nothing_is_searched(place: Place, name: str) -> None:
    """CTX-131, CTX-132: by components, not by prefix; the global file stays eligible."""
    outside = place.base / name
    outside.mkdir()
    (outside / "AGENTS.md").write_text("outside", encoding="utf-8")
    place.write("AGENTS.md", "root")
    assert await baseline(place.files(directory=outside).ambient()) == ""


async def test_a_directory_that_begins_with_dots_is_inside(place: Place) -> None:
    """CTX-132: `..foo` is a name."""
    near = place.write("..foo/AGENTS.md", "dots")
    assert await baseline(place.files(directory=near.parent).ambient()) == instructions((near, "dots"))


async def test_one_file_is_said_once(place: Place) -> None:
    """CTX-133: by its real path, first occurrence wins; the global position is the first."""
    root = place.write("AGENTS.md", "root")
    (place.work / "AGENTS.md").symlink_to(root)
    assert await baseline(place.files().ambient()) == instructions((root, "root"))
    (place.config / "AGENTS.md").symlink_to(root)
    other = place.write("packages/AGENTS.md", "middle")
    assert await baseline(place.files().ambient()) == instructions((root, "root"), (other, "middle"))


async def test_a_link_out_of_the_project_is_skipped_and_diagnosed(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """CTX-134: treated as absent, once in the log; inside the root links are followed; the user's may lead anywhere."""
    secret = place.base / "secret.md"
    secret.write_text("secret", encoding="utf-8")
    inside = place.write("docs/shared.md", "shared")
    (place.work / "AGENTS.md").symlink_to(secret)
    (place.root / "AGENTS.md").symlink_to(inside)
    files = place.files()
    for _ in range(2):
        assert await baseline(files.ambient()) == instructions((inside, "shared"))
    assert caplog.text.count("outside the project") == 1
    (place.config / "AGENTS.md").symlink_to(secret)
    assert await baseline(files.ambient()) == instructions((secret, "secret"), (inside, "shared"))


@pytest.mark.parametrize("where", ["global", "project", "directory"])
async def test_a_file_without_permission_makes_instructions_unavailable(place: Place, where: str) -> None:
    """CTX-135, CTX-136, CTX-056: permission denied, for a file or on the way to it; nothing is said to be gone."""
    own = place.config / "AGENTS.md"
    own.write_text("mine", encoding="utf-8")
    near = place.write("packages/core/AGENTS.md", "near")
    files = place.files()
    snapshot = await stored(files.ambient())
    with forbidden({"global": own, "project": near, "directory": near.parent}[where]):
        fresh = place.files()
        assert await baseline(fresh.ambient()) is None
        place.cache._texts._known.clear()
        assert await told(files.ambient(), snapshot) == (None, snapshot)
    assert await told(files.ambient(), snapshot) == (None, snapshot)


async def test_a_file_that_vanishes_after_it_was_found_is_unavailable(place: Place) -> None:
    """CTX-135: between discovery and reading."""
    near = place.write("packages/core/AGENTS.md", "near")
    files = place.files()
    found = files.find_ambient()
    near.unlink()
    with pytest.raises(FileNotFoundError):
        files.read(found)
    near.symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="symbolic links"):
        files.read(found)


async def test_only_regular_files_count(place: Place) -> None:
    """CTX-136: a directory, a pipe, a dangling link and a link to itself are no instructions."""
    (place.work / "AGENTS.md").mkdir()
    os.mkfifo(place.root / "packages" / "AGENTS.md")
    (place.config / "AGENTS.md").symlink_to("nowhere")
    (place.root / "AGENTS.md").symlink_to("AGENTS.md")
    assert await baseline(place.files().ambient()) == ""


async def test_invalid_utf8_in_instructions_is_replaced(place: Place) -> None:
    """CTX-136: neither content nor a directory's name makes it unavailable."""
    folder = Path(os.fsdecode(os.fsencode(place.root) + b"/b\xff"))
    folder.mkdir()
    (folder / "AGENTS.md").write_bytes(b"caf\xe9")
    text = await baseline(place.files(directory=folder).ambient())
    assert text == f"Instructions from: {place.root}/b\ufffd/AGENTS.md\ncaf\ufffd"


async def test_a_file_beyond_the_limit_is_named_in_place_of_its_content(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """CTX-231: the model is told that it is there, the problem is diagnosed, and the rest stands."""
    root = place.write("AGENTS.md", "x" * FILE_BYTES_LIMIT)
    large = place.write("packages/core/AGENTS.md", "x" * (FILE_BYTES_LIMIT + 1))
    expected = instructions((large, FILE_TOO_LARGE), (root, "x" * FILE_BYTES_LIMIT))
    assert await baseline(place.files().ambient()) == expected
    assert f"{large}: {FILE_TOO_LARGE}" in caplog.text


@pytest.mark.parametrize("value", ["1", "true", "TRUE", "True"])
async def test_project_discovery_can_be_turned_off(place: Place, value: str) -> None:
    """CTX-137: read at observation; no traversal at all, the global file stays."""
    own = place.config / "AGENTS.md"
    own.write_text("mine", encoding="utf-8")
    near = place.write("packages/core/AGENTS.md", "near")
    files = place.files()
    assert await baseline(files.ambient()) == instructions((own, "mine"), (near, "near"))
    place.environment["OPENCODE_DISABLE_PROJECT_CONFIG"] = value
    with forbidden(place.work):
        assert await baseline(files.ambient()) == instructions((own, "mine"))
    for other in ("0", "yes", ""):
        place.environment["OPENCODE_DISABLE_PROJECT_CONFIG"] = other
        assert await baseline(files.ambient()) == instructions((own, "mine"), (near, "near"))


async def test_without_a_repository_the_walk_ends_where_it_begins(place: Place) -> None:
    """CTX-138, CAT-170: the project is the Location's own directory."""
    place.write("../AGENTS.md", "above")
    root = place.write("AGENTS.md", "root")
    place.write("packages/core/AGENTS.md", "near")
    project = await find_project(place.root)
    assert await baseline(place.files(directory=place.root, project=project.directory).ambient()) == instructions(
        (root, "root")
    )


async def test_claude_md_stands_in_where_there_is_no_agents_md(place: Place) -> None:
    """CTX-140: per directory, never globally; two switches; CONTEXT.md is not read."""
    place.write("CONTEXT.md")
    (place.config / "CLAUDE.md").write_text("global", encoding="utf-8")
    near = place.write("packages/core/CLAUDE.md", "near")
    agents = place.write("AGENTS.md", "agents")
    place.write("CLAUDE.md", "claude")
    files = place.files()
    assert await baseline(files.ambient()) == instructions((near, "near"), (agents, "agents"))
    for name in ("OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT"):
        place.environment[name] = "true"
        assert await baseline(files.ambient()) == instructions((agents, "agents"))
        place.environment.pop(name)


async def test_settled_files_are_not_read_again_and_changes_are_never_missed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTX-139: old files cost a look at their times; a change on disk shows at once, also one with its times put
    back."""
    near = place.write("packages/core/AGENTS.md", "one")
    files = place.files()
    real = time.time_ns
    monkeypatch.setattr("holdfast.core.context.file_cache.time.time_ns", lambda: real() + 10_000_000_000)
    await observe(files.ambient())
    with monkeypatch.context() as patch:
        patch.setattr("os.open", lambda *_: pytest.fail("read again"))
        assert await baseline(files.ambient()) == instructions((near, "one"))
    status = near.stat()
    near.write_text("two", encoding="utf-8")
    os.utime(near, ns=(status.st_atime_ns, status.st_mtime_ns))
    # Times within one tick of the system would be equal; the change time then differs only later.
    while near.stat().st_ctime_ns == status.st_ctime_ns:
        near.write_text("two", encoding="utf-8")
        os.utime(near, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert initialize(await observe(files.ambient())).baseline == instructions((near, "two"))


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if everything had been there for long."""
    monkeypatch.setattr(file_cache, "SETTLED_NS", -(10**18))


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md"])
async def test_a_directory_without_instructions_is_looked_into_when_it_changed(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """CTX-139, CTX-131: one look at an unchanged directory is enough; a file that comes, or goes, is seen."""
    files = place.files()
    assert await baseline(files.ambient()) == ""
    looked: list[str] = []
    lstat = os.lstat

    def watched(path: str) -> os.stat_result:
        looked.append(path)
        return lstat(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", watched)
        assert await baseline(files.ambient()) == ""
    assert [path for path in looked if path.startswith(str(place.root))] == []
    time.sleep(0.05)  # noqa: ASYNC251 - a tick of the file system
    near = place.write(f"packages/core/{name}", "near")
    assert await baseline(files.ambient()) == instructions((near, "near"))
    time.sleep(0.05)  # noqa: ASYNC251 - a tick of the file system
    near.unlink()
    assert await baseline(files.ambient()) == ""


@pytest.mark.usefixtures("settled")
async def test_a_link_that_led_nowhere_is_looked_at_again(place: Place) -> None:
    """CTX-139: what it leads to may come without any change beside it."""
    target = place.root / "shared" / "rules.md"
    (place.work / "AGENTS.md").symlink_to(target)
    files = place.files()
    assert await baseline(files.ambient()) == ""
    place.write("shared/rules.md", "ours")
    assert await baseline(files.ambient()) == instructions((target, "ours"))


async def test_a_directory_that_moved_behind_its_link_is_found(place: Place) -> None:
    """CTX-131, CTX-139: the same directory under another name is not taken to be gone."""
    one, two = place.root / "one", place.root / "two"
    place.write("one/AGENTS.md", "near")
    current = place.root / "current"
    current.symlink_to(one)
    files = place.files(directory=current)
    assert await baseline(files.ambient()) == instructions((one / "AGENTS.md", "near"))
    one.rename(two)
    current.unlink()
    current.symlink_to(two)
    assert await baseline(files.ambient()) == instructions((two / "AGENTS.md", "near"))


async def test_a_link_to_where_nobody_may_look_is_none_of_the_projects(place: Place) -> None:
    """CTX-134, CTX-136: it lies outside, so it is absent; a file of the project that may not be read is an outage."""
    closed = place.base / "closed"
    closed.mkdir()
    (closed / "x.md").write_text("secret", encoding="utf-8")
    (place.root / "AGENTS.md").symlink_to(closed / "x.md")
    near = place.write("packages/core/AGENTS.md", "near")
    with forbidden(closed):
        assert await baseline(place.files().ambient()) == instructions((near, "near"))
    with forbidden(near):
        assert await baseline(place.files().ambient()) is None
