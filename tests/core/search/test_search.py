"""Searching real trees, with ripgrep and with the engine in Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.process.process import Processes
from holdfast.core.search import fallback
from holdfast.core.search import search as module
from holdfast.core.search.glob import Glob
from holdfast.core.search.query import Query
from holdfast.core.search.search import FileResults, InvalidPattern, LineResults, Search, SearchFailed, find_ripgrep

pytestmark = pytest.mark.anyio
ENVIRONMENT = {"PATH": os.environ["PATH"]}
RIPGREP = find_ripgrep(ENVIRONMENT)


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    processes = Processes()
    yield processes
    await processes.close()


@pytest.fixture(params=["ripgrep", "python"])
def search(processes: Processes, request: pytest.FixtureRequest) -> Search:
    return Search(processes, ENVIRONMENT, RIPGREP if request.param == "ripgrep" else None)


def write(root: Path, *names: str, text: str = "hello\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with ignore files of every kind, hidden files, links and a binary."""
    root = tmp_path / "work"
    root.mkdir()
    subprocess.run(("git", "init", "-q", str(root)), check=True)
    write(
        root, "a.txt", "b/c.txt", "b/d.py", "B/e.txt", "b-2/f.txt", "node_modules/m.txt", "build/x.txt", "b/build/y.txt"
    )
    write(
        root,
        ".hidden",
        ".github/w.txt",
        ".git/hooks/h.txt",
        "kept.log",
        "no.log",
        "b/own.tmp",
        "x/only.txt",
        "x/deep/z.txt",
    )
    write(root, ".gitignore", text="node_modules/\n/build\n*.log\n!kept.log\n")
    write(root, "b/.gitignore", text="own.tmp\n")
    write(root, "x/.ignore", text="deep/\n")
    write(root, ".rgignore", text="x/only.txt\n")
    (root / ".git/info/exclude").write_text("b-2\n", encoding="utf-8")
    (root / "binary").write_bytes(b"hello\0hello\n")
    outside = tmp_path / "outside"
    write(outside, "secret.txt")
    (root / "link").symlink_to(outside)
    (root / "link.txt").symlink_to(outside / "secret.txt")
    return root


async def names(search: Search, root: Path, pattern: str) -> list[str]:
    return sorted((await search.files(root, Glob(pattern), 1000)).paths)


async def lines(search: Search, root: Path, pattern: str, limit: int = 100, **options: Any) -> LineResults:
    return await search.lines(root, pattern, limit, keep=lambda path: True, **options)


# -- what is searched ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.txt", ["B/e.txt", "a.txt", "b/build/y.txt", "b/c.txt"]),
        ("**/*", ["B/e.txt", "a.txt", "b/build/y.txt", "b/c.txt", "b/d.py", "binary", "kept.log"]),
        ("node_modules/**", []),
        ("*.log", ["kept.log"]),
        (".git*/**", [".github/w.txt"]),
        (".hidden", [".hidden"]),
        ("b/{c,d}.*", ["b/c.txt", "b/d.py"]),
        ("link/*", []),
    ],
)
async def test_file_search_obeys_ignore_files_and_follows_no_links(
    search: Search, tree: Path, pattern: str, found: list[str]
) -> None:
    """TOL-232, TOL-238, TOL-241: ignore files hold against any pattern; no `.git`, no links; hidden if selected."""
    assert await names(search, tree, pattern) == found


async def test_lines_look_into_hidden_files(search: Search, tree: Path) -> None:
    """TOL-230, TOL-232, TOL-240, TOL-241: by path, part by part; the same from both engines."""
    found = await lines(search, tree, "^hel+o$")
    expected = [".github/w.txt", ".hidden", "B/e.txt", "a.txt", "b/build/y.txt", "b/c.txt", "b/d.py", "kept.log"]
    assert [match.path for match in found.matches] == expected
    assert (found.cut, found.partial) == (False, False)
    assert found.matches[0][1:4] == (1, 0, "hello")


async def test_an_include_only_narrows(search: Search, tree: Path) -> None:
    """TOL-238: nothing that is ignored comes back; the engine may use it to look at fewer files."""
    found = await search.lines(tree, "hello", 100, include="*.log", keep=Glob("*.log", dots=True).matches)
    assert [match.path for match in found.matches] == ["kept.log"]


async def test_without_a_repository_git_rules_do_not_apply(search: Search, tmp_path: Path) -> None:
    """TOL-232, TOL-241: as the engine has it; its own ignore files always do."""
    write(tmp_path, "a.txt", "b.txt")
    write(tmp_path, ".gitignore", text="a.txt\n")
    write(tmp_path, ".ignore", text="b.txt\n")
    assert await names(search, tmp_path, "*") == ["a.txt"]


