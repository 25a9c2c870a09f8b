"""The response parser against anything a server may send: it ends, it is bounded, and its errors are typed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.http.errors import (
    HEAD_LIMIT,
    HeadTooLarge,
    HttpError,
    MalformedResponse,
    NoResponse,
    ResponseTruncated,
)
from holdfast.http.parser import ResponseParser

CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


def parse(*pieces: bytes, end: bool = False) -> tuple[ResponseParser, bytes]:
    parser, body = ResponseParser(), b""
    for piece in pieces:
        parser.feed(piece)
        body += parser.take()
    if end:
        parser.end()
    return parser, body


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:stop] for start, stop in pairwise(places)]


# -- what is well formed -------------------------------------------------------------------------------------------

NAMES = st.from_regex(rb"x-[a-z0-9]{1,8}", fullmatch=True)
VALUES = st.from_regex(rb"[!-~]([ -~]{0,20}[!-~])?", fullmatch=True)
TOKENS = st.from_regex(rb"(;[a-z]{1,5}=[a-z0-9]{1,5})?", fullmatch=True)


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, int, dict[str, str], bytes]:
    status = draw(st.sampled_from([200, 201, 302, 404, 500, 599]))
    headers = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    bodies = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=5))
    head = b"HTTP/1.1 %d Some reason\r\n" % status + b"".join(b"%s: %s\r\n" % field for field in headers.items())
    if draw(st.booleans()):
        chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(body), draw(TOKENS), body) for body in bodies)
        trailers = b"".join(b"%s: %s\r\n" % field for field in draw(st.dictionaries(NAMES, VALUES, max_size=2)).items())
        data = head + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailers + b"\r\n"
    else:
        data = head + b"content-length: %d\r\n\r\n" % sum(map(len, bodies)) + b"".join(bodies)
    if draw(st.booleans()):
        data = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + data
    expected = {name.decode(): value.decode() for name, value in headers.items()}
    return data, status, expected, b"".join(bodies)


@given(responses(), st.lists(st.integers(min_value=0), max_size=8))
def test_how_bytes_are_split_does_not_matter(
    response: tuple[bytes, int, dict[str, str], bytes], cuts: list[int]
) -> None:
    data, status, headers, body = response
    parser, found = parse(*pieces(data, cuts))
    framing = {"content-length", "transfer-encoding"}
    kept = {name: value for name, value in parser.headers.items() if name not in framing}
    assert (parser.complete, parser.reusable, parser.status) == (True, True, status)
    assert (kept, found) == (headers, body)


@given(responses(), st.integers(min_value=0))
def test_a_premature_end_is_an_error(response: tuple[bytes, int, dict[str, str], bytes], cut: int) -> None:
    data = response[0]
    data = data[: cut % len(data)]
    with pytest.raises(ResponseTruncated if data else NoResponse):
        parse(*([data] if data else []), end=True)


def test_of_a_repeated_header_the_last_one_counts_but_every_challenge_does() -> None:
    """MCP-101: a server may offer several ways to authenticate, each in a header of its own."""
    fields = b"WWW-Authenticate: Basic\r\nwww-authenticate: Bearer scope=a\r\nx: 1\r\nX: 2\r\ncontent-length: 0\r\n"
    parser, _ = parse(b"HTTP/1.1 401 No\r\n" + fields + b"\r\n")
    assert (parser.headers["www-authenticate"], parser.headers["x"]) == ("Basic, Bearer scope=a", "2")


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    parser, body = parse(b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo", end=True)
    assert (body, parser.complete, parser.reusable) == (b"hello", True, False)


@pytest.mark.parametrize(
    "data",
    [
        SIZED + b"more",
        SIZED + SIZED,
        SIZED.replace(b"HTTP/1.1", b"HTTP/1.0"),
        SIZED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
    ],
)
def test_a_connection_that_is_out_of_step_or_ends_is_not_reused(data: bytes) -> None:
    parser, body = parse(data)
    assert (body, parser.complete, parser.reusable) == (b"hello", True, False)


# -- what is not ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"this is not http\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/9.9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        CHUNKED + b"nonsense\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"ffffffffffffffffff\r\n",
        CHUNKED + b"5\r\nhello too much\r\n",
    ],
)
def test_what_is_not_http_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedResponse):
        parse(data)


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"HTTP/1.1 200 ",
        b"HTTP/1.1 200 OK\r\nx: ",
        CHUNKED + b"5;",
        CHUNKED + b"5\r\nhello\r\n0\r\nx: ",
    ],
    ids=["status", "reason", "header", "chunk extension", "trailer"],
)
@pytest.mark.parametrize("size", [100, 4096, 65_536])
def test_what_is_held_beside_the_body_is_bounded(start: bytes, size: int) -> None:
    """A line without an end is refused, however it arrives."""
    parser = ResponseParser()
    fed = len(start)
    with pytest.raises((HeadTooLarge, MalformedResponse)):  # noqa: PT012 - which feed exceeds the limit depends on size
        if start:
            parser.feed(start)
        while True:
            parser.feed(b"a" * size)
            fed += size
            assert fed <= len(start) + HEAD_LIMIT + size


@pytest.mark.parametrize(
    ("start", "line"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"x-%d: y\r\n"),
        (CHUNKED + b"0\r\n", b"x-%d: y\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\nx-%d: y\r\n\r\n"),
    ],
    ids=["headers", "trailers", "interim responses"],
)
def test_lines_without_an_end_are_bounded(start: bytes, line: bytes) -> None:
    parser = ResponseParser()
    if start:
        parser.feed(start)
    with pytest.raises(HeadTooLarge):  # noqa: PT012 - after some lines
        for number in range(HEAD_LIMIT):
            parser.feed(line % number)


SEEDS = st.sampled_from([SIZED, CHUNKED + b"5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nhello"])
CHANGES = st.lists(st.tuples(st.integers(min_value=0), st.integers(0, 8), st.binary(max_size=12)), max_size=4)


@settings(max_examples=400)
@given(SEEDS, CHANGES, st.lists(st.integers(min_value=0), max_size=6))
def test_any_bytes_end_a_response_with_typed_errors_only(
    seed: bytes, changes: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    """After the end of the connection the response is complete, or there was an HttpError; never anything else."""
    data = seed
    for place, removed, added in changes:
        at = place % (len(data) + 1)
        data = data[:at] + added + data[at + removed :]
    parser, body = ResponseParser(), b""
    try:
        for piece in pieces(data, cuts):
            parser.feed(piece)
            body += parser.take()
        parser.end()
    except HttpError:
        assert not parser.complete
    else:
        assert parser.complete
        assert parser.status >= 200
    assert len(body) <= len(data)
