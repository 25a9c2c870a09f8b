"""Pages as Markdown and text, and pages that mean harm."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from holdfast.core.html.document import PREFIX_DEPTH
from holdfast.core.html.html import OUTPUT_BYTES, convert
from holdfast.core.html.markdown import TABLE_DEPTH, to_markdown
from holdfast.core.html.text import to_text
from holdfast.core.web.errors import FetchFailed

pytestmark = pytest.mark.anyio

COSTLY = "<p>" * 1_700_000


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<h1>Hello</h1><p>world <b>wide</b></p>", "# Hello\n\nworld **wide**"),
        ("<h3>A</h3><hr><p>B <em>c</em>", "### A\n\n---\n\nB *c*"),
        ("<pre><code>x = 1\n  y</code></pre>", "```\nx = 1\n  y\n```"),
        ("<p>use <code>a*b</code></p>", "use `a*b`"),
        ("<script>evil()</script><style>p{}</style><meta name=a><link rel=b><p>x", "x"),
        ('<a href="https://a.test/">link</a>', "[link](https://a.test/)"),
        ("", ""),
        ("<p>unclosed <b>bold", "unclosed **bold**"),
        ("<b>one<p>two</b> three", "**one**\n\n**two** three"),
        ("a<b> b </b>c <i></i><b><strong>d</strong></b>", "a **b** c **d**"),
        ("<b><i>both</b> rest", "***both*** rest"),
        ("<del>old</del> <code>a`b</code> <code>`</code>", "~~old~~ ``a`b`` `` ` ``"),
        ("<code><b>x</b><a href=/y>y</a></code>", "`xy`"),
        ("a <br> b<br><br>c", "a  \nb  \n\nc"),
        ("<h2>two<br>lines</h2>text", "## two lines\n\ntext"),
        ("<title>t</title><template>u</template><svg><text>v</text></svg>w", "w"),
        ("one<my-card>two</my-card><my-card>three</my-card>", "one two three"),
        ("&lt;b&gt; &amp; &#233;", "<b> & é"),
    ],
)
def test_markdown_keeps_headings_rules_fences_and_emphasis(page: str, expected: str) -> None:
    """TOL-260: headings, rules, fences, emphasis; what is not content is gone."""
    assert to_markdown(page) == expected


def test_bullets_are_dashes_at_every_level() -> None:
    """TOL-260: at every level."""
    lines = to_markdown("<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>").splitlines()
    assert [line.strip() for line in lines if line.strip()] == ["- a", "- b", "- c"]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<ol start=9><li>a<li>b<p>c</p></ol>d", "9. a\n10. b\n\n    c\n\nd"),
        ("<ul><li>a<ol><li>b</ol>c</ul>", "- a\n  1. b\n\n  c"),
        ("<ul><li><ul><li>x</ul></ul>", "- - x"),
        ("<ol start=x><li value=7>a</ol><li>loose", "1. a\n- loose"),
        ("<blockquote>a<p>b<ul><li>c</ul></blockquote>d", "> a\n>\n> b\n>\n> - c\n\nd"),
        ("<li>a<pre>x\n\n  y</pre></li>", "- a\n\n  ```\n  x\n\n    y\n  ```"),
        ("</li></ul></blockquote>text", "text"),
    ],
)
def test_lists_and_quotes_in_markdown(page: str, expected: str) -> None:
    """TOL-260: each block stands behind the markers of what is open around it."""
    assert to_markdown(page) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<pre><code class="hljs language-py">x</code></pre>', "```py\nx\n```"),
        ("<pre>\n```\n</pre>", "````\n```\n````"),
        ("<pre><div>a</div><div>b<span>c</span></div>d<br>e</pre>", "```\na\nbc\nd\ne\n```"),
        ("<pre> </pre><pre>never ended <b>x</b>", "```\nnever ended x\n```"),
    ],
)
def test_code_becomes_a_fence_that_the_code_cannot_end(page: str, expected: str) -> None:
    """TOL-260: a fence that the code cannot end, with its language."""
    assert to_markdown(page) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<table><tr><th>A<th>B<tr><td>1<td>2|3</table>x", "| A | B |\n| --- | --- |\n| 1 | 2\\|3 |\n\nx"),
        ("<table><tr><td>a<tr><td>1<br>2<td><p>3<p>4</table>", "| a |  |\n| --- | --- |\n| 1 2 | 3 4 |"),
        ("<table><tr><td><tr><td></table>x", "x"),
        ("<table><tr><td>one<tr><td>column</table>", "one\n\ncolumn"),
        ("<table><tr><td><h2>laid</h2>out<td>by table</table>", "## laid\n\nout\n\nby table"),
        ("<table><tr><td><table><tr><td>a<td>b</table><td>c</table>", "| a | b |\n| --- | --- |\n\nc"),
        ("<td>loose</td></table>cell", "loose\n\ncell"),
        ("<li>x<table><tr><td>a<td>b</table>", "- x\n\n  | a | b |\n  | --- | --- |"),
    ],
)
def test_a_table_of_plain_cells_becomes_a_markdown_table(page: str, expected: str) -> None:
    """TOL-260: a table of plain cells is one; a table that lays a page out is its contents."""
    assert to_markdown(page) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<a href='/a b(c)'>x</a>", "[x](</a%20b(c)>)"),
        ("<a href=/x><div>block <i>text</i></div><p>more</a>", "[block *text*](/x)\n\nmore"),
        ("<a href=/x>a<a href=/y>b</a>", "[a](/x)[b](/y)"),
        ("<a href='javascript:x()'>a</a> <a name=b>b</a> <a href=c></a>", "a b"),
        ("<a href=/x><img src=a.png alt='two\nwords'></a>", "[![two words](a.png)](/x)"),
        ("<img src='data:image/png;base64,AAAA' alt=pixel><img>", "pixel"),
    ],
)
def test_links_and_images_in_markdown(page: str, expected: str) -> None:
    """TOL-260: addresses as they stand, without those that are programs or contents."""
    assert to_markdown(page) == expected


@pytest.mark.parametrize("text", ["# a", "- a", "+ a", "* a", "> a", "1. a", "2) a", "---", "===", "~~~", "```"])
def test_text_that_looks_like_structure_is_escaped(text: str) -> None:
    """TOL-260: only at the start of a line."""
    assert to_markdown(f"<p>{text}</p>").replace("\\", "") == text
    assert "\\" in to_markdown(f"<p>{text}</p>")
    assert to_markdown(f"<p>x {text} <b>#b</b> 1.5 -x #tag</p>") == f"x {text} **#b** 1.5 -x #tag"


def test_deep_lists_and_tables_are_written_at_a_fixed_depth() -> None:
    """TOL-264: markers and copies of cells do not grow with the nesting of the page."""
    assert to_markdown("<ul><li>" * PREFIX_DEPTH + "x") == "- " * PREFIX_DEPTH + "x"
    assert to_markdown("<ul><li>" * (PREFIX_DEPTH + 1) + "x") == "- " * PREFIX_DEPTH + "x"
    row = "<table><tr><td>a<td>"
    assert to_markdown(row * TABLE_DEPTH + "x").count("| a | x |") == 1
    assert to_markdown(row * (TABLE_DEPTH + 1) + "x</table>y").endswith("| a | a x y |\n| --- | --- |")


@pytest.mark.parametrize(
    "page",
    [
        "<b>" * 5_000 + "</i>" * 5_000,
        "<blockquote>" * 5_000 + "<li></li>" * 5_000,
        "<ul>" * 5_000 + "</ol>" * 5_000,
        "<table><tr><td>" * 5_000,
        "<ol><li>x" * 5_000,
        "<a href=x><p>y" * 5_000,
    ],
)
def test_the_work_is_linear_in_the_page(page: str) -> None:
    """TOL-264: four times the page costs four times the processor time, not sixteen."""
    quarter, whole = (min(_processor_seconds(part) for _ in range(3)) for part in (page[: len(page) // 4], page))
    assert whole < 10 * quarter


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<h1>Hello</h1><p>world</p>", "Hello\nworld"),
        ("<p>one <b>two</b>\n  three</p>", "one two three"),
        ("a<script>x</script><style>y</style><noscript>z</noscript><iframe>i</iframe><object>o</object>b", "a\nb"),
        ("a <embed src=x> b", "a b"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<ul><li>1<li>2</ul>", "1\n2"),
        ("<table><tr><td>1<td>2<tr><td>3</table>", "1\n2\n3"),
        ("<pre>x\n    y</pre>", "x\n    y"),
        ("&lt;b&gt; &amp; &#233;", "<b> & é"),
        ("  <p>  </p> ", ""),
        ("</script></noscript>text", "text"),
    ],
)
def test_text_keeps_text_nodes_with_blocks_on_lines_of_their_own(page: str, expected: str) -> None:
    """TOL-260, TOL-265: text nodes only, blocks apart by newlines."""
    assert to_text(page) == expected


async def test_the_worker_gives_the_same() -> None:
    """TOL-264: the conversion happens in a process of its own, whatever characters there are."""
    assert await convert("<h1>Ça va 日本</h1>", "markdown") == "# Ça va 日本"
    assert await convert("<h1>lone \ud800</h1>", "text") == "lone ?"


async def test_ten_thousand_nested_elements_are_only_text() -> None:
    """TOL-261, TOL-264: no recursion, so no crash."""
    page = "<div>" * 10_000 + "deep" + "</div>" * 10_000
    assert await convert(page, "text") == await convert(page, "markdown") == "deep"


async def test_a_page_that_costs_too_much_is_given_up() -> None:
    """TOL-264: the limit is on the processor time of the worker."""
    with pytest.raises(FetchFailed, match="too complex"):
        await convert(COSTLY, "markdown", cpu_seconds=1)


async def test_a_page_that_grows_too_much_is_given_up() -> None:
    """TOL-264: what a converter writes is bounded, also where indentation makes it larger than the page."""
    page = "<ul><li>" * PREFIX_DEPTH + "<p>x" * (OUTPUT_BYTES // (2 * PREFIX_DEPTH))
    assert len(page) < OUTPUT_BYTES / 10
    with pytest.raises(FetchFailed, match="too complex"):
        await convert(page, "markdown")


async def test_a_cancelled_conversion_leaves_no_process() -> None:
    """TOL-264: the worker ends with its call."""
    before = _children()
    task = asyncio.create_task(convert(COSTLY, "markdown"))
    while not (children := _children() - before):  # noqa: ASYNC110 - a process is not an event
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(Path(f"/proc/{child}").exists() for child in children)


async def test_the_project_cannot_bring_its_own_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-264: the worker imports nothing from the directory it happens to run in."""
    for name in ("html", "holdfast", "re"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken over')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert await convert("<p>x", "markdown") == "x"


def _processor_seconds(page: str) -> float:
    started = time.process_time()
    to_markdown(page)
    return time.process_time() - started


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
