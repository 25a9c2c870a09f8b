"""Mentions of resources of MCP servers in the text of a prompt."""

from __future__ import annotations

import pytest

from holdfast.core.prompt.mention import parse

SERVERS = frozenset({"docs", "my server", "a.b"})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @docs:note://one.", [("docs", "note://one", "@docs:note://one")]),
        ("(@docs:note://a(1))", [("docs", "note://a(1)", "@docs:note://a(1)")]),
        ("@docs:note://x?a=1&b=2#L3, then", [("docs", "note://x?a=1&b=2#L3", "@docs:note://x?a=1&b=2#L3")]),
        ("@docs:mail:a@b:@docs", [("docs", "mail:a@b:@docs", "@docs:mail:a@b:@docs")]),
        ('@"my server:note://a b"!', [("my server", "note://a b", '@"my server:note://a b"')]),
        ("@a.b:x:y", [("a.b", "x:y", "@a.b:x:y")]),
        ("@docs:note://one@docs:note://two", [("docs", "note://one@docs:note://two", None)]),
        ("@docs: hello", [(None, "docs", "@docs")]),
        ("@docs:hello", [(None, "docs", "@docs")]),
        ("@other:note://one", [(None, "other", "@other")]),
        ("x@docs:note://one", []),
        ("`@docs:note://one`", []),
        (r"\@docs:note://one", []),
    ],
)
def test_a_server_and_an_address_with_a_scheme(text: str, found: list[tuple[str | None, str, str | None]]) -> None:
    """MCP-290"""
    mentions = list(parse(text, SERVERS))
    assert [(mention.server, mention.path) for mention in mentions] == [(server, path) for server, path, _ in found]
    for mention, (_, _, written) in zip(mentions, found, strict=True):
        assert text[mention.source.start : mention.source.end] == mention.source.text
        assert written in (None, mention.source.text)


def test_without_servers_nothing_changes() -> None:
    assert [(mention.server, mention.path) for mention in parse("@docs:note://one @a.py")] == [
        (None, "docs"),
        (None, "a.py"),
    ]
