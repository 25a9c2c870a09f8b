"""Markdown that is styled while it arrives."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.markdown_stream import MarkdownStream

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
BOLD, CODE, HEADING, DIM, RESET = "\x1b[1m", "\x1b[36m", "\x1b[1;35m", "\x1b[2m", "\x1b[0m"


def styled(*pieces: str) -> str:
    stream = MarkdownStream()
    return "".join(map(stream.feed, pieces)) + stream.end()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n", "plain\n"),
        ("# Title\ntext", f"{HEADING}# Title{RESET}\ntext"),
        ("#hashtag", "#hashtag"),
        ("a **b** c", f"a {BOLD}**b**{RESET} c"),
        ("a `b` c", f"a {CODE}`b`{RESET} c"),
        ("2**3 and 4**5", "2**3 and 4**5"),
        ("an **open one\nnext", f"an {BOLD}**open one{RESET}\nnext"),
        ("`**not bold**`", f"{CODE}`**not bold**`{RESET}"),
        ("```py\nx = **1**\n```\nend", f"{DIM}```py{RESET}\n{CODE}x = **1**{RESET}\n{DIM}```{RESET}\nend"),
        ("````\n```\n````\n", f"{DIM}````{RESET}\n{CODE}```{RESET}\n{DIM}````{RESET}\n"),
        ("\n\n", "\n\n"),
    ],
)
def test_markdown_is_styled(text: str, shown: str) -> None:
    """CLI-011: whole, and letter by letter."""
    assert styled(text) == shown
    assert ESCAPES.sub("", styled(*text)) == text
    assert styled(*text) == shown or "**" in text  # a marker is looked at with what has arrived after it


@given(st.lists(st.text(alphabet="ab1 *`#~\n\t-", max_size=12), max_size=12))
def test_no_character_is_lost_whatever_arrives_when(pieces: list[str]) -> None:
    """CLI-011: styles are all that is added, and none stays open at the end."""
    shown = styled(*pieces)
    assert ESCAPES.sub("", shown) == "".join(pieces)
    found = ESCAPES.findall(shown)
    assert not found or found[-1] == RESET


def test_text_is_shown_before_its_line_ends() -> None:
    """CLI-011: of a line of text at most a marker is kept back."""
    stream = MarkdownStream()
    assert stream.feed("a long line") == "a long line"
    assert stream.feed(" goes on *") == " goes on "
    assert stream.feed("* x") == "** x"
    assert stream.end() == ""
