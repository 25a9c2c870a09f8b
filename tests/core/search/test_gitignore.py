"""Ignore files, compared with what the installed git says of the same files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.core.search.gitignore import IgnoreFile

FILES = [
    "a",
    "b",
    "ab",
    "abc",
    "a.b",
    "a b",
    "a ",
    "[a]",
    "a*",
    "a-b",
    "-",
    "]",
    "!a",
    "#a",
    "\\",
    "a\\",
    "é",
    "A",
    "9",
    "^",
    ".b",
    "x/b",
    "x/ab",
    "x/.a",
    "x/a/b",
    "x/y/a",
    "x/y/ab",
    "x/y/z/a",
    "ax/a",
    "ax/y/b",
    "abx/y/b",
]
PIECES = [*"ab*?[]!^-\\/.x# \ré", *["**", "**/", "/**", "[ab]", "[!a]", "[^a]", "[a-c]", "[]a]", "[[:alpha:]]"]]


class Repository:
    """A directory with all these files, and git."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._git("init", "-q")
        for name in FILES:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        self.paths = sorted({parent for name in FILES for parent in (name, *_above(name))})

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ("git", *arguments), cwd=self.root, env=environment, input=given, capture_output=True, check=False
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def ignored_by_git(self, content: bytes) -> set[str]:
        (self.root / ".gitignore").write_bytes(content)
        given = b"\0".join(map(os.fsencode, self.paths))
        found = self._git("check-ignore", "--no-index", "-z", "--stdin", given=given)
        return {os.fsdecode(path) for path in found.split(b"\0") if path}

    def ignored_by_us(self, content: bytes) -> set[str]:
        file = IgnoreFile(content)

        def ignored(path: str) -> bool:
            above = os.path.dirname(path)
            if above and ignored(above):
                return True
            return file.ignores(os.fsencode(path), directory=(self.root / path).is_dir()) is True

        return {path for path in self.paths if ignored(path)}


def _above(name: str) -> Iterator[str]:
    while name := os.path.dirname(name):
        yield name


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("repository"))


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), min_size=1, max_size=4).map("\n".join))
@settings(max_examples=300, deadline=None)
@example("x/**\n!x/a")
@example("**/a")
@example("x/**/a")
@example("a**/b")
@example("a**b/b\n**b")
@example("/a\nx/\nb/")
@example("\\!a\n\\#a\n#b\n!b")
@example("a \na\\ \n")
@example("a\\\\ ")
@example("[[:alpha:]\n[[:nothing:]]\n[[:]\n[]-a]\n[c-a]\n[a\\-c]b")
@example("\ufeffa\r\nb\r\n")
@example("?\n!??")
@example("x/*\n!x/y\nx//\n//a\n/")
@example("[!/]\nx[/]a\nx[!b]a\nx[.-0]a")
@example("**\\/a\n*/a\n*\n!*/")
def test_the_matcher_ignores_what_git_ignores(repository: Repository, content: str) -> None:
    """TOL-241: whatever the patterns."""
    data = content.encode()
    assert repository.ignored_by_us(data) == repository.ignored_by_git(data)


def test_bytes_that_are_no_text(repository: Repository) -> None:
    """TOL-241: names and patterns are bytes."""
    assert IgnoreFile(b"\xff*\n").ignores(b"x/\xff\xfe", directory=False) is True
    assert repository.ignored_by_us(b"\xc3?\n") == repository.ignored_by_git(b"\xc3?\n") == {"é"}


def test_the_last_pattern_that_matches_decides() -> None:
    """TOL-241."""
    file = IgnoreFile(b"*.log\n!kept.log\nbuild/\n")
    assert file.ignores(b"x/a.log", directory=False) is True
    assert file.ignores(b"x/kept.log", directory=False) is False
    assert file.ignores(b"build", directory=False) is None
    assert file.ignores(b"build", directory=True) is True