async def test_the_directory_that_is_searched_may_itself_be_ignored(search: Search, tree: Path) -> None:
    """TOL-232, TOL-241: ignoring it says nothing about a search inside it."""
    write(tree, "node_modules/deep/n.txt", "node_modules/no.log")
    assert sorted(await names(search, tree / "node_modules", "**")) == ["deep/n.txt", "m.txt"]


async def test_no_configuration_of_the_user(processes: Processes, tmp_path: Path) -> None:
    """TOL-232: neither the engine's file nor git's global one changes a result."""
    write(tmp_path / "work", "a.txt", ".git/HEAD")
    write(tmp_path, "rc", text="--glob=!*.txt\n")
    write(tmp_path, ".config/git/ignore", text="*.txt\n")
    environment = {**ENVIRONMENT, "RIPGREP_CONFIG_PATH": str(tmp_path / "rc"), "HOME": str(tmp_path)}
    assert await names(Search(processes, environment, RIPGREP), tmp_path / "work", "*") == ["a.txt"]


async def test_a_single_file_is_searched_even_if_it_is_ignored(search: Search, tree: Path) -> None:
    """TOL-230: also one that is ignored, and one whose name looks like an option."""
    assert [match.path for match in (await lines(search, tree, "hello", name="no.log")).matches] == ["no.log"]
    write(tree, "--files")
    assert [match.path for match in (await lines(search, tree, "hello", name="--files")).matches] == ["--files"]


# -- what is found -------------------------------------------------------------------------------------------------


async def test_positions_of_matches_are_byte_offsets(search: Search, tmp_path: Path) -> None:
    """TOL-230, TOL-233: of the line in the file and of each submatch in the line."""
    write(tmp_path, "a.txt", text="漢字\né foo é foo\n")
    (match,) = (await lines(search, tmp_path, "fo(o)")).matches
    assert match == ("a.txt", 2, 7, "é foo é foo", (("foo", 3, 6), ("foo", 10, 13)))


async def test_bytes_that_are_no_text(search: Search, tmp_path: Path) -> None:
    """TOL-239, TOL-349: in a line and in a name."""
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.txt"))).write_bytes(b"x\xfe hello\n")
    (match,) = (await lines(search, tmp_path, "hello")).matches
    assert (match.path, match.text) == ("b�.txt", "x� hello")
    assert await names(search, tmp_path, "*.txt") == ["b�.txt"]


async def test_a_record_beyond_all_bounds_spoils_nothing(search: Search, tmp_path: Path) -> None:
    """TOL-239: a line of 3 MiB among others."""
    write(tmp_path, "a.txt", text="hello 1\n" + "x" * 3_000_000 + " hello\nhello 3\n")
    found = (await lines(search, tmp_path, "hello")).matches
    assert [(match.line, len(match.text)) for match in found] == [(1, 7), (2, 2003), (3, 7)]


@pytest.mark.parametrize(
    "pattern", ["-e", "--files", "--pre=touch /tmp/evil", "$&", "%s", "{}", "'", '"', "\\\\", "a;b", "$(x)"]
)
async def test_a_search_pattern_is_never_an_option_or_a_command(search: Search, tmp_path: Path, pattern: str) -> None:
    """TOL-237, TOL-321: nothing in a pattern is an option, a template or a command."""
    literal = "".join(f"\\{char}" if char in "$(){}|" else char for char in pattern)
    write(tmp_path, "a.txt", text=f"x {pattern.replace(chr(92) * 2, chr(92))} y\nother\n")
    assert [match.line for match in (await lines(search, tmp_path, literal)).matches] == [1]


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "*a"])
async def test_a_bad_expression_is_told_apart(search: Search, tmp_path: Path, pattern: str) -> None:
    """TOL-234: typed, and not mistaken for finding nothing."""
    write(tmp_path, "a.txt")
    with pytest.raises(InvalidPattern):
        await lines(search, tmp_path, pattern)


async def test_nothing_found_is_no_error(search: Search, tmp_path: Path) -> None:
    """TOL-234, TOL-349: the engine's code 1, for files and for lines."""
    assert (await lines(search, tmp_path, "hello")) == LineResults([], False, False)
    assert (await search.files(tmp_path, Glob("*"), 10)) == FileResults([], 0, False)


