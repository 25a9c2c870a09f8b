"""Pages as Markdown and text, and pages that mean harm."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.core.web.errors import FetchFailed
from holdfast.core.web.html import OUTPUT_BYTES, convert
from holdfast.core.web.html_worker import to_markdown, to_text

pytestmark = pytest.mark.anyio


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
        ("<p>unclosed <b>bold", "unclosed **bold"),
    ],
)
def test_markdown(page: str, expected: str) -> None:
    """TOL-260: headings, rules, fences, emphasis; what is not content is gone."""
    assert to_markdown(page) == expected


def test_bullets_are_dashes() -> None:
    """TOL-260: at every level."""
    lines = to_markdown("<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>").splitlines()
    assert [line.strip() for line in lines if line.strip()] == ["- a", "- b", "- c"]


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
def test_text(page: str, expected: str) -> None:
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
        await convert("<!--" * 200_000, "markdown", cpu_seconds=1)


async def test_a_page_that_grows_too_much_is_given_up() -> None:
    """TOL-264: 24 KB of nested lists would be megabytes of indentation."""
    assert OUTPUT_BYTES < 9_000_000
    with pytest.raises(FetchFailed, match="too complex"):
        await convert("<ul><li>" * 3000 + "x", "markdown")


async def test_a_cancelled_conversion_leaves_no_process() -> None:
    """TOL-264: the worker ends with its call."""
    task = asyncio.create_task(convert("<!--" * 200_000, "markdown"))
    while not (children := _children()):  # noqa: ASYNC110 - a process is not an event
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(Path(f"/proc/{child}").exists() for child in children)


async def test_the_project_cannot_bring_its_own_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-264: the worker imports nothing from the directory it happens to run in."""
    (tmp_path / "html2text.py").write_text("raise SystemExit('taken over')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert await convert("<p>x", "markdown") == "x"


def _children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
