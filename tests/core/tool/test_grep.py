"""The `grep` tool."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.core.tool.tool_support import Recorder, caller, texts

from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.permission.rules import Authority
from holdfast.core.process.process import Processes
from holdfast.core.search.search import Search, find_ripgrep
from holdfast.core.tool.builtin import grep as module
from holdfast.core.tool.builtin.authorize import AuthorityOf
from holdfast.core.tool.builtin.grep import grep_tool
from holdfast.core.tool.tool import CallOutput, ToolContext, ToolFailure
from holdfast.schema.permission import Effect, Rule

pytestmark = pytest.mark.anyio
ENVIRONMENT = {"PATH": os.environ["PATH"]}
Grep = Callable[..., Awaitable[CallOutput]]


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    processes = Processes()
    yield processes
    await processes.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "work"
    for name, text in {
        "a.py": "import os\nx = 1\nimport re\n",
        "src/b.py": "import sys\n",
        "src/c.txt": "nothing of import\n",
        ".env": "import SECRET=canary\n",
        "private/key": "import canary\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def reading(effects: dict[str, Effect]) -> Authority:
    return Authority(tuple(Rule(action="read", resource=name, effect=effect) for name, effect in effects.items()))


async def readable(context: ToolContext) -> Authority:
    assert context.agent == "build"
    return reading({"*": "allow", "*.env": "ask", "*private/*": "deny", "*outside/*": "deny"})


async def everything(context: ToolContext) -> Authority:
    return reading({"*": "allow"})


def made(
    root: Path,
    processes: Processes,
    asking: Recorder | None = None,
    rules: AuthorityOf = readable,
    managed: Callable[[Path], bool] = lambda path: False,
) -> Grep:
    search = Search(processes, ENVIRONMENT, find_ripgrep(ENVIRONMENT))
    return caller("grep", grep_tool(LocationPaths(root, managed=managed), search, asking or Recorder(), rules))


@pytest.fixture
def grep(root: Path, processes: Processes) -> Grep:
    return made(root, processes)


def paths(output: CallOutput) -> list[str]:
    return [match["entry"]["path"] for match in output.structured["value"]]


async def test_grep_gives_records_for_clients_and_a_list_by_file_for_the_model(
    root: Path, processes: Processes
) -> None:
    """TOL-230, TOL-231, TOL-240: records for clients, a list by file for the model; approved by its pattern."""
    asking = Recorder()
    output = await made(root, processes, asking, everything)(pattern="import (os|sys)")
    assert output.structured["value"] == [
        {
            "entry": {"path": "a.py", "type": "file"},
            "line": 1,
            "offset": 0,
            "text": "import os",
            "submatches": [{"text": "import os", "start": 0, "end": 9}],
        },
        {
            "entry": {"path": "src/b.py", "type": "file"},
            "line": 1,
            "offset": 0,
            "text": "import sys",
            "submatches": [{"text": "import sys", "start": 0, "end": 10}],
        },
    ]
    expected = f"Found 2 matches\n{root}/a.py:\n  Line 1: import os\n\n{root}/src/b.py:\n  Line 1: import sys"
    assert texts(output) == [expected]
    assert asking.asked == [("grep", ("import (os|sys)",), ("*",), {"root": str(root)})]


async def test_no_match_is_said_in_words(grep: Grep) -> None:
    """TOL-231: said in words."""
    output = await grep(pattern="absent")
    assert (paths(output), texts(output)) == ([], ["No files found"])


async def test_grep_does_not_show_files_that_must_not_be_read(grep: Grep) -> None:
    """TOL-236: what must not be read is not there; what would be asked is withheld with a note, and counted only."""
    output = await grep(pattern="import")
    assert paths(output) == ["a.py", "a.py", "src/b.py", "src/c.txt"]
    assert "canary" not in str(output)
    assert texts(output)[0].endswith("\n\n(matches in 1 files are withheld: reading these files needs approval)")


@pytest.mark.parametrize("path", ["private/key", "private", ".env"])
async def test_nor_when_the_file_is_named(grep: Grep, path: str) -> None:
    """TOL-236: rules are about the resource, not about how it was found."""
    output = await grep(pattern="canary", path=path)
    assert paths(output) == []
    assert "canary\n" not in texts(output)[0]


async def test_an_approved_secret_is_shown(root: Path, processes: Processes) -> None:
    """TOL-236: once the rules with saved approvals allow it."""
    output = await made(root, processes, rules=everything)(pattern="canary", path=".env")
    assert paths(output) == [".env"]


async def test_grep_takes_a_file_a_directory_or_an_include_pattern(grep: Grep) -> None:
    """TOL-230: a file, a directory, a glob for names or for paths."""
    assert paths(await grep(pattern="import", path="src/b.py")) == ["src/b.py"]
    assert paths(await grep(pattern="import", path="src")) == ["src/b.py", "src/c.txt"]
    assert paths(await grep(pattern="import", include="*.py")) == ["a.py", "a.py", "src/b.py"]
    assert paths(await grep(pattern="import", include="src/*.{py,md}")) == ["src/b.py"]


async def test_grep_limits_matches_and_cuts_long_lines(root: Path, grep: Grep, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-233, TOL-240: the usual one, a given one, the hard one; long lines are cut."""
    (root / "many").write_text("needle\n" * 150 + "needle" + "x" * 3000, encoding="utf-8")
    output = await grep(pattern="needle")
    assert len(paths(output)) == module.DEFAULT_LIMIT == 100
    assert texts(output)[0].endswith("\n\n(showing first 100; narrow the pattern)")
    text = texts(await grep(pattern="needle", limit=151))[0]
    assert text.startswith("Found 151 matches")
    assert text.endswith("x" * 1994 + "...")
    monkeypatch.setattr("holdfast.core.tool.builtin.searching.MOST_RESULTS", 5)
    assert len(paths(await grep(pattern="needle", limit=99_999))) == 5


