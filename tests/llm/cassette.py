"""Recorded traffic instead of a provider, and the recording of it.

A cassette is a JSON file with the exchanges of a run in order. The N-th request is answered by the N-th of them, if it
is the same request; anything else is a CassetteError that says what differs. What is stored has no credentials: headers
from a short list only, and every secret that was sent taken out of addresses and bodies."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import msgspec

from holdfast.llm.errors import REDACTED, redact_url, sent_secrets
from holdfast.schema.codec import decode_any, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from holdfast.llm.route.transport import HttpRequest, HttpResponse, Transport

VERSION = 1
REQUEST_HEADERS = ("accept", "anthropic-version", "content-type", "openai-beta")
RESPONSE_HEADERS = ("content-type",)
SHOWN_DIFFERENCES = 5
SHOWN_CHARACTERS = 120
SHORTEST_SECRET = 4


class CassetteError(Exception):
    """The recording and the run do not fit. A defect of the test or of the code under it, never of a provider."""


class _Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class StoredRequest(_Stored, frozen=True):
    method: str
    url: str
    headers: dict[str, str]
    body: str


class StoredResponse(_Stored, frozen=True):
    status: int
    headers: dict[str, str]
    body: str
    body_encoding: Literal["text", "base64"] | None = None

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.body) if self.body_encoding == "base64" else self.body.encode()


class HttpInteraction(_Stored, frozen=True, tag_field="transport", tag="http"):
    request: StoredRequest
    response: StoredResponse


class SocketOpening(_Stored, frozen=True):
    url: str
    headers: dict[str, str]


class SocketFrame(_Stored, frozen=True):
    direction: Literal["client", "server"]
    kind: Literal["text", "binary"]
    body: str
    body_encoding: Literal["text", "base64"] | None = None

    @property
    def data(self) -> str | bytes:
        return self.body if self.kind == "text" else base64.b64decode(self.body)


class SocketInteraction(_Stored, frozen=True, tag_field="transport", tag="websocket"):
    open: SocketOpening
    events: tuple[SocketFrame, ...]


Interaction = HttpInteraction | SocketInteraction


class Cassette(_Stored, frozen=True):
    version: int
    metadata: dict[str, Any]
    interactions: tuple[Interaction, ...]

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", "without a name"))


def load(path: Path) -> Cassette:
    try:
        cassette = msgspec.json.decode(path.read_bytes(), type=Cassette)
    except (OSError, msgspec.DecodeError) as error:
        raise CassetteError(f"{path} is not a cassette: {error}") from error
    if cassette.version != VERSION:
        raise CassetteError(f"{path} has version {cassette.version}; this reads version {VERSION}")
    return cassette


def save(path: Path, cassette: Cassette) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(msgspec.json.format(encode(cassette), indent=2) + b"\n")
    beside.replace(path)


# -- replay ------------------------------------------------------------------------------------------------------


class CassetteTransport:
    """Answers from a cassette. `chunk` cuts bodies into pieces of that many bytes: how they arrived is not recorded."""

    def __init__(self, cassette: Cassette, *, chunk: int | None = None) -> None:
        self._cassette = cassette
        self._chunk = chunk
        self._next = 0
        self._failed = False
        self._sockets: list[SocketReplay] = []

    async def send(self, request: HttpRequest) -> CassetteResponse:
        interaction = self._take(f"POST {redact_url(request.url)}")
        if not isinstance(interaction, HttpInteraction):
            raise self._error("the recording has a WebSocket here, the run sent an HTTP request")
        recorded = interaction.request
        found = [
            *_field("method", recorded.method, "POST"),
            *_opening(recorded.url, recorded.headers, request.url, request.headers),
            *_bodies(recorded.body, b"".join(request.body)),
        ]
        if found:
            raise self._error(_told(found))
        return CassetteResponse(interaction.response, self._chunk)

    def socket(self, url: str, headers: Mapping[str, str]) -> SocketReplay:
        interaction = self._take(f"a WebSocket to {redact_url(url)}")
        if not isinstance(interaction, SocketInteraction):
            raise self._error("the recording has an HTTP request here, the run opened a WebSocket")
        if found := list(_opening(interaction.open.url, interaction.open.headers, url, headers)):
            raise self._error(_told(found))
        socket = SocketReplay(interaction, self._error)
        self._sockets.append(socket)
        return socket

    async def close(self) -> None:
        """Fails when something recorded was not used, unless the run has failed already."""
        if self._failed:
            return
        for socket in self._sockets:
            await socket.close()
        if left := len(self._cassette.interactions) - self._next:
            raise self._error(f"the run ended with {left} recorded exchanges unused")

    def _take(self, what: str) -> Interaction:
        if self._next >= len(self._cassette.interactions):
            self._next += 1
            raise self._error(f"nothing more is recorded, but the run went on with {what}")
        interaction = self._cassette.interactions[self._next]
        self._next += 1
        return interaction

    def _error(self, message: str) -> CassetteError:
        self._failed = True
        place = f"exchange {self._next} of {len(self._cassette.interactions)}"
        return CassetteError(f"cassette {self._cassette.name}, {place}: {message}")


class CassetteResponse:
    def __init__(self, stored: StoredResponse, chunk: int | None) -> None:
        self.status = stored.status
        self.headers = {name.lower(): value for name, value in stored.headers.items()}
        self._data = stored.data
        self._chunk = chunk or max(1, len(self._data))

    async def chunks(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._data), self._chunk):
            yield self._data[start : start + self._chunk]

    def release(self) -> None:
        pass

    async def close(self) -> None:
        pass


class SocketReplay:
    """The provider's side of a recorded WebSocket: speaks until the run has to, then waits for it."""

    def __init__(self, interaction: SocketInteraction, error: Callable[[str], CassetteError]) -> None:
        self._events = interaction.events
        self._error = error
        self._next = 0
        self._moved = asyncio.Event()

    async def send(self, frame: str | bytes) -> None:
        if self._next >= len(self._events):
            raise self._error("nothing more is recorded on this WebSocket, but the run sent a frame")
        expected = self._events[self._next]
        if expected.direction == "server":
            raise self._error("the run sent a frame before it had read what the provider said")
        kind = "text" if isinstance(frame, str) else "binary"
        found = [*_field("kind", expected.kind, kind)]
        if not found:
            found = list(_bodies(expected.data, frame))
        if found:
            raise self._error(_told(found, f"frame {self._next + 1}: "))
        self._advance()

    async def receive(self) -> str | bytes | None:
        """The next frame; None at the end of the recording. Waits while it is the run's turn to speak."""
        while self._next < len(self._events) and self._events[self._next].direction == "client":
            self._moved.clear()
            await self._moved.wait()
        if self._next >= len(self._events):
            return None
        frame = self._events[self._next].data
        self._advance()
        return frame

    async def close(self) -> None:
        if left := len(self._events) - self._next:
            raise self._error(f"the WebSocket was closed with {left} recorded frames unused")

    def _advance(self) -> None:
        self._next += 1
        self._moved.set()