async def test_trouble_with_one_file_leaves_the_others(processes: Processes, tmp_path: Path) -> None:
    """TOL-234, TOL-349: the engine's code 2 beside good results. The engine's part is played by a script."""
    (tmp_path / "rg").write_text(
        "#!/bin/sh\n"
        """printf '%s\\n' '{"type":"match","data":{"path":{"text":"./a"},"lines":{"text":"hello\\n"},"line_number":1,"""
        """"absolute_offset":0,"submatches":[]}}'\n"""
        """echo '{"data":{},"type":"summary"}'; echo 'b: Permission denied' >&2; exit 2\n""",
        encoding="utf-8",
    )
    (tmp_path / "rg").chmod(0o755)
    write(tmp_path, "a")
    found = await lines(Search(processes, ENVIRONMENT, str(tmp_path / "rg")), tmp_path, "hello")
    assert [match.path for match in found.matches] == ["a"]


async def test_an_engine_that_fails_is_an_error(processes: Processes, tmp_path: Path) -> None:
    """TOL-234: other ends, a missing binary among them."""
    (tmp_path / "rg").write_text("#!/bin/sh\necho broken >&2\nexit 3\n", encoding="utf-8")
    (tmp_path / "rg").chmod(0o755)
    for binary in ("rg", "absent"):
        engine = Search(processes, ENVIRONMENT, str(tmp_path / binary))
        with pytest.raises(SearchFailed):
            await lines(engine, tmp_path, "hello")
        with pytest.raises(SearchFailed):
            await engine.files(tmp_path, Glob("*"), 10)


# -- bounds --------------------------------------------------------------------------------------------------------


async def test_the_newest_files_come_first(search: Search, tmp_path: Path) -> None:
    """TOL-240: then by path; what is beyond the limit is counted."""
    for age, name in enumerate(["c", "a", "b", "d"]):
        write(tmp_path, name)
        os.utime(tmp_path / name, (2000 - age // 2, 2000 - age // 2))
    found = await search.files(tmp_path, Glob("*"), 3)
    assert found == FileResults(["a", "c", "b"], 4, False)


async def test_the_first_matches_whatever_the_engine_found_first(
    search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-234, TOL-240: with few matches all are sorted, with many the search is ordered; the result is the same."""
    for number in range(60):
        write(tmp_path, f"{number % 7}/{number:02}.txt", f"{number % 7}-x/{number:02}.txt", text="hello\nhello\n")
    few = await lines(search, tmp_path, "hello", limit=25)
    monkeypatch.setattr(module, "MOST_RESULTS", 40)
    many = await lines(search, tmp_path, "hello", limit=25)
    assert few == many
    assert few.cut
    assert [(match.path, match.line) for match in few.matches[:3]] == [
        ("0/00.txt", 1),
        ("0/00.txt", 2),
        ("0/07.txt", 1),
    ]


async def test_exactly_the_limit_is_not_cut(search: Search, tmp_path: Path) -> None:
    """TOL-240: the note belongs to what is missing."""
    write(tmp_path, "a.txt", text="hello\n" * 5)
    assert [(await lines(search, tmp_path, "hello", limit=limit)).cut for limit in (4, 5, 6)] == [True, False, False]


async def test_an_expression_that_never_ends_is_ended(processes: Processes, tmp_path: Path) -> None:
    """TOL-240, TOL-325: the Python engine is killed, and what it had found so far is marked as partial."""
    write(tmp_path, "a.txt", text="aa\n")
    write(tmp_path, "b.txt", text="a" * 1_000_000 + "b\n")
    found = await lines(Search(processes, ENVIRONMENT, None, timeout=2), tmp_path, "(a+)+$")
    assert found.partial
    assert [match.path for match in found.matches] == ["a.txt"]


async def test_ripgrep_takes_linear_time(processes: Processes, tmp_path: Path) -> None:
    """TOL-325: the expression that ruins backtracking engines."""
    write(tmp_path, "b.txt", text="a" * 1_000_000 + "b\n")
    assert await lines(Search(processes, ENVIRONMENT, RIPGREP), tmp_path, "(a+)+$") == LineResults([], False, False)


def test_special_file_systems_are_passed_over() -> None:
    """TOL-121, TOL-235: by both engines, where the search begins above them. Nobody waits for all files of a machine
    here: one looks at what is asked, the other at its first entries."""
    asked = module._ripgrep("rg", Query(), Path("/"))
    assert {"--glob=!/proc", "--glob=!/sys", "--glob=!/dev"} <= set(asked)
    assert "--glob=!/proc" not in module._ripgrep("rg", Query(), Path("/home"))
    children = {path for path, _ in fallback._children("", "/", fallback.Ignored({}, in_repository=False), hidden=True)}
    assert children
    assert not children & {"proc", "sys", "dev"}


def test_the_binary_that_was_installed_is_used(tmp_path: Path) -> None:
    """TOL-241: none is fetched; without one there is the engine in Python."""
    assert RIPGREP is not None
    assert find_ripgrep({"PATH": str(tmp_path)}) == RIPGREP
