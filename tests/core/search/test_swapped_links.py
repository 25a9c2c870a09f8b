"""Results of an engine that was led elsewhere: the engine's part is played by a script."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.filesystem.open_tree import OpenTree
from holdfast.core.process.process import Processes
from holdfast.core.search.glob import Glob
from holdfast.core.search.search import LineResults, Search, find_ripgrep

pytestmark = pytest.mark.anyio
ENVIRONMENT = {"PATH": os.environ["PATH"]}
SECRET = "needle of somebody else"


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    processes = Processes()
    yield processes
    await processes.close()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "id_rsa").write_text(f"{SECRET}\n", encoding="utf-8")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "d").mkdir(parents=True)
    return root


def engine(processes: Processes, root: Path, output: bytes) -> Search:
    """Says what an engine says that came through a link."""
    script = root.parent / "rg"
    (root.parent / "output").write_bytes(output)
    script.write_text(f"#!/bin/sh\ncat {root.parent / 'output'}\n", encoding="utf-8")
    script.chmod(0o755)
    return Search(processes, ENVIRONMENT, str(script))


def record(path: str, line: str, start: int = 0, end: int = 6, match: str = "needle") -> bytes:
    data = {
        "path": {"text": f"./{path}"},
        "lines": {"text": f"{line}\n"},
        "line_number": 1,
        "absolute_offset": 0,
        "submatches": [{"match": {"text": match}, "start": start, "end": end}],
    }
    match_record = json.dumps({"type": "match", "data": data}, separators=(",", ":"))
    return f'{match_record}\n{{"type":"summary"}}\n'.encode()


async def lines(search: Search, root: Path) -> LineResults:
    return await search.lines(root, "needle", 10, keep=lambda path: True)


async def test_a_line_that_came_through_a_link_is_left_out(processes: Processes, root: Path, outside: Path) -> None:
    """TOL-500: the link is there still."""
    search = engine(processes, root, record("d/id_rsa", SECRET))
    (root / "d").rmdir()
    (root / "d").symlink_to(outside)
    assert (await lines(search, root)).matches == []


async def test_a_line_that_the_file_does_not_have_is_left_out(processes: Processes, root: Path) -> None:
    """TOL-500: the link was taken back, and a file of that name is in the directory itself."""
    (root / "d/id_rsa").write_text("needle\n", encoding="utf-8")
    found = await lines(engine(processes, root, record("d/id_rsa", SECRET)), root)
    assert (found.matches, found.changed) == ([], 1)
    found = await lines(engine(processes, root, record("d/id_rsa", "needle")), root)
    assert ([match.text for match in found.matches], found.changed) == (["needle"], 0)
    # Also what stands behind the part of a long line that is compared.
    (root / "d/id_rsa").write_text(f"{'x' * 3000}\n", encoding="utf-8")
    long = record("d/id_rsa", "x" * 3000, 2990, 3000, "needle....")
    assert (await lines(engine(processes, root, long), root)).matches == []


async def test_a_name_that_came_through_a_link_is_left_out(processes: Processes, root: Path, outside: Path) -> None:
    """TOL-500"""
    (root / "own").write_text("x", encoding="utf-8")
    (root / "d").rmdir()
    (root / "d").symlink_to(outside)
    search = engine(processes, root, b"./d/id_rsa\0./own\0")
    found = await search.files(root, Glob("**"), 10)
    assert (found.paths, found.total) == (["own"], 1)


async def test_the_engine_starts_in_the_directory_that_was_opened(
    processes: Processes, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-500: the directory that is searched is exchanged for a link after it was opened."""
    (root / "d/own").write_text("x", encoding="utf-8")
    opened = OpenTree.__init__

    def exchanging(self: OpenTree, *arguments: object) -> None:
        opened(self, *arguments)  # type: ignore[arg-type]
        os.rename(root / "d", root / "away")
        (root / "d").symlink_to(outside)

    monkeypatch.setattr(OpenTree, "__init__", exchanging)
    found = await Search(processes, ENVIRONMENT, find_ripgrep(ENVIRONMENT)).files(root / "d", Glob("**"), 10)
    assert found.paths == ["own"]


@pytest.mark.parametrize("ripgrep", [True, False], ids=["ripgrep", "python"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
async def test_lines_of_every_encoding_that_the_engine_knows_are_true(
    processes: Processes, root: Path, encoding: str, ripgrep: bool
) -> None:
    """TOL-500: offsets are counted after the conversion."""
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (root / "a.txt").write_bytes(f"{mark}first\r\nü needle ü\r\nlast needle".encode(encoding))
    search = Search(processes, ENVIRONMENT, find_ripgrep(ENVIRONMENT) if ripgrep else None)
    assert [match.text for match in (await lines(search, root)).matches] == ["ü needle ü", "last needle"]
