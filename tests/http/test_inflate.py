"""Compressed bodies: read as they arrive, never beyond the ratio."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.http.errors import InflationLimit, UndecodableBody, UnsupportedEncoding
from holdfast.http.inflate import PIECE, inflater

ENCODED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: gzip.compress(body, mtime=0),
    "x-gzip": lambda body: gzip.compress(body, mtime=0),
    "deflate": lambda body: zlib.compress(body),
}


def inflate(encoding: str, data: bytes, step: int = 7, ratio: int = 200, floor: int = 1000) -> bytes:
    found = inflater(encoding, ratio=ratio, floor=floor)
    assert found is not None
    parts = [data[at : at + step] for at in range(0, len(data), step)]
    return b"".join(piece for part in (*parts, b"") for piece in found.pieces(part))


@given(st.sampled_from(sorted(ENCODED)), st.binary(max_size=500), st.integers(1, 50))
def test_a_body_is_what_was_compressed(encoding: str, body: bytes, step: int) -> None:
    assert inflate(encoding.upper(), ENCODED[encoding](body), step) == body


def test_deflate_without_its_header_is_read() -> None:
    assert inflate("deflate", zlib.compress(b"hello" * 20)[2:-4]) == b"hello" * 20


@given(st.binary(min_size=1, max_size=60), st.sampled_from(sorted(ENCODED)))
def test_anything_else_is_a_typed_error(data: bytes, encoding: str) -> None:
    try:
        inflate(encoding, data)
    except UndecodableBody:
        return


@pytest.mark.parametrize("encoding", sorted(ENCODED))
def test_a_body_that_is_cut_is_not_taken_for_a_whole_one(encoding: str) -> None:
    with pytest.raises(UndecodableBody, match="not whole"):
        inflate(encoding, ENCODED[encoding](b"hello" * 50)[:-3])


def test_a_bomb_stops_at_the_ratio_and_is_never_held_whole() -> None:
    found = inflater("gzip", ratio=100, floor=1000)
    assert found is not None
    largest = 0
    with pytest.raises(InflationLimit):  # noqa: PT012 - some pieces come before it
        for piece in found.pieces(gzip.compress(b"\0" * 50_000_000)):
            largest = max(largest, len(piece))
    assert largest <= PIECE


def test_other_encodings_are_refused() -> None:
    assert inflater(" Identity ", ratio=1, floor=0) is None
    for encoding in ("br", "gzip, gzip"):
        with pytest.raises(UnsupportedEncoding):
            inflater(encoding, ratio=1, floor=0)
