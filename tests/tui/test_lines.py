"""Text in columns: nothing that a terminal would obey, nothing wider than the line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tui.lines import (
    Line,
    columns,
    encodable,
    hard_wrap,
    line_columns,
    plain_text,
    safe,
    safe_line,
    sides,
    truncated,
    wrap,
)

CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\x07\r\n\t\x9b\u202e\u2066\u200d\ufe0f\u0301日本🦀👩\U0001f3fd\U0001f1e9\ud800 ab"),
    ),
    max_size=80,
)
FRAGMENTS = st.lists(st.tuples(st.sampled_from(["", "class:md.strong"]), HOSTILE.map(safe_line)), max_size=5)
WIDTHS = st.integers(1, 60)


def shown(lines: list[Line]) -> list[str]:
    return [plain_text(line) for line in lines]


@given(HOSTILE)
def test_no_control_character_gets_through(text: str) -> None:
    """TUI-001: whatever a model, a tool or a file wrote."""
    assert not CONTROLS.search(safe(text))
    assert "\n" not in safe_line(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2J", "\\u001b[2J"),
        ("a\rb", "a\\u000db"),
        ("a\r\nb", "a\nb"),
        ("a\tb", "a   b"),
        ("\u202eabc", "\\u202eabc"),
        ("é日本", "é日本"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, expected: str) -> None:
    """TUI-001: as an escape; tabs are spaces, and line ends are line ends."""
    assert safe(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("👩\u200d💻", "👩💻"),
        ("❤\ufe0f", "❤"),
        ("👍\U0001f3fd", "👍"),
        ("🇩🇪", "DE"),
        ("a" + "\u0301" * 50, "a" + "\u0301" * 4),
        ("نمی\u200cخواهم", "نمی\u200cخواهم"),
    ],
)
def test_emoji_have_a_width_that_all_terminals_agree_about(text: str, expected: str) -> None:
    """TUI-003: scripts keep their joiners."""
    assert safe(text) == expected


@given(FRAGMENTS, WIDTHS, st.sampled_from([(), (("", "> "),), (("", "日本日本 "),)]))
def test_no_line_is_wider_than_the_width(fragments: Line, width: int, first: tuple[tuple[str, str], ...]) -> None:
    """TUI-002: however narrow, with or without something before it."""
    for lines in (wrap(fragments, width, first=first), hard_wrap(fragments, width, first=first)):
        assert lines
        assert all(line_columns(line) <= width for line in lines)
    assert line_columns(truncated(fragments, width)) <= width
    assert line_columns(sides(fragments, [("", "right")], width)) <= width


@given(FRAGMENTS, st.integers(2, 60))
def test_wrapping_keeps_every_character_but_spaces(fragments: Line, width: int) -> None:
    """TUI-002"""
    text = plain_text(fragments)

    assert "".join(shown(hard_wrap(fragments, width))) == text
    assert "".join(shown(wrap(fragments, width))).replace(" ", "") == text.replace(" ", "")


def test_words_stay_whole_where_they_fit() -> None:
    """TUI-002: a word of several styles is one word, a long one is broken, wide characters fill the line."""
    assert shown(wrap([("", "one two "), ("b", "thr"), ("", "ee")], 8)) == ["one two", "three"]
    assert shown(wrap([("", "a abcdefghijkl b")], 5)) == ["a abc", "defgh", "ijkl", "b"]
    assert shown(wrap([("", "ab 日本語の文字")], 8)) == ["ab 日本", "語の文字"]
    assert shown(wrap([("", "日本")], 1)) == ["?", "?"]


def test_both_sides_of_a_line_are_at_its_edges() -> None:
    assert plain_text(sides([("", "left")], [("", "right")], 20)) == "left           right"
    assert plain_text(sides([("", "a long left side")], [("", "right")], 16)) == "a long l…  right"
    assert plain_text(sides([("", "left")], [("", "much too long")], 16)) == "left"
    assert plain_text(truncated([("", "日本語")], 5)) == "日本…"


def test_a_terminal_of_another_encoding_gets_what_it_has() -> None:
    """TUI-051: a question mark for each column."""
    line = encodable([("", "a日é✓")], "latin-1")

    assert plain_text(line) == "a??é?"
    assert columns(plain_text(line)) == columns("a日é✓")