def _opening(url: str, headers: Mapping[str, str], sent_url: str, sent: Mapping[str, str]) -> Iterator[str]:
    yield from _field("url", redact_url(url), redact_url(sent_url))
    given = {name.lower(): value for name, value in sent.items()}
    for name, value in headers.items():
        yield from _field(f"header {name}", value, given.get(name.lower()))


def _bodies(recorded: str | bytes, sent: str | bytes) -> Iterator[str]:
    """As JSON: the order of keys does not matter, the order of items does, and strings are compared exactly."""
    try:
        expected = decode_any(recorded)
    except (msgspec.DecodeError, UnicodeDecodeError):
        yield from _field("body", _text(recorded), _text(sent))
        return
    try:
        given = decode_any(sent)
    except (msgspec.DecodeError, UnicodeDecodeError):
        yield f"body: recorded JSON, sent {_shown(_text(sent))}"
        return
    yield from differences(expected, given, "body")


def differences(recorded: Any, sent: Any, path: str) -> Iterator[str]:
    """Where two JSON values differ, by path."""
    if isinstance(recorded, dict) and isinstance(sent, dict):
        for key in recorded | sent:
            below = f"{path}.{key}"
            if key not in sent:
                yield f"{below}: recorded {_shown(recorded[key])}, not sent"
            elif key not in recorded:
                yield f"{below}: not recorded, sent {_shown(sent[key])}"
            else:
                yield from differences(recorded[key], sent[key], below)
    elif isinstance(recorded, list) and isinstance(sent, list):
        if len(recorded) != len(sent):
            yield f"{path}: recorded {len(recorded)} items, sent {len(sent)}"
        for index, (one, other) in enumerate(zip(recorded, sent, strict=False)):
            yield from differences(one, other, f"{path}[{index}]")
    elif isinstance(recorded, bool) is not isinstance(sent, bool) or recorded != sent:
        yield f"{path}: recorded {_shown(recorded)}, sent {_shown(sent)}"


