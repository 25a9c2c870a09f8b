"""Patterns of configured instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.context.file_cache import FileCache
from holdfast.core.context.file_pattern import PatternTooWide, Walk, alternatives

TREE = (
    "a.md",
    "b.md",
    "c.txt",
    "docs/x.md",
    "docs/deep/y.md",
    ".hidden/z.md",
    "docs/[id].md",
    "src/m1.md",
    "src/m22.md",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "docs" / "up").symlink_to("..")
    (tmp_path / "link.md").symlink_to("docs/x.md")
    (tmp_path / "dangling.md").symlink_to("nowhere")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.md", ["a.md", "b.md", "link.md"]),
        ("?.md", ["a.md", "b.md"]),
        ("{b,a}.md", ["a.md", "b.md"]),
        ("{docs,src}/*.md", ["docs/[id].md", "docs/x.md", "src/m1.md", "src/m22.md"]),
        ("src/m?.md", ["src/m1.md"]),
        ("docs/**/*.md", ["docs/[id].md", "docs/deep/y.md", "docs/x.md"]),
        ("docs/**", ["docs/[id].md", "docs/deep/y.md", "docs/x.md"]),
        ("**/z.md", [".hidden/z.md"]),
        ("**/**/y.md", ["docs/deep/y.md"]),
        ("d*/deep/{y,{z,q}}.md", ["docs/deep/y.md"]),
        ("docs/[id].m*", ["docs/[id].md"]),
        ("{a.md", []),
        ("nowhere/*.md", []),
        ("{,}", []),
    ],
)
def test_a_pattern_matches_files_only_in_sorted_order(tree: Path, pattern: str, expected: list[str]) -> None:
    """CTX-143: files only, dot directories too, sorted; brackets are plain characters; links do not make cycles."""
    found = Walk(FileCache()).matches(str(tree), pattern)
    assert [str(Path(path).relative_to(tree)) for path in found] == expected


def test_the_start_is_never_a_pattern(tmp_path: Path) -> None:
    """CTX-143: a directory may be called `{a,b}`."""
    odd = tmp_path / "{a,b} *"
    odd.mkdir()
    (odd / "x.md").touch()
    assert Walk(FileCache()).matches(str(odd), "*.md") == [str(odd / "x.md")]


def test_a_new_file_is_found_at_once(tmp_path: Path) -> None:
    """CTX-139: listings are remembered only as long as they are true."""
    cache = FileCache()
    for number in range(5):
        (tmp_path / f"{number}.md").touch()
        assert len(Walk(cache).matches(str(tmp_path), "*.md")) == number + 1


def test_a_pattern_with_too_many_alternatives_is_refused() -> None:
    """CTX-143: alternatives multiply; there is a limit."""
    assert alternatives("{a,b}{c,d}") == ["ac", "ad", "bc", "bd"]
    with pytest.raises(PatternTooWide):
        alternatives("{a,b}" * 10)
