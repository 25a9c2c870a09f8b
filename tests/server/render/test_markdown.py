"""Markdown of models, which is hostile."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.render.allowed import check

from holdfast.server.render.markdown import CUT, LARGEST, markdown_html

PIECES = [
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "<a href='javascript:x'>"),
    *("[a](javascript:alert(1))", "[a](JaVaScRiPt:x)", "[a](data:text/html,x)", "[a](https://x.y)", "[a](vbscript:x)"),
    *("![a](data:image/svg+xml,<svg>)", "![](https://x/y.png)", "[![b](https://i)](https://l)", "<https://a.b>"),
    *("<javascript:alert(1)>", "[x]: javascript:alert(1)", "[x]", "&lt;b&gt;", "&#x202e;", "&#0;", "\\<b>"),
    *("\n", "\n\n", "> ", "- ", "1. ", "    ", "```html\n", "~~~\n", "`", "**", "_", "~~", "|a|b|\n|-|:-:|\n", "# "),
    *("\x1b[31m", "\x1b]0;t\x07", "\x9b2J", "\r", "\x00", "\u202e", "\u200b", "\ud800", "\ufeff", '"', "'", "=", "\t"),
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=30).map("".join))
def test_only_allowed_html_comes_out(text: str) -> None:
    """WEB-100: checked without the sanitizer's own parser."""
    check(markdown_html(text))


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "# A\n\nb *c* **d** `e` ~~f~~",
            "<h1>A</h1>\n<p>b <em>c</em> <strong>d</strong> <code>e</code> <s>f</s></p>\n",
        ),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"),
        (
            "[x](https://a.b/?q=1&r=2)",
            '<p><a href="https://a.b/?q=1&amp;r=2" target="_blank" rel="noopener noreferrer nofollow">x</a></p>\n',
        ),
        ("[x](javascript:y)", '<p>x <span class="dim">(javascript:y)</span></p>\n'),
        ("[x](src/a.py)", '<p>x <span class="dim">(src/a.py)</span></p>\n'),
        (
            "![alt](https://a.b/c.png)",
            '<p><a href="https://a.b/c.png" target="_blank" rel="noopener noreferrer nofollow">alt</a></p>\n',
        ),
        ("![alt](data:image/png;base64,AA)", '<p>alt <span class="dim">(data:image/png;base64,AA)</span></p>\n'),
        ("a\u202eb\u200b", '<p>a<span class="ctl">U+202E</span>b<span class="ctl">U+200B</span></p>\n'),
        ("a\x1b[31mb\x1b[0m\x1b]8;;https://x\x07c", "<p>abc</p>\n"),
        ("2. x\n3. y", '<ol start="2">\n<li>x</li>\n<li>y</li>\n</ol>\n'),
        ("|a|b|\n|-|-:|\n|1|2|", None),
    ],
)
def test_markdown_as_html(text: str, html: str | None) -> None:
    """WEB-100, WEB-101."""
    made = markdown_html(text)
    check(made)
    if html is not None:
        assert made == html
    else:
        assert '<td class="end">2</td>' in made


def test_code_is_highlighted_by_the_name_of_its_language() -> None:
    """WEB-102: an unknown language, a long line and a large block are plain."""
    assert '<span class="hl-k">def</span>' in markdown_html("```python\ndef f(): pass\n```")
    for text in ("```nonsense\ndef f(): pass\n```", f"```python\ndef f(): '{'x' * 3_000}'\n```"):
        assert "hl-" not in markdown_html(text)
    assert "hl-" not in markdown_html("```python\n" + "x = 1\n" * 20_000 + "```")


BOMBS = {
    "quotes": ">" * 10_000,
    "brackets": "[" * 10_000,
    "many brackets": ("[" * 1_000 + "\n") * 150,
    "images": "![" * 50_000,
    "emphasis": "*a " * 60_000,
    "emphasis of many lines": ("**a _b " * 100 + "\n") * 200,
    "ticks": "".join("`" * number + " " for number in range(1, 600)),
    "links": ("[a](<b " * 500 + "\n") * 50,
    "lists": "".join("  " * number + "- a\n" for number in range(300)),
    "quoted lists": "> - " * 20_000,
    "tables": "|a|b|\n|-|-|\n" + "|" * 150_000,
    "wide tables": "|a" * 9_000 + "\n" + "|-" * 9_000 + "\n" + ("|x" * 9_000 + "\n") * 5,
    "rows": "a|b\n-|-\n" + "x|y\n" * 45_000,
    "entities": "&#x" * 60_000,
    "references": "".join(f"[{number}]: /x\n" for number in range(15_000)),
    "fences": "```\n" * 50_000,
    "quoted lines": "> a\n" * 50_000,
    "headings": "# a\n" * 50_000,
    "angles": "<a " * 60_000,
    "strikes": ("~~a" * 300 + "\n") * 200,
    "code": "```python\n" + "(" * 1_999 + "\n" + "x = '''\n" * 10_000 + "\n```",
}


@pytest.mark.parametrize("name", BOMBS)
def test_no_text_takes_long(name: str) -> None:
    """WEB-103: texts that make parsers slow."""
    begun = time.thread_time()
    check(markdown_html(BOMBS[name]))
    assert time.thread_time() - begun < 8


def test_a_long_line_and_a_long_text_are_cut_with_a_note() -> None:
    """WEB-103."""
    html = markdown_html("x" * 5_000_000)
    assert "characters left out" in html
    assert html.endswith(CUT)
    assert len(html) < 50_000
    assert len(markdown_html("word\n" * LARGEST)) < 2 * LARGEST


def test_a_server_that_shows_no_page_imports_nothing_for_it() -> None:
    """WEB-107."""
    import subprocess
    import sys

    program = (
        "import sys, holdfast.server.app, holdfast.server.handlers.rendered, holdfast.server.web.stream\n"
        "from holdfast.schema.deferred import load_next\n"
        "while load_next(): pass\n"
        "print([name for name in ('markdown_it', 'pygments', 'nh3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