def _field(name: str, recorded: str | None, sent: str | None) -> Iterator[str]:
    if recorded != sent:
        yield f"{name}: recorded {_shown(recorded)}, sent {_shown(sent)}"


def _told(found: Sequence[str], prefix: str = "") -> str:
    more = len(found) - SHOWN_DIFFERENCES
    shown = [*found[:SHOWN_DIFFERENCES], *([f"and {more} more"] if more > 0 else [])]
    return f"{prefix}the request is not the recorded one\n  " + "\n  ".join(shown)


def _shown(value: Any) -> str:
    text = encode(value).decode()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def _text(body: str | bytes) -> str:
    return body if isinstance(body, str) else body.decode("utf-8", "replace")


# -- recording ---------------------------------------------------------------------------------------------------


class RecordingTransport:
    """Passes everything on to another transport and keeps it for a cassette, which is written on close.

    `secrets` are taken out wherever they appear, as are the values of credential headers; `replace` gives other words
    for what should not be kept, such as an account's id."""

    def __init__(
        self,
        inner: Transport,
        path: Path,
        metadata: Mapping[str, Any],
        *,
        secrets: Sequence[str] = (),
        replace: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._inner = inner
        self._path = path
        self._metadata = metadata
        self._secrets = set(secrets)
        self._replace = replace or {}
        self._now = now
        self._takes: list[_Take] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self._secrets |= sent_secrets(request.url, request.headers)
        take = _Take(request)
        self._takes.append(take)
        try:
            response = await self._inner.send(request)
        except BaseException:
            self._takes.remove(take)  # there was no answer to keep
            raise
        take.status, take.headers = response.status, dict(response.headers)
        return _Tee(response, take.pieces)

    async def close(self) -> None:
        await self._inner.close()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._now()))
        interactions = tuple(self._interaction(take) for take in self._takes)
        cassette = Cassette(
            version=VERSION, metadata={**self._metadata, "recordedAt": stamp}, interactions=interactions
        )
        self._check(encode(cassette).decode())
        save(self._path, cassette)

    def _interaction(self, take: _Take) -> HttpInteraction:
        request, data = take.request, b"".join(take.pieces)
        headers = {name.lower(): self._clean(value) for name, value in request.headers.items()}
        try:
            body, is_text = self._clean(data.decode()), True
        except UnicodeDecodeError:
            self._check(data.decode("latin-1"))  # a word cannot be taken out of frames with checksums
            body, is_text = base64.b64encode(data).decode(), False
        return HttpInteraction(
            request=StoredRequest(
                method="POST",
                url=self._clean(redact_url(request.url)),
                headers={name: headers[name] for name in REQUEST_HEADERS if name in headers},
                body=self._clean(b"".join(request.body).decode()),
            ),
            response=StoredResponse(
                status=take.status,
                headers={name: take.headers[name] for name in RESPONSE_HEADERS if name in take.headers},
                body=body,
                body_encoding=None if is_text else "base64",
            ),
        )

    def _clean(self, text: str) -> str:
        for secret in sorted(self._secrets, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, REDACTED).replace(quote(secret, safe=""), REDACTED)
        for word, other in self._replace.items():
            text = text.replace(word, other)
        return text

    def _check(self, text: str) -> None:
        if any(len(secret) >= SHORTEST_SECRET and secret in text for secret in self._secrets):
            raise CassetteError(f"{self._path} was not written: a secret would be in it")


class _Take:
    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []


class _Tee:
    """A response whose bytes are kept as they are read."""

    def __init__(self, response: HttpResponse, pieces: list[bytes]) -> None:
        self._response = response
        self._pieces = pieces
        self.status = response.status
        self.headers = response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        async with aclosing(self._response.chunks()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                self._pieces.append(chunk)
                yield chunk

    def release(self) -> None:
        self._response.release()

    async def close(self) -> None:
        await self._response.close()
