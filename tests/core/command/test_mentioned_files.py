"""The files that a template mentions."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.command.mentioned_files import mentioned_files
from holdfast.core.permission.rules import Authority
from holdfast.schema.permission import Rule

RULES = Authority(
    (Rule(action="*", resource="*", effect="allow"), Rule(action="read", resource="*.env", effect="deny"))
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    for name in ("a.py", "own.env", "..odd", "src/b.py"):
        (folder / name).touch()
    (tmp_path / "outside.txt").touch()
    (folder / "link").symlink_to(tmp_path / "outside.txt")
    return folder


@pytest.mark.parametrize("trusted", [True, False])
def test_names_that_are_no_files_are_text(project: Path, trusted: bool) -> None:
    """CAT-230: also names that no file system takes, and homes of unknown users."""
    mentions = ("absent", "dataclass", "~nobody-here/x", "x" * 5000, "a.py/b")
    found = mentioned_files(mentions, project, RULES, trusted=trusted)
    assert (found.files, found.notes) == ((), ())


def test_files_inside_the_project_need_no_trust(project: Path) -> None:
    """CAT-230."""
    found = mentioned_files(("a.py", "src", "src/b.py", "..odd"), project, RULES, trusted=False)
    assert [file.name for file in found.files] == ["a.py", "src", "src/b.py", "..odd"]
    assert found.files[0].uri == (project / "a.py").as_uri()
    assert found.notes == ()


def test_files_outside_need_trust(project: Path) -> None:
    """CAT-230: links are judged by their target."""
    mentions = ("../outside.txt", "link")
    assert len(mentioned_files(mentions, project, RULES, trusted=True).files) == 2
    refused = mentioned_files(mentions, project, RULES, trusted=False)
    assert refused.files == ()
    assert [note.split("`")[1] for note in refused.notes] == ["@../outside.txt", "@link"]


@pytest.mark.parametrize("trusted", [True, False])
def test_files_that_the_agent_may_not_read_are_left_out(project: Path, trusted: bool) -> None:
    """CAT-230."""
    found = mentioned_files(("own.env",), project, RULES, trusted=trusted)
    assert found.files == ()
    assert "deny reading it" in found.notes[0]
