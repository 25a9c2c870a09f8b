"""The bytes of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.http.errors import InvalidRequest
from holdfast.http.url import Proxy, Url

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
BLOCK = 512 * 1024
"""Bytes written at once. A larger block would be copied into the transport's buffer while the loop waits."""


class Request(msgspec.Struct, frozen=True):
    """`body` is in pieces; it may be sent a second time, on a fresh connection."""

    method: str
    url: Url
    headers: Mapping[str, str]
    body: Sequence[bytes] = ()

    def head(self) -> bytes:
        """Request line and headers. Raises InvalidRequest."""
        origin, target = self.url.origin, self.url.target
        headers = {"host": origin.authority}
        if not origin.is_secure and (proxy := Proxy.of(origin)) is not None:
            target = f"http://{origin.authority}{target}"
            headers |= proxy.headers
        if self.url.credentials is not None:
            headers["authorization"] = self.url.credentials
        headers |= {name.lower(): value for name, value in self.headers.items()}
        if "transfer-encoding" in headers:
            raise InvalidRequest("a transfer-encoding header is not allowed; the length of the body is sent instead")
        headers.pop("content-length", None)
        if self.body or self.method not in ("GET", "HEAD"):
            headers["content-length"] = str(sum(map(len, self.body)))
        for name, value in headers.items():
            if not name or not TOKEN_CHARACTERS.issuperset(name) or "\r" in value or "\n" in value or "\0" in value:
                raise InvalidRequest("a header has characters that are not allowed")
        lines = (f"{self.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", "")
        return "\r\n".join(lines).encode()


def blocks(head: bytes, body: Sequence[bytes]) -> Iterator[bytes]:
    """Head and body in blocks of about BLOCK bytes."""
    if sum(map(len, body)) <= BLOCK:
        yield b"".join((head, *body))
        return
    block, size = [head], len(head)
    for piece in body:
        for start in range(0, len(piece), BLOCK):
            part = piece if len(piece) <= BLOCK else piece[start : start + BLOCK]
            if size + len(part) > BLOCK:
                yield b"".join(block)
                block, size = [], 0
            block.append(part)
            size += len(part)
    yield b"".join(block)
