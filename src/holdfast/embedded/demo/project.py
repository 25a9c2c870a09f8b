"""The files of the demonstration's project: a small package with a bug, its tests, and its rules."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.process.git import Git, GitFailed
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SPLIT = '''\
"""Splits a bill between people. Amounts are whole numbers of cents."""


def split(total: int, people: int) -> list[int]:
    """What each person pays."""
    if people < 1:
        raise ValueError("a bill needs at least one person")
    share = total // people
    return [share] * people
'''
RECEIPT = '''\
"""Receipts as text."""

from bill.split import split


def with_tip(total: int, percent: int) -> int:
    """The total with a tip, rounded to whole cents."""
    return total + round(total * percent / 100)


def receipt(total: int, people: int) -> str:
    lines = [f"guest {number}  {cents / 100:8.2f}" for number, cents in enumerate(split(total, people), 1)]
    return "\\n".join([*lines, f"total    {total / 100:8.2f}"])
'''
TESTS = """\
import unittest

from bill.split import split


class SplitTest(unittest.TestCase):
    def test_an_even_bill(self) -> None:
        self.assertEqual(split(900, 3), [300, 300, 300])

    def test_nothing_is_lost(self) -> None:
        self.assertEqual(sum(split(1000, 3)), 1000)
"""
AGENTS = """\
# Rules of this project

- Run `./run-tests` after every change.
- Explain a fix with an example in numbers.
"""
AGENTS_LATER = f"""\
{AGENTS}- Amounts are whole numbers of cents, never floating point.
- Every fix gets a line in CHANGELOG.md.
"""
CHANGELOG = """\
# Changes

## Unreleased

## 1.0

- The first version.
"""
CONFIGURATION = """\
{
  "$schema": "https://opencode.ai/config.json",
  "permission": { "edit": { "CHANGELOG.md": "ask" }, "bash": { "git tag *": "ask" } },
  "compaction": { "keep": { "tokens": 500 } }
}
"""
FILES = {
    "bill/__init__.py": "",
    "bill/split.py": SPLIT,
    "bill/receipt.py": RECEIPT,
    "tests/test_split.py": TESTS,
    "tests/__init__.py": "",
    "AGENTS.md": AGENTS,
    "CHANGELOG.md": CHANGELOG,
    "README.md": "# bill\n\nWho pays how much?\n",
    "opencode.json": CONFIGURATION,
    ".gitignore": "__pycache__/\n",
}
AUTHOR = {"user.name": "Holdfast demo", "user.email": "demo@localhost", "commit.gpgSign": "false"}


class NotEmpty(HoldfastError):
    """The directory for the demonstration has files in it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} is not empty; choose another --directory")


def check_empty(directory: Path) -> None:
    """Raise NotEmpty for a directory with files in it; one that does not exist is empty."""
    if directory.exists() and any(directory.iterdir()):
        raise NotEmpty(directory)


async def make_project(directory: Path, environment: Mapping[str, str]) -> None:
    """Write the files into an empty directory. They are committed there if there is a git."""
    for name, text in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    run_tests = directory / "run-tests"
    run_tests.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -B -m unittest "$@"\n', encoding="utf-8")
    run_tests.chmod(0o755)
    git, git_dir = Git(environment), directory / ".git"
    with suppress(GitFailed):
        await git.run("init", "--quiet", git_dir=git_dir, work_tree=directory)
        await git.run("add", ".", git_dir=git_dir, work_tree=directory)
        message = ("--message", "A package that splits bills")
        await git.run("commit", "--quiet", *message, git_dir=git_dir, work_tree=directory, settings=AUTHOR)
