"""Markdown, code, diffs and the output of programs as lines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tui.samples import ANSWER, PATCH
from tests.tui.test_lines import CONTROLS, HOSTILE, WIDTHS

from holdfast.schema.rendered import BodySection, CallBody
from holdfast.text.highlighting import LARGEST, language_of
from holdfast.tui.ansi import output_lines
from holdfast.tui.call_body import body_blocks, call_body_lines
from holdfast.tui.code import coloured
from holdfast.tui.diff import Diff, diff_lines
from holdfast.tui.lines import Line, line_columns, plain_text
from holdfast.tui.markdown import markdown_lines
from holdfast.tui.style import ASCII, UNICODE
from holdfast.tui.text_chunks import CODE_LINES, TextChunks
from holdfast.tui.text_chunks import LARGEST as LARGEST_CHUNK

TABLE = "|a|b|\n|-|-|\n|x|y|\n"
LARGE = {
    "one line": "word " * 20_000,
    "one word": "x" * 100_000,
    "code": "```py\n" + "print(1)\n" * 10_000,
    "list": "- item\n" * 10_000,
    "code in a list": "1. a\n   ```\n" + "   x\n" * 20_000,
}
TWO_FILES = """--- a/x
+++ b/x
@@ -1,2 +1 @@
--- a
 b
