"""Finding mentions in a text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.prompt.mention import Mention, parse
from holdfast.core.session.attachment_source import LineRange


def found(text: str) -> list[str]:
    return [mention.source.text for mention in parse(text)]


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("look at @src/a.py please", ["@src/a.py"]),
        ("@README.md", ["@README.md"]),
        ("see @a.py, @b.py; @c.py: (@d.py) [@e.py] @f.py's **@g.py**", [f"@{name}.py" for name in "abcdefg"]),
        ("what is @docs/? and @docs!", ["@docs/", "@docs"]),
        ("it ends here: @src/a.py.", ["@src/a.py"]),
        ("dots @.env @../x/y @./ @~/notes.txt @/etc/hosts", ["@.env", "@../x/y", "@./", "@~/notes.txt", "@/etc/hosts"]),
        ("next.js: @app/[id]/(group)/page.tsx)", ["@app/[id]/(group)/page.tsx"]),
        ('quoted @"with space.txt" and @"b c/d"#L3-4.', ['@"with space.txt"', '@"b c/d"#L3-4']),
        ("package @node_modules/@types/node", ["@node_modules/@types/node"]),
        ("看看@src/甲.py。谢谢", ["@src/甲.py"]),
        ("two lines\n@a.py\n\n@b.py", ["@a.py", "@b.py"]),
    ],
)
def test_a_mention_ends_where_the_path_ends(text: str, mentions: list[str]) -> None:
    """SES-270: punctuation of the sentence is not part of it."""
    assert found(text) == mentions


@pytest.mark.parametrize(
    "text",
    [
        "mail bob@example.com or a.b+c@x.org, josé@example.com",
        "https://example.com/@user/post and git@github.com:a/b.git",
        "literal \\@src/a.py",
        "inline `@src/a.py` and ``a ` @b.py``",
        "over two lines `@a.py\n@b.py`",
        "```python\n@cache\ndef f(): ...\n@b.py\n```",
        "> ~~~\n> @a.py\n> ~~~",
        "an open fence\n````\n@a.py\n```\n@b.py",
        'nothing @ here, @. @.. @/ @~/ @, @@ @"" @"open',
        f"@{'x' * 5000}",
    ],
)
def test_text_that_is_not_a_mention(text: str) -> None:
    """SES-270: addresses, code, what is escaped, and an `@` that names nothing."""
    assert found(text) == []


def test_text_after_code_is_searched_again() -> None:
    """SES-270: an unpaired backtick, and one in another paragraph, begin no code."""
    assert found("`code` @a.py") == ["@a.py"]
    assert found("a ` alone\n\n@a.py `x`") == ["@a.py"]
    assert found("``` @a.py ```x``` @b.py") == ["@b.py"]
    assert found("```\ncode\n```\n@a.py") == ["@a.py"]


@pytest.mark.parametrize(
    ("text", "path", "lines"),
    [
        ("@a.py#L10", "a.py", LineRange(10, 10)),
        ("@a.py#L10-20,", "a.py", LineRange(10, 20)),
        ("@a.py#L10-L20", "a.py", LineRange(10, 20)),
        ("@a.py#L9-3", "a.py", LineRange(9, 3)),
        ("@a.py#section", "a.py#section", None),
        ("@a.py#L1234567890", "a.py#L1234567890", None),
        ('@"a b.py"#L2', "a b.py", LineRange(2, 2)),
    ],
)
def test_lines_of_a_mention(text: str, path: str, lines: LineRange | None) -> None:
    """SES-270."""
    (mention,) = parse(text)
    assert (mention.path, mention.lines) == (path, lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@src/main", True),
        ("@notes.md", True),
        ("@Makefile", False),
        ("@dataclass", False),
        ("@functools.cache", False),
        ("@app.route('/')", False),
        ("@alice@example.social", False),
        ("import '@angular/core'", False),
        ('"@types/node": "1"', False),
    ],
)
def test_only_what_looks_like_a_path_is_told_when_it_is_missing(text: str, expected: bool) -> None:
    """SES-272: a slash or a usual extension, and not a quoted name."""
    (mention,) = parse(text)
    assert mention.looks_like_path is expected


@given(st.text(alphabet='@a1./\\`~ \n"#L-(),é看', max_size=80))
def test_spans_are_those_of_the_text(text: str) -> None:
    """SES-270: in order, without overlap."""
    end = 0
    for mention in parse(text):
        assert isinstance(mention, Mention)
        assert mention.source.start >= end
        end = mention.source.end
        assert text[mention.source.start : end] == mention.source.text


@pytest.mark.parametrize("piece", ["@a ", "@", '@"', "`", "` `` ", "@a#L1", "``` @a\n", "@(", "@.", "@a/"])
def test_finding_mentions_takes_linear_time(piece: str) -> None:
    """SES-275: no text makes it slower than that; sixteen times as much may take thirty-two times as long."""

    def taken(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.process_time()
        for _ in parse(text):
            pass
        return time.process_time() - started

    def best(size: int) -> float:
        return min(taken(size) for _ in range(3))

    assert best(160_000) < 32 * max(best(10_000), 0.002)
