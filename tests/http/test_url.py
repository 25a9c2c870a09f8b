"""URLs that are taken apart, and those that are refused."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.http.errors import InvalidRequest
from holdfast.http.request import BLOCK, Request, blocks
from holdfast.http.url import Origin, parse, proxy_of


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "ftp://h/",
        "http://h:99999/",
        "http://h/a b",
        "http://h/ä",
        "http://a|b/",
        "http://a%2fb/",
        "http://[::1]x/",
        "http://[::1",
        "http://straße.example/",
    ],
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        parse(url, use_proxy=False)


def test_a_name_that_browsers_encode_otherwise_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidRequest, match="xn-- form"):
        parse("http://straße.example/", use_proxy=False)
    assert parse("http://xn--strae-oqa.example/", use_proxy=False).origin.host == "xn--strae-oqa.example"


@given(st.text(alphabet="htp:/@[]?#.%a1é \\\r\n", max_size=20))
def test_a_url_is_parsed_or_refused_and_nothing_of_it_leaves_its_place(text: str) -> None:
    try:
        url = parse(f"http://{text}", use_proxy=False)
    except ValueError:
        return
    head = Request("GET", url, {}).head()
    assert head.count(b"\r\n") == 2 + ("@" in urlsplit(f"http://{text}").netloc) + 1
    assert head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"a": "b\0"}, {"transfer-encoding": "chunked"}])
def test_a_header_that_cannot_be_sent_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        Request("GET", parse("http://h/", use_proxy=False), headers).head()


def test_the_length_of_a_body_is_counted_and_not_believed() -> None:
    url = parse("http://h/", use_proxy=False)
    assert b"content-length: 3\r\n" in Request("POST", url, {"Content-Length": "99"}, (b"ab", b"c")).head()
    assert b"content-length: 0\r\n" in Request("DELETE", url, {}).head()
    assert b"content-length" not in Request("GET", url, {}).head()


@given(st.lists(st.integers(0, 3 * BLOCK), max_size=4))
def test_blocks_hold_the_whole_request_and_none_is_large(sizes: list[int]) -> None:
    body = [bytes(size) for size in sizes]
    sent = list(blocks(b"head", body))
    assert b"".join(sent) == b"head" + b"".join(body)
    assert max(map(len, sent)) <= BLOCK + 4


def test_origins_are_equal_when_connections_are_interchangeable() -> None:
    plain, local = (parse("http://H:80/a", use_proxy=False, socket=path).origin for path in (None, "/run/x"))
    assert plain == Origin("http", "h", 80) != local
    assert len({plain, local, Origin("http", "h", 80)}) == 2


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        ("http://h/v1/x%3Ay?b=%20&a", Origin("http", "h", 80), "/v1/x%3Ay?b=%20&a"),
        ("HTTPS://Api.Example.com:8443", Origin("https", "api.example.com", 8443), "/"),
        ("http://[::1]:99/a#fragment", Origin("http", "::1", 99), "/a"),
        ("https://bücher.example/", Origin("https", "xn--bcher-kva.example", 443), "/"),
    ],
)
def test_an_address_is_taken_apart_and_kept_as_it_was_signed(url: str, origin: Origin, target: str) -> None:
    """LLM-360"""
    address = parse(url, use_proxy=False)
    assert (address.origin, address.target) == (origin, target)


@pytest.mark.parametrize(
    ("origin", "place", "authority"),
    [
        (Origin("http", "h", 80), "h:80", "h"),
        (Origin("https", "h", 80), "h:80", "h:80"),
        (Origin("https", "::1", 443), "[::1]:443", "[::1]"),
        (Origin("http", "::80", 8080), "[::80]:8080", "[::80]:8080"),
    ],
)
def test_the_host_header_omits_the_default_port(origin: Origin, place: str, authority: str) -> None:
    """LLM-360: for a proxy with its port, in a request without one that goes without saying."""
    assert (origin.place, origin.authority) == (place, authority)


def test_hosts_of_no_proxy_are_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://p:1")
    monkeypatch.setenv("no_proxy", "internal.example,127.0.0.1")
    assert proxy_of(Origin("http", "api.example", 80)) == "http://p:1"
    assert proxy_of(Origin("http", "host.internal.example", 80)) is None
    assert proxy_of(Origin("http", "127.0.0.1", 4096)) is None
    assert proxy_of(Origin("https", "api.example", 443)) is None
