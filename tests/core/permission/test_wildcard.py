"""The wildcard, against what it says and against a slow reference."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.permission.wildcard import IGNORE_CASE, Wildcard, compile_pattern, matches


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("*", "a/b\nc", True),
        ("src/*", "src/a/b.py", True),
        ("src/*", "src", False),
        ("src/*", "xsrc/a", False),
        ("*.env", "deep/down/.env", True),
        ("*.env", ".env.local", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "abcb", False),
        ("*ab*ab", "abab", True),
        ("*ab*ab", "ab", False),
        ("ab*ba", "aba", False),
        ("?", "", False),
        ("?", "é", True),
        ("?", "\n", True),
        ("?", "ab", False),
        ("a?c*", "abcd", True),
        ("*?b?*", "xxaybyy", True),
        ("*?b?*", "b", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a.c", "abc", False),
        ("(a|b)+$^", "(a|b)+$^", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_a_pattern_matches_whole_texts(pattern: str, text: str, expected: bool) -> None:
    """TOL-070, TOL-332, CAT-048: anchored; `*` any run, also over `/` and line ends, `?` one character, the rest is
    literal."""
    assert matches(pattern, text) is expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("git status *", "git status", True),
        ("git status *", "git status -s", True),
        ("git status *", "git status ", True),
        ("git status *", "git statusx", False),
        ("git *", "git", True),
        ("git *x", "git", False),
        ("git **", "git", False),
        ("git * *", "git add", True),
        ("git * *", "git", False),
        (" *", "", True),
        ("g?t *", "got", True),
        ("git.*", "git", False),
    ],
)
def test_a_tail_of_space_and_star_may_be_absent(pattern: str, text: str, expected: bool) -> None:
    """TOL-071, TOL-333, CAT-048: only at the very end, and only after a space of the pattern itself."""
    assert matches(pattern, text) is expected


@pytest.mark.parametrize(
    ("pattern", "text"), [(r"src\*", "src/a"), ("src/*", r"src\a"), (r"C:\work\*", "C:/work/x"), (r"a\b", r"a\b")]
)
def test_a_backslash_matches_as_a_slash(pattern: str, text: str) -> None:
    """TOL-070, CAT-048: a backslash is a slash, in the pattern and in the text."""
    assert matches(pattern, text)


def test_case_matters_except_on_windows() -> None:
    """TOL-070, CAT-048: here it matters; told to ignore it, it does not."""
    assert not IGNORE_CASE
    assert not matches("README*", "readme.md")
    assert Wildcard("README*", ignore_case=True).matches("readme.MD")


TEXT = st.text(alphabet="ab /\\?\n.", max_size=12)


@settings(max_examples=100)
@given(pattern=st.text(alphabet="ab /\\?*\n.", max_size=9), text=TEXT)
def test_the_wildcard_agrees_with_a_backtracking_matcher(pattern: str, text: str) -> None:
    """TOL-070, TOL-071: whatever the pattern."""
    assert Wildcard(pattern).matches(text) == _reference(pattern, text)


@settings(max_examples=100)
@given(pieces=st.lists(TEXT, min_size=1, max_size=4), between=st.lists(TEXT, min_size=3, max_size=3))
def test_a_text_built_from_a_pattern_matches_it(pieces: list[str], between: list[str]) -> None:
    """TOL-070: a text built from the pieces of a pattern, with anything at its stars."""
    text = pieces[0] + "".join(any_ + piece for any_, piece in zip(between, pieces[1:], strict=False))
    assert matches("*".join(pieces), text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("*a" * 49 + "*b*", "a" * 102_400),
        ("*" * 50 + "b", "a" * 102_400),
        ("*a?a" * 49 + "*b?*", "a" * 102_400),
        ("*ab" * 50 + "*", "a" * 102_400),
        ("*aab?c" * 50 + "*", "aab" * 34_000),
        ("*echo *" * 25, "echo x; " * 12_800),
    ],
)
def test_many_stars_on_a_long_command_are_fast(pattern: str, text: str) -> None:
    """TOL-072: fifty stars against 100 KiB within 10 ms, also when they do not match; the pattern is compiled once."""
    assert compile_pattern(pattern) is compile_pattern(pattern)
    best = min(_seconds(pattern, text) for _ in range(20))
    assert best < 0.010


def _seconds(pattern: str, text: str) -> float:
    start = time.perf_counter()
    matches(pattern, text)
    return time.perf_counter() - start


def _reference(pattern: str, text: str) -> bool:
    pattern, text = pattern.replace("\\", "/"), text.replace("\\", "/")
    tail = pattern.endswith(" *")
    head = pattern[:-2] if tail else pattern
    expression = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in head)
    return re.fullmatch(expression + ("( .*)?" if tail else ""), text, re.DOTALL) is not None
