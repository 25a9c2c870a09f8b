"""Patterns of JSON Schemas, matched without backtracking."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.llm.bounded_pattern import MatchTooLong, PatternError, Steps, bounded_pattern

PLENTY = 100_000


def found(pattern: str, text: str) -> bool:
    return bounded_pattern(pattern).search(text, Steps(PLENTY))


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^[A-Z]{2}-[0-9]+$", ["AB-1", "XY-123"], ["A-1", "AB-", "AB-1x"]),
        ("^(foo|bar)?$", ["", "foo", "bar"], ["foobar", "f"]),
        ("b+", ["abc", "bbb"], ["ac"]),
        (r"^\d{3,5}$", ["123", "12345"], ["12", "123456"]),
        (r"^\w+@\w+\.\w{2,}$", ["a@b.org"], ["a@b.c", "a b@c.org"]),
        (r"\bcat\b", ["a cat!", "cat"], ["cats", "concat"]),
        (r"\Bat", ["cat"], ["at"]),
        ("^[^a-c]$", ["d", "é"], ["a", ""]),
        (r"^[\w.-]+$", ["a.b-c"], ["a b"]),
        (r"^.$", ["x", "é"], ["\n", "xy"]),
        (r"^\u00e9\x41$", ["éA"], ["eA"]),
        (r"^(?:a|b)(?<name>c)$", ["ac"], ["c"]),
        (r"^a{2}$", ["aa"], ["a", "aaa"]),
        (r"^a*?b$", ["b", "aab"], ["a"]),
        (r"^[]$|^x$", ["x"], ["", "]"]),
        (r"^\S+\s\D\W$", ["a b!"], ["a 1!"]),
        ("", ["", "anything"], []),
    ],
)
def test_a_pattern_means_what_it_means_elsewhere(pattern: str, good: list[str], bad: list[str]) -> None:
    """LLM-434"""
    assert [text for text in good if not found(pattern, text)] == []
    assert [text for text in bad if found(pattern, text)] == []


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "(a|b)", "(?:ab)", r"\w", "(a|)"])
PIECES = st.tuples(ATOMS, st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{1,}"])).map("".join)
PATTERNS = st.tuples(
    st.sampled_from(["", "^"]), st.lists(PIECES, max_size=5).map("".join), st.sampled_from(["", "$"])
).map("".join)


@given(PATTERNS, st.text(alphabet="abc", max_size=8))
def test_it_finds_what_re_finds(pattern: str, text: str) -> None:
    """LLM-434"""
    assert found(pattern, text) == (re.search(pattern, text) is not None)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "^(.*a){12}$", "a*a*a*a*a*a*b"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    """LLM-434: the steps grow with the text, not with the ways to match it."""
    steps = Steps(PLENTY)
    bounded_pattern(pattern).search("a" * 200 + "!", steps)
    assert steps.left > 0


def test_a_match_that_takes_too_long_says_so() -> None:
    """LLM-434"""
    with pytest.raises(MatchTooLong):
        bounded_pattern("^(a|b|c)*$").search("abc" * 1000, Steps(1000))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "not closed"),
        ("a)", "unmatched"),
        ("[a", "too early"),
        ("*a", "nothing to repeat"),
        ("a**", "two repetitions"),
        ("a{2,1}", "invalid repetition"),
        ("a{x}", "invalid repetition"),
        ("a{1,²}", "invalid repetition"),
        ("[b-a]", "invalid range"),
        ("(?=a)", "look-around"),
        ("(?<!a)", "look-around"),
        (r"(a)\1", "not supported"),
        (r"\p{L}", "not supported"),
        (r"\u12", "invalid escape"),
        ("\\", "too early"),
        ("((a{900}){900}){900}", "repeats too often"),
        ("(){999999999}", "repeats too often"),
        ("a{99999999999999999999}", "repeats too often"),
        ("(" * 51 + ")" * 51, "groups"),
        ("a" * 1001, "longer"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str, why: str) -> None:
    """LLM-434, API-493"""
    with pytest.raises(PatternError, match=why):
        bounded_pattern(pattern)


def test_an_empty_group_can_be_repeated() -> None:
    assert found("^((){999}){999}a$", "a")
