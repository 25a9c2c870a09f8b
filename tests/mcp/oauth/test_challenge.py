"""The header in which a server asks for authorization, and the small parts: scopes and addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.mcp.oauth.challenge import HEADER_CHARACTERS, BearerChallenge, read_challenge
from holdfast.mcp.oauth.errors import UrlRefused, oauth_failure
from holdfast.mcp.oauth.scope import MOST_SCOPES, parse_scope, union
from holdfast.mcp.oauth.url import canonical, check_url, covers, origin, same_issuer

META = "https://x.example/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (f'Bearer resource_metadata="{META}"', BearerChallenge(META)),
        (f'bearer  realm="a, b" , resource_metadata = "{META}",scope="r w"', BearerChallenge(META, ("r", "w"))),
        ('Basic realm="x", Bearer scope="a"', BearerChallenge(None, ("a",))),
        ('Bearer scope="a", Basic realm="x"', BearerChallenge(None, ("a",))),
        ("Negotiate YII=, Bearer error=invalid_token", BearerChallenge(error="invalid_token")),
        (
            'Bearer error="insufficient_scope", error_description="say \\"please\\""',
            BearerChallenge(error="insufficient_scope", description='say "please"'),
        ),
        ('Bearer scope=""', BearerChallenge(None, ())),
        ('Bearer scope="a", scope="b"', BearerChallenge(None, ("a",))),
        ("Bearer", BearerChallenge()),
        ('Basic scope="a"', BearerChallenge()),
        ('DPoP scope="a"', BearerChallenge()),
        ('Bearer scope="unclosed', BearerChallenge()),
        ("", BearerChallenge()),
    ],
)
def test_the_bearer_challenge_is_read(header: str, expected: BearerChallenge) -> None:
    """MCP-101: of several challenges the Bearer one."""
    assert read_challenge({"www-authenticate": header}) == expected


@given(st.text())
def test_any_header_is_a_challenge(header: str) -> None:
    """MCP-101."""
    read_challenge({"www-authenticate": header, "other": ""})


@pytest.mark.parametrize("piece", ['a="', "a=", 'a="b', "a,", '"\\', "Bearer ", "a=b "])
def test_a_long_header_is_read_in_time_that_grows_with_its_length(piece: str) -> None:
    """MCP-106: pytest-timeout ends this test if it does not."""
    read_challenge({"www-authenticate": piece * HEADER_CHARACTERS})


def test_scopes_are_words() -> None:
    """MCP-109: others are left out, and their number is bounded."""
    assert parse_scope('a b  a "c" d\\ é ' + "x" * 201) == ("a", "b")
    assert union(("a", "b"), ("b", "c", "")) == ("a", "b", "c")
    assert len(union(str(n) for n in range(10_000))) == MOST_SCOPES


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://example.com/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://localhost.evil.example/",
        "https://",
        "https:///x",
        "//x.example",
        "x.example",
        "https://x.example:0/",
        "https://x.example:99999/",
        "https://u@x.example/",
        "https://x.example/#",
        "https://x.example/ ",
        "https://x.example\\@y",
        "https://x.example/\u202e",
        "https://é.example/",
        "https://x.example/<script>",
        "https://x.example/`id`",
        "https://[::1",
        "ht\ntps://x.example",
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    """MCP-105."""
    with pytest.raises(UrlRefused):
        check_url(url, "address")


@pytest.mark.parametrize(
    "url",
    [
        "https://x.example",
        "https://x.example:8443/a?b=c",
        "http://localhost:1/",
        "http://127.0.0.1:1/x",
        "http://[::1]:8/",
    ],
)
def test_addresses_that_are_allowed(url: str) -> None:
    """MCP-105."""
    assert check_url(url, "address") == url


def test_a_refused_address_is_shown_without_what_may_be_a_key() -> None:
    """MCP-115, MCP-121."""
    for url in ("http://x.example/secret?key=secret", "javascript:secret", "ftp://x.example/secret"):
        with pytest.raises(UrlRefused) as raised:
            check_url(url, "address")
        assert "secret" not in str(raised.value)


def test_a_server_is_identified_without_its_secrets() -> None:
    """MCP-101."""
    assert canonical("HTTPS://X.Example:443/?key=1#f") == "https://x.example"
    assert canonical("https://x.example:8443/Mcp/") == "https://x.example:8443/Mcp/"
    assert origin("http://[::1]:80/x") == "http://[::1]"
    assert covers("https://x.example/a", "https://x.example/a/b")
    assert not covers("https://x.example/a", "https://x.example/ab")
    assert not covers("https://x.example:444", "https://x.example/a")
    assert same_issuer("https://x.example", "https://x.example/")
    assert not same_issuer("https://x.example/a", "https://x.example/a/")


def test_texts_of_a_server_are_one_short_printable_line() -> None:
    """MCP-121."""
    text = oauth_failure("bad\x1b[2J", "line\none\u202e" + "x" * 1000)
    assert text.isprintable()
    assert len(text) < 400
    assert oauth_failure("", " ") == "no reason given"