--- a/y
+++ b/y
@@ -0,0 +1 @@
+c
\\ No newline at end of file
"""


def mixed(*pieces: str) -> st.SearchStrategy[str]:
    """Hostile text with these in it."""
    return st.lists(st.one_of(st.sampled_from(pieces), HOSTILE), max_size=12).map("".join)


MARKDOWN = mixed("# ", "- ", "1. ", "> ", "```py\n", "```", TABLE, "**", "`", "[x](y)", "&#27;", "\n", "\n\n", " ")
DIFF = mixed("@@ -1,3 +1,4 @@ x\n", "+", "-", " ", "\\", "--- a\n", "+++ b/c.py\n", "\n")
OUTPUT = mixed("\x1b[", "31m", "K", "\r", "\b", "\x1b]", "\x07", "\x9b", "日")


def shown(lines: list[Line]) -> list[str]:
    return [plain_text(line).rstrip() for line in lines]


def drawn(text: TextChunks, width: int) -> list[str]:
    lines: list[Line] = []
    for chunk in text.chunks:
        lines += [[]] if chunk.gap else []
        lines += chunk.lines(width, UNICODE)
    return shown(lines)


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_markdown_is_drawn(width: int) -> None:
    """TUI-010: headings, lists, code, quotes, tables, links with their targets."""
    lines = shown(markdown_lines(ANSWER, width))
    text = "\n".join(lines)

    assert all(line_columns(line) <= width for line in markdown_lines(ANSWER, width))
    assert not any(sign in text for sign in ("**", "##", "```", "|-"))
    for words in ("What I changed", "◦ a tab", "def split_line", "│ Note:", "https://example.com/issues/12"):
        assert words in text or width < 40


NESTED = {
    "quotes": "> " * 4_000 + "inside",
    "lists": "- " * 400 + "inside",
    "list in lists": "".join("  " * depth + f"- item{depth}\n" for depth in range(90)),
    "quotes without spaces": ">" * 60 + " inside",
    "numbers": "1. " * 60 + "inside",
    "mixed": "> - " * 24 + "inside",
    "definition": "See [this][1].\n\n[1]: https://example.com/inside",
    "html": "<b>inside</b> <!-- comment -->",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_no_words_are_lost(text: str) -> None:
    """TUI-010: however deep they are, and in definitions of links."""
    drawn = "".join(shown(markdown_lines(text, 80)))

    for word in re.findall("[a-z]+[0-9]*", text):
        assert word in drawn


def test_the_parts_of_markdown_have_styles() -> None:
    """TUI-010"""
    fragments = [fragment for line in markdown_lines("# A\n\nb **c** *d* `e` ~~f~~", 80) for fragment in line]

    assert ("class:md.h1", "A") in fragments
    assert ("class:md.strong", "c") in fragments
    assert ("class:md.em", "d") in fragments
    assert ("class:md.code", "e") in fragments
    assert ("class:md.strike", "f") in fragments


def test_a_table_that_does_not_fit_is_a_list() -> None:
    """TUI-010"""
    table = "| name | value |\n|---|--:|\n| first | 12 |\n| second | 3 |"

    assert shown(markdown_lines(table, 40)) == ["name   │ value", "───────┼──────", "first  │    12", "second │     3"]
    assert shown(markdown_lines(table, 12)) == ["name: first", "value: 12", "", "name: second", "value: 3"]


@given(MARKDOWN, WIDTHS)
def test_hostile_markdown_is_safe_and_fits(text: str, width: int) -> None:
    """TUI-001, TUI-002: also what becomes a control character only when it is parsed."""
    for line in markdown_lines(text, width):
        assert line_columns(line) <= width
        assert not CONTROLS.search(plain_text(line))
        assert "\n" not in plain_text(line)


@given(MARKDOWN, st.integers(1, 20))
def test_text_that_comes_in_pieces_is_drawn_as_if_it_came_at_once(text: str, size: int) -> None:
    """TUI-014"""
    grown = TextChunks()
    for start in range(0, len(text), size):
        grown.add(text[start : start + size])

    assert grown.text == text
    assert drawn(grown, 40) == drawn(TextChunks(text), 40)


def test_a_long_text_is_drawn_as_if_it_were_one() -> None:
    """TUI-014: chunks end where blocks end, and numbers of lists go on."""
    items = "".join(f"1. item {number} with some more words in it\n" for number in range(200))
    text = f"{ANSWER * 20}\n{items}\nThe end."

    chunks = TextChunks(text)

    assert len(chunks.chunks) > 20
    whole = shown(markdown_lines(text, 80))
    assert [line.lstrip() for line in drawn(chunks, 80)] == [line.lstrip() for line in whole]


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_no_chunk_is_large(text: str) -> None:
    """TUI-014: text that is added costs the same whatever came before."""
    chunks = TextChunks(text).chunks

    assert all(len(chunk.text + chunk.rest) <= LARGEST_CHUNK + 100 for chunk in chunks)
    assert all(chunk.text.count("\n") <= CODE_LINES for chunk in chunks if chunk.language is not None)
    assert sum(len(chunk.text + chunk.rest) for chunk in chunks) >= 0.9 * len(text) - 100


def test_only_the_last_chunk_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """TUI-014"""
    text = TextChunks(ANSWER * 50)
    drawn(text, 80)
    rendered: list[int] = []

    def count(text: str, width: int, marks: object, *, number: int | None = None) -> list[Line]:
        rendered.append(len(text))
        return markdown_lines(text, width, number=number)

    monkeypatch.setattr("holdfast.tui.text_chunks.markdown_lines", count)
    text.add("more")
    drawn(text, 80)

    assert len(rendered) == 1
    assert rendered[0] < LARGEST_CHUNK


def test_code_has_the_colours_of_its_language() -> None:
    """TUI-011: which is named, never guessed; a large text has none."""
    (line,) = coloured("def f(): pass", "python")

    assert ("class:code.keyword", "def") in line
    assert coloured("def f(): pass") == [[("class:code", "def f(): pass")]]
    assert coloured("def f(): pass", "no such language") == [[("class:code", "def f(): pass")]]
    assert all(style == "class:code" for part in coloured("x = 1\n" * LARGEST, "python") for style, _ in part)
    assert [language_of(name) for name in ("a/x.py", "Makefile", "x.rs", "x.unknown", "noext", "x.txt")] == [
        "python",
        "make",
        "rust",
        "",
        "",
        "",
    ]


def test_a_diff_has_numbers_signs_and_colours() -> None:
    """TUI-012"""
    lines = diff_lines(PATCH, 60, "src/parser.py")

    assert shown(lines)[:6] == [
        "   … def parse_args(line: str) -> list[str]:",
        "10       if not line:",
        "11           return []",
        '12 −     fields = line.split(" ")[:-1]',
        '12 +     fields = [field for field in line.split(" ") if fie',
        "     ld]",
    ]
    assert "class:diff.remove" in lines[3][0][0]
    assert line_columns(lines[3]) == 60
    assert (Diff(PATCH).additions, Diff(PATCH).deletions) == (2, 1)


def test_a_diff_of_several_files_names_them() -> None:
    """TUI-012: and a removed line that looks like a header is a line."""
    assert shown(diff_lines(TWO_FILES, 40)) == [
        "x",
        "1 − -- a",
        "1   b",
        "y",
        "1 + c",
        "    No newline at end of file",
    ]


@given(DIFF, WIDTHS)
def test_hostile_diffs_are_safe_and_fit(text: str, width: int) -> None:
    """TUI-001, TUI-002"""
    for line in diff_lines(text, width, "x.py"):
        assert line_columns(line) <= width
        assert not CONTROLS.search(plain_text(line))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[31mred\x1b[0mb", [[("", "a"), ("class:ansi.red", "red"), ("", "b")]]),
        ("\x1b[1;38;5;2mx\ny", [[("class:ansi.green bold", "x")], [("class:ansi.green bold", "y")]]),
        ("10%\r50%\r100%", [[("", "100%")]]),
        ("abc\b\bX", [[("", "aXc")]]),
        ("long\r\x1b[Kx", [[("", "x")]]),
        ("\x1b]0;title\x07a\x1b[2J\x1b[5;5Hb", [[("", "a"), ("", "b")]]),
        ("a\x00b", [[("", "a\\u0000b")]]),
        ("\x1b[38;2;1;2;3mx\x1b[38;5;200my", [[("", "x"), ("", "y")]]),
    ],
)
def test_output_of_programs_is_as_a_terminal_leaves_it(text: str, expected: list[Line]) -> None:
    """TUI-013"""
    lines = output_lines(text, 80)

    assert [[fragment for fragment in line if fragment[1]] for line in lines] == [_merged(line) for line in expected]


@given(OUTPUT, WIDTHS)
def test_hostile_output_is_safe_and_fits(text: str, width: int) -> None:
    """TUI-001, TUI-002"""
    for line in output_lines(text, width):
        assert line_columns(line) <= width
        assert not CONTROLS.search(plain_text(line))


def test_the_body_of_a_call_has_all_its_sections() -> None:
    """TUI-023: whole, in blocks of a hundred lines, so that only what is visible is rendered."""
    output = "".join(f"line {number}\n" for number in range(1_000))
    body = CallBody(
        sections=(
            BodySection(kind="diff", text=PATCH, name="src/parser.py", status="added"),
            BodySection(kind="code", text="echo 1", name="bash"),
            BodySection(kind="output", text=output),
            BodySection(kind="note", text="a note"),
            BodySection(kind="error", text="\x1b[31mfailed"),
        ),
        cut=True,
        paths=("/tmp/all.txt",),
    )

    lines = shown(call_body_lines(body.sections, 60, ASCII))

    assert lines[0].startswith("src/parser.py added")
    assert lines[0].endswith("+2 -1")
    assert {"echo 1", "line 0", "line 999", "a note", "failed"} <= set(lines)
    assert len(body_blocks(body)) >= 10 + 6
    assert plain_text(body_blocks(body)[-1].lines(60, ASCII)[0]) == "The whole output is in /tmp/all.txt"


def _merged(line: Line) -> Line:
    """Neighbours of one style are one fragment."""
    merged: Line = []
    for style, text in line:
        if merged and merged[-1][0] == style:
            merged[-1] = (style, merged[-1][1] + text)
        else:
            merged.append((style, text))
    return merged
