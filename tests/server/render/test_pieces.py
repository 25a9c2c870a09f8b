"""Terminal output, code, diffs and the cache."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.render.allowed import check

from holdfast.server.render.ansi import plain, terminal_html
from holdfast.server.render.cache import RenderCache
from holdfast.server.render.code import code_html
from holdfast.server.render.diff import diff_html
from holdfast.server.render.sanitize import clean
from holdfast.server.render.text import bounded, last_lines, one_line
from holdfast.text.highlighting import language_of

ANSI = ["\x1b[", "\x1b]", "\x1b", "\x9b", "31", ";", "m", "K", "\r", "\b", "\n", "\x07", "a", "<", "38;5;", "2K", "1;4"]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("\x1b[1;31mred\x1b[0m <b>", '<span class="ar ab">red</span> &lt;b&gt;'),
        ("10%\r20%\r100%", "100%"),
        ("hello\r\x1b[Kbye", "bye"),
        ("hello\rHE", "HEllo"),
        ("ab\bX\r\nc", "aX\nc"),
        ("\x1b[38;5;2mg\x1b[38;2;1;2;3mt\x1b[39m", '<span class="ag">g</span><span class="ag">t</span>'),
        ("\x1b]0;title\x07x\x1b[2J\x1b[10;10Hy\x1b(B", "xy"),
        ("\x1b[32ma\nb\x1b[m", '<span class="ag">a</span>\n<span class="ag">b</span>'),
        ("a\x07b", 'a<span class="ctl">U+0007</span>b'),
    ],
)
def test_terminal_output_looks_as_in_a_terminal(text: str, html: str) -> None:
    """WEB-104."""
    assert terminal_html(text) == html
    check(clean(html))


@given(st.lists(st.sampled_from(ANSI) | st.text(max_size=4), max_size=40).map("".join))
def test_no_sequence_reaches_the_page(text: str) -> None:
    """WEB-104."""
    html = clean(terminal_html(text.encode(errors="replace").decode()))
    assert "\x1b" not in check(html)
    assert "\x1b" not in plain(text)


@given(
    st.text(alphabet=st.sampled_from("ab'\"(){}#/*\n\\ <&é\u202e\t"), max_size=60),
    st.sampled_from(["python", "c++", "html"]),
)
def test_highlighted_code_has_the_text_of_the_code(code: str, language: str) -> None:
    """WEB-102: nothing is added, removed or moved."""
    shown = check(clean(f"<pre>x{code_html(code, language)}</pre>"))
    assert shown == "x" + code.replace("\u202e", "U+202E")


def test_languages_by_the_names_of_files() -> None:
    """WEB-102."""
    names = ["a/b.py", "Dockerfile", "x.yml", "noextension", "y.tsx", "../../z.RS"]
    assert [language_of(name) for name in names] == ["python", "docker", "yaml", "", "tsx", "rust"]


def test_a_diff_is_a_table_with_line_numbers() -> None:
    """WEB-105."""
    patch = "--- a\n+++ a\n@@ -3,2 +3,2 @@\n same\n-<old>\n+new\n\\ No newline at end of file\n"
    html, cut = diff_html(patch)
    assert not cut
    assert '<tr><td class="ln">3</td><td class="ln">3</td><td class="cd">same</td></tr>' in html
    assert '<tr class="rem"><td class="ln">4</td><td class="ln"></td><td class="cd">&lt;old&gt;</td></tr>' in html
    assert '<tr class="add"><td class="ln"></td><td class="ln">4</td><td class="cd">new</td></tr>' in html
    assert clean(html) == html
    check(html)
    long, cut = diff_html("@@ -1 +1 @@\n" + "+x\n" * 10_000, lines=100)
    assert (long.count("<tr"), cut) == (100, True)


@given(
    st.lists(
        st.sampled_from(["@@ -1,2 +3 @@", "+a", "-b", " c", "\\ x", "--- <a>", "@@", "\u202e"]) | st.text(max_size=6)
    )
)
def test_any_text_as_a_diff(lines: list[str]) -> None:
    """WEB-105."""
    html, _ = diff_html("\n".join(lines).encode(errors="replace").decode())
    check(clean(html))


def test_the_cache_is_bounded_by_bytes_and_forgets_what_was_used_least_recently() -> None:
    """WEB-106."""
    cache, made = RenderCache(4_000), []

    def render(text: str) -> str:
        made.append(text)
        return text * 100

    for text in ("a", "b", "a", "c", "d", "a"):
        assert cache.get("kind", text, render) == text * 100
    assert made == ["a", "b", "c", "d"]
    for number in range(50):
        cache.get("kind", str(number % 10), render)
        assert cache.size <= 4_000
    cache.get("other", "a", render)
    assert made.count("a") == 2
    cache.get("kind", "x" * 1_000, render)
    assert cache.size <= 4_000


def test_the_cache_is_used_from_several_threads() -> None:
    """WEB-106."""
    cache = RenderCache(2_000)

    def work() -> None:
        for number in range(500):
            assert cache.get("k", str(number % 20), lambda text: text * 20) == str(number % 20) * 20

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 <= cache.size <= 2_000


def test_text_is_bounded() -> None:
    """WEB-103."""
    assert bounded("a" * 10, 5) == ("aaaaa", True)
    assert bounded("ab\n" * 10, 100, line=1)[0].startswith("a… (1 characters left out)\n")
    assert last_lines("1\n2\n3\n", 2, characters=10) == "2\n3"
    assert one_line(" a\n b\u202e ", 20) == "a bU+202E"