@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "("},
        {"pattern": ""},
        {"pattern": "a\nb"},
        {"pattern": "a\0b"},
        {"pattern": "x", "include": "!*.py"},
        {"pattern": "x", "include": "../*"},
        {"pattern": "x", "include": "/etc/*"},
        {"pattern": "x", "include": "a\nb"},
    ],
)
async def test_a_bad_grep_pattern_is_named_with_its_fault(grep: Grep, arguments: dict[str, str]) -> None:
    """TOL-230, TOL-234, TOL-237: a failure that names the pattern and the trouble."""
    with pytest.raises(ToolFailure, match="Unable to grep for"):
        await grep(**arguments)


@pytest.mark.parametrize("path", ["..", "../..", "link", "link/etc", "absent", "/proc/self", "pipe", "a\0b"])
async def test_a_grep_path_that_leaves_the_location_is_refused(root: Path, processes: Processes, path: str) -> None:
    """TOL-235: escapes by dots and by links; a pipe is not waited for."""
    (root / "link").symlink_to("/")
    os.mkfifo(root / "pipe")
    asking = Recorder()
    with pytest.raises(ToolFailure, match="Unable to grep for"):
        await made(root, processes, asking)(pattern="root", path=path)
    assert asking.asked == []


async def test_outside_needs_its_own_approval(root: Path, processes: Processes, tmp_path: Path) -> None:
    """TOL-235, TOL-236: before the tool's own; what `read` denies out there stays hidden too."""
    for name in ("outside", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text("needle\n", encoding="utf-8")
    asking = Recorder()
    grep = made(root, processes, asking)
    found = tmp_path.resolve() / "elsewhere"
    assert paths(await grep(pattern="needle", path=str(found))) == [f"{found}/x.txt"]
    assert paths(await grep(pattern="needle", path=str(tmp_path / "outside"))) == []
    assert asking.actions == ["external_directory", "grep"] * 2
    assert asking.asked[0].resources == (f"{found}/*",)
    denying = Recorder("external_directory")
    with pytest.raises(ToolFailure, match="Permission denied"):
        await made(root, processes, denying)(pattern="needle", path=str(found))
    assert denying.actions == ["external_directory"]


async def test_managed_files_are_searchable(root: Path, processes: Processes, tmp_path: Path) -> None:
    """TOL-235: by their absolute path, without approval for the outside."""
    managed = tmp_path.resolve() / "tool_1"
    managed.write_text("needle\n", encoding="utf-8")
    asking = Recorder()
    output = await made(root, processes, asking, managed=managed.__eq__)(pattern="needle", path=str(managed))
    assert paths(output) == [str(managed)]
    assert asking.actions == ["grep"]


async def test_a_grep_that_runs_out_of_time_returns_what_it_found(
    root: Path, processes: Processes, tmp_path: Path
) -> None:
    """TOL-240: what was found so far, with a note that it is not all. The engine's part is played by a script."""
    engine = tmp_path / "rg"
    record = {
        "path": {"text": "./a.py"},
        "lines": {"text": "import os"},
        "line_number": 1,
        "absolute_offset": 0,
        "submatches": [],
    }
    line = json.dumps({"type": "match", "data": record}, separators=(",", ":"))
    engine.write_text(f"#!/bin/sh\nprintf '%s\\n' '{line}'\nexec sleep 1000\n", encoding="utf-8")
    engine.chmod(0o755)
    search = Search(processes, ENVIRONMENT, str(engine), timeout=1.5)
    output = await caller("grep", grep_tool(LocationPaths(root), search, Recorder(), readable))(pattern="import")
    assert paths(output) == ["a.py"]
    assert texts(output)[0].endswith("(the search took too long; there may be more)")


@pytest.mark.parametrize("pattern", ["-e", "--pre=x", "--", "$&", "%s"])
async def test_a_grep_pattern_is_never_an_option(root: Path, processes: Processes, pattern: str) -> None:
    """TOL-237, TOL-321: the prompt shows the exact pattern, and nothing in it is an option."""
    (root / "data").write_text(f"{pattern}\n", encoding="utf-8")
    asking = Recorder()
    output = await made(root, processes, asking)(pattern=pattern.replace("$", "\\$"), include="data")
    assert paths(output) == ["data"]
    assert asking.asked[0].resources == (pattern.replace("$", "\\$"),)
