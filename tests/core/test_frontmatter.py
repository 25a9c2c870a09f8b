"""Markdown with a YAML head."""

from __future__ import annotations

import pytest

from holdfast.core.frontmatter import InvalidFrontmatter, Markdown, parse_markdown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("just text", Markdown({}, "just text")),
        ("---\na: 1\n---\nbody\n", Markdown({"a": 1}, "body\n")),
        ("---\r\na: 1\r\n---\r\nbody", Markdown({"a": 1}, "body")),
        ("\ufeff---\na: 1\n---\n", Markdown({"a": 1}, "")),
        ("---\n---\nbody", Markdown({}, "body")),
        ("---\na: 1\nbody without an end", Markdown({}, "---\na: 1\nbody without an end")),
        ("---\na: x\n---\none\n---\ntwo", Markdown({"a": "x"}, "one\n---\ntwo")),
        (
            "---\nd: 2024-01-02\nn: ~\n7: [a, {b: c}]\n---\n",
            Markdown({"d": "2024-01-02", "n": None, "7": ["a", {"b": "c"}]}, ""),
        ),
    ],
)
def test_frontmatter_has_plain_values_and_leaves_the_body_untouched(text: str, found: Markdown) -> None:
    """CAT-065: plain values only; the body is untouched."""
    assert parse_markdown(text) == found


@pytest.mark.parametrize(
    ("head", "value"),
    [
        ("description: Use when: always", "Use when: always"),
        ("description: a: b: c # not a comment: here", "a: b: c # not a comment: here"),
        ("description:   see https://x: y   ", "see https://x: y"),
        ('description: "quoted: fine"\nother: b: c', "quoted: fine"),
    ],
)
def test_unquoted_colons_are_let_through(head: str, value: str) -> None:
    """CAT-065: on failure, top-level values with a colon become block scalars."""
    assert parse_markdown(f"---\n{head}\n---\n").data["description"] == value


@pytest.mark.parametrize(
    "head",
    ["- a\n- b", "a: [", "a: {b", "a: 2024-13-45", "!!python/object:os.system x", "a: &x [*x]"],
)
def test_unreadable_frontmatter_is_an_error(head: str) -> None:
    """CAT-065: the file is skipped, whatever is in it."""
    with pytest.raises(InvalidFrontmatter):
        parse_markdown(f"---\n{head}\n---\n")


def test_merge_keys_are_bounded() -> None:
    """CAT-065: what they copy doubles with every line of this."""
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
    with pytest.raises(InvalidFrontmatter, match="more than"):
        parse_markdown("---\n" + "\n".join(lines) + "\n---\n")
    assert parse_markdown("---\na: &a {k: v}\nb: {<<: *a}\n---\n").data["b"] == {"k": "v"}


def test_a_short_text_that_stands_for_an_endless_value() -> None:
    """CAT-065: aliases multiply; the copy is bounded."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(InvalidFrontmatter, match="more than"):
        parse_markdown("---\n" + "\n".join(lines) + "\n---\n")
