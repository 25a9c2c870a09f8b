"""OpenAI Responses over a WebSocket: the body of the HTTP request as one text frame, its events as frames back.

A socket serves one turn at a time and stays open for the next turn of its Session. The provider keeps the last response
per socket, so a conversation that continues from it is sent without the earlier messages."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from holdfast.llm.errors import invalid_request
from holdfast.llm.event import ProviderError
from holdfast.llm.protocols.openai_responses import CLOSING, OPENING, OpenAIResponses
from holdfast.llm.request import MediaPart, TextPart
from holdfast.llm.response import Fold
from holdfast.llm.route.sockets import Place, StaleSocket, socket_address, sockets_of
from holdfast.llm.stream import Decoding
from holdfast.schema.codec import encode as to_json
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from holdfast.llm.event import Event
    from holdfast.llm.pace import Pace
    from holdfast.llm.request import Part
    from holdfast.llm.route.sockets import Socket, Sockets
    from holdfast.llm.route.transport import HttpRequest, Transport
    from holdfast.llm.stream import Prepared

NOT_IN_HANDSHAKE = ("content-type", "content-length", "accept")


async def socket_turn(
    transport: Transport, prepared: Prepared, request: HttpRequest, pace: Pace | None = None
) -> AsyncGenerator[list[Event], None]:
    """One turn. Raises Transport `open`, before anything was sent, if no socket can be opened."""
    sockets = sockets_of(transport, request.url)
    try:
        async with aclosing(_turn(sockets, prepared, request, pace, fresh=False)) as batches:
            async for batch in batches:
                yield batch
        return
    except StaleSocket:
        pass
    async with aclosing(_turn(sockets, prepared, request, pace, fresh=True)) as batches:
        async for batch in batches:
            yield batch


async def _turn(
    sockets: Sockets, prepared: Prepared, request: HttpRequest, pace: Pace | None, *, fresh: bool
) -> AsyncGenerator[list[Event], None]:
    conversation = Conversation.of(prepared, request)
    decoder = conversation.protocol.decoder(prepared.model, prepared.request, request.limits)
    decoding = Decoding(decoder, request.limits)
    place = Place(socket_address(request.url), _handshake(request))
    socket: Socket | None = await sockets.take(place, request.timeouts, request.limits, conversation, fresh=fresh)
    assert socket is not None
    try:
        await socket.send(conversation.frame(socket.chain))
        heard = Fold()
        while (frame := await socket.receive(request.timeouts)) is not None:
            decoding.received(len(frame))
            batch, failed = decoding.events((frame,))
            heard.add(batch)
            if failed is not None:
                if batch:
                    yield batch
                raise failed
            if decoder.done:
                break
            if batch:
                yield batch
            if pace is not None and (wait := pace.wait_after(len(frame))):
                await asyncio.sleep(wait)
        else:
            decoder.finish()  # raises: the stream was truncated
        if not isinstance(batch[-1], ProviderError):
            # Before the last events are yielded: the caller may stop iterating at them.
            socket.chain = conversation.chain(heard)
            parked, socket = socket, None
            await sockets.park(parked)
        yield batch
    finally:
        if socket is not None:
            await socket.close()


class Conversation(Frozen):
    """The bytes of a request, and the offset at which its conversation begins."""

    prepared: Prepared
    protocol: OpenAIResponses
    body: bytes
    start: int

    @classmethod
    def of(cls, prepared: Prepared, request: HttpRequest) -> Conversation:
        protocol = prepared.model.route.protocol
        if not isinstance(protocol, OpenAIResponses):
            raise invalid_request(f"{protocol.name} has no WebSocket form")
        return cls(prepared, protocol, b"".join(request.body), protocol.input_start(prepared.draft))

    def frame(self, chain: Chain | None) -> bytes:
        rest = chain and chain.rest(self)
        if chain is None or rest is None:
            return b'{"type":"response.create",' + self.body[len(OPENING) :]
        previous = to_json(chain.response_id)
        head = self.body[len(OPENING) : self.start]
        return b'{"type":"response.create","previous_response_id":%s,%s%s' % (previous, head, rest)

    def chain(self, heard: Fold) -> Chain | None:
        """What the next request may build on; None unless this turn was completed."""
        native = (heard.metadata or {}).get(self.protocol.namespace, {})
        response_id = native.get("responseId")
        if native.get("finishReason") != "completed" or not response_id:
            return None
        parts = heard.response().parts
        # History may omit provider metadata, of texts or of all parts; it is still the same turn.
        versions = (parts, _plain(parts, TextPart), _plain(parts, object))
        replays = tuple(
            dict.fromkeys(self.protocol.replayed(self.prepared.draft, self.prepared.model, each) for each in versions)
        )
        end = len(self.body) - len(CLOSING)
        return Chain(
            response_id, self.prepared.model.id, end - self.start, _digest(self.body, self.start, end), replays
        )


class Chain(Frozen):
    """The provider's newest response on a socket, and a digest of the input that led to it. `replays` are the encodings
    in which that response may appear in later history."""

    response_id: str
    model_id: str
    length: int
    digest: bytes
    replays: tuple[bytes, ...]

    def rest(self, conversation: Conversation) -> bytes | None:
        """The part of the body that the provider has not seen; None if it is another conversation."""
        body, start = conversation.body, conversation.start
        end = start + self.length
        if self.model_id != conversation.prepared.model.id or b'"previous_response_id"' in body[:start]:
            return None
        if end >= len(body) - len(CLOSING) or _digest(body, start, end) != self.digest:
            return None
        for replay in self.replays:
            known = b",%s," % replay if replay else b","
            if body.startswith(known, end):
                return body[end + len(known) :]
        return None


def _handshake(request: HttpRequest) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in request.headers.items() if name.lower() not in NOT_IN_HANDSHAKE)


def _plain(parts: tuple[Part, ...], kind: type) -> tuple[Part, ...]:
    return tuple(
        msgspec.structs.replace(part, provider_metadata=None)
        if isinstance(part, kind) and not isinstance(part, MediaPart)
        else part
        for part in parts
    )


def _digest(body: bytes, start: int, end: int) -> bytes:
    return hashlib.blake2b(memoryview(body)[start:end], digest_size=16).digest()
