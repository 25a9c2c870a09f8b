"""The `glob` tool."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.tool.tool_support import Recorder, caller, texts

from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.process.process import Processes
from holdfast.core.search.search import Search, find_ripgrep
from holdfast.core.tool.builtin import glob as module
from holdfast.core.tool.builtin.glob import glob_tool
from holdfast.core.tool.tool import CallOutput, ToolFailure

pytestmark = pytest.mark.anyio
ENVIRONMENT = {"PATH": os.environ["PATH"]}
Glob = Callable[..., Awaitable[CallOutput]]


@pytest.fixture
async def search() -> AsyncIterator[Search]:
    processes = Processes()
    yield Search(processes, ENVIRONMENT, find_ripgrep(ENVIRONMENT))
    await processes.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "work"
    for age, name in enumerate(["a.py", "src/b.py", "src/c.txt"]):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (5000 - age, 5000 - age))
    return folder


@pytest.fixture
def asking() -> Recorder:
    return Recorder()


@pytest.fixture
def glob(root: Path, search: Search, asking: Recorder) -> Glob:
    return caller("glob", glob_tool(LocationPaths(root), search, asking))


def entries(output: CallOutput) -> Any:
    return output.structured["value"]


async def test_glob_lists_files_newest_first(root: Path, glob: Glob, asking: Recorder) -> None:
    """TOL-229, TOL-240: relative for clients, absolute for the model; approved by its pattern."""
    output = await glob(pattern="**/*.py")
    assert entries(output) == [{"path": "a.py", "type": "file"}, {"path": "src/b.py", "type": "file"}]
    assert texts(output) == [f"{root}/a.py\n{root}/src/b.py"]
    assert asking.asked == [("glob", ("**/*.py",), ("*",), {"root": str(root)})]


async def test_a_glob_pattern_is_relative_to_the_given_directory(root: Path, glob: Glob, asking: Recorder) -> None:
    """TOL-229: the pattern is relative to it, the results are not."""
    output = await glob(pattern="*", path="src", limit=7)
    assert entries(output) == [{"path": "src/b.py", "type": "file"}, {"path": "src/c.txt", "type": "file"}]
    assert asking.asked[0].metadata == {"root": f"{root}/src", "path": "src", "limit": 7}


async def test_no_matching_file_is_said_in_words(glob: Glob) -> None:
    """TOL-229: said in words."""
    output = await glob(pattern="*.absent")
    assert (entries(output), texts(output)) == ([], ["No files found"])


async def test_a_cut_list_says_so(glob: Glob, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-229, TOL-240: by the given limit, by the usual one, and never above the hard one."""
    assert module.DEFAULT_LIMIT == 1000
    assert texts(await glob(pattern="*", limit=2))[0].endswith("(showing first 2; narrow the pattern)")
    assert "showing" not in texts(await glob(pattern="*", limit=3))[0]
    monkeypatch.setattr("holdfast.core.tool.builtin.searching.MOST_RESULTS", 1)
    assert len(entries(await glob(pattern="*", limit=99_999))) == 1


@pytest.mark.parametrize("pattern", ["!x", "/etc/*", "../*", "a\0", ""])
async def test_a_bad_glob_pattern_fails_before_anything_is_asked(glob: Glob, asking: Recorder, pattern: str) -> None:
    """TOL-229, TOL-237: fail before anything is asked."""
    with pytest.raises(ToolFailure, match="Unable to find files matching"):
        await glob(pattern=pattern)
    assert asking.asked == []


@pytest.mark.parametrize("path", ["..", "../..", "link", "absent", "a.py", "/proc", "~", "a\0b"])
async def test_a_glob_path_that_leaves_the_location_is_refused_unasked(
    root: Path, glob: Glob, asking: Recorder, path: str
) -> None:
    """TOL-235: escapes by dots and by links, and what is no directory; no external approval is even asked."""
    (root / "link").symlink_to("/")
    with pytest.raises(ToolFailure, match="Unable to find files matching"):
        await glob(pattern="*", path=path)
    assert "external_directory" not in asking.actions


async def test_outside_needs_its_own_approval(root: Path, glob: Glob, asking: Recorder, tmp_path: Path) -> None:
    """TOL-235: before the tool's own; results there are absolute."""
    outside = tmp_path.resolve() / "outside"
    outside.mkdir()
    (outside / "x").touch()
    output = await glob(pattern="*", path=str(outside))
    assert asking.actions == ["external_directory", "glob"]
    assert asking.asked[0].resources == (f"{outside}/*",)
    assert entries(output) == [{"path": f"{outside}/x", "type": "file"}]


async def test_a_denied_glob_searches_nothing(root: Path, search: Search, tmp_path: Path) -> None:
    """TOL-235: of the outside, or of the tool."""
    for denied in ("external_directory", "glob"):
        asking = Recorder(denied)
        with pytest.raises(ToolFailure, match="Permission denied"):
            await caller("glob", glob_tool(LocationPaths(root), search, asking))(pattern="*", path=str(tmp_path))
        assert asking.actions[-1] == denied


async def test_a_directory_swapped_during_approval(root: Path, search: Search, tmp_path: Path) -> None:
    """TOL-235: is not followed."""

    def meanwhile() -> None:
        (root / "src").rename(root / "old")
        (root / "src").symlink_to(tmp_path)

    tool = glob_tool(LocationPaths(root), search, Recorder(meanwhile=meanwhile))
    with pytest.raises(ToolFailure, match="replaced"):
        await caller("glob", tool)(pattern="*", path="src")
