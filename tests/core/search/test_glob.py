"""Globs: what they match, what is refused, and that no pattern takes long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.search.glob import Glob, InvalidGlob


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", "a.py b/c.py", "a.pyc .py b/.a.py .h/a.py"),
        ("src/*.py", "src/a.py", "a.py src/b/a.py x/src/a.py"),
        ("src/**/*.py", "src/a.py src/b/c/a.py", "src/.h/a.py a.py"),
        ("**/test/*", "test/a a/b/test/c", "test a/test/b/c"),
        ("**", "a a/b", ".a a/.b"),
        ("src/**", "src/a src/b/c", "src"),
        ("a/**/b/**/c", "a/b/c a/x/b/y/c a/b/b/c", "a/c b/c"),
        ("?.t", "a.t é.t", "ab.t .t"),
        ("[a-c]x", "ax bx", "dx"),
        ("[!a]x", "bx", "ax"),
        ("[]]x", "]x", "ax"),
        ("*.{ts,tsx}", "a.ts a.tsx", "a.t"),
        ("{a,b/{c,d}}", "a b/c b/d", "b"),
        ("a*b*c", "abc aXbXc", "ab"),
        ("./a", "a", "b/a"),
        (".github/*", ".github/a", ".github/.b github/a"),
        (".*", ".a", "a"),
        ("a[", "a[", "a"),
        ("\\*", "*", "a"),
    ],
)
def test_a_glob_without_a_slash_matches_names_and_with_one_paths(pattern: str, yes: str, no: str) -> None:
    """TOL-229, TOL-232: names without a slash, paths with one; hidden names only when they are asked for."""
    glob = Glob(pattern)
    assert [path for path in yes.split() if not glob.matches(path)] == []
    assert [path for path in no.split() if glob.matches(path)] == []


def test_hidden_names_match_when_the_caller_asks_for_them() -> None:
    """TOL-232: grep looks into hidden files, so its globs match them."""
    glob = Glob("*.py", dots=True)
    assert glob.matches(".github/a.py")
    assert glob.matches(".a.py")


@pytest.mark.parametrize(
    "pattern",
    ["", "!a", "/etc/*", "../a", "a/../b", "a\0b", "a\nb", "x" * 2000, "{..,a}/b", "{a,!b}", "{a,b}" * 20, "[z-a]"],
)
def test_a_glob_with_negation_escapes_or_an_absolute_prefix_is_refused(pattern: str) -> None:
    """TOL-237, TOL-321: negation, escapes, absolute prefixes and control characters, also out of braces."""
    with pytest.raises(InvalidGlob):
        Glob(pattern)


@pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "**/" * 20 + "b", "**/*a*/" * 20 + "b", "?*" * 100 + "b"])
def test_no_glob_takes_exponential_time(pattern: str) -> None:
    """TOL-325: paths that almost match, in a time that would be hopeless with backtracking."""
    glob = Glob(pattern)
    path = "/".join(["a" * 250] * 15)
    start = time.process_time()
    assert not glob.matches(path)
    assert time.process_time() - start < 2


@settings(max_examples=100, deadline=None)
@given(st.text("ab*?/", min_size=1, max_size=8), st.text("ab/", min_size=1, max_size=8))
def test_globs_match_like_a_plain_backtracking_matcher(pattern: str, path: str) -> None:
    """TOL-229: cutting choices short changes no answer."""
    parts, names = [part for part in pattern.split("/") if part], path.split("/")
    if not parts or not all(names) or pattern.startswith("/"):
        return
    if "/" not in pattern:
        parts.insert(0, "**")
    assert Glob(pattern).matches(path) == _obvious(parts, names)


def _obvious(parts: list[str], names: list[str]) -> bool:
    if not parts:
        return not names
    if parts[0] == "**":
        if len(parts) == 1:
            return bool(names)
        return any(_obvious(parts[1:], names[skip:]) for skip in range(len(names) + 1))
    if not names:
        return False
    expression = re.escape(parts[0]).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, names[0]) is not None and _obvious(parts[1:], names[1:])
