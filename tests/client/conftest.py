"""A transport that plays prepared answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.client.transport import Request

JSON = "application/json"
SSE = "text/event-stream"


class FakeResponse:
    """`hang` keeps the body open after its chunks; `failure` ends it with an error."""

    def __init__(
        self,
        status: int = 200,
        body: bytes | Sequence[bytes] = b"",
        *,
        content_type: str = JSON,
        hang: bool = False,
        failure: Exception | None = None,
    ) -> None:
        self.status = status
        self.content_type = content_type
        self.pieces = [body] if isinstance(body, bytes) else list(body)
        self._hang = hang
        self.failure = failure
        self.closed = False

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.failure is not None:
            raise self.failure
        if self._hang:
            await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed = True


class BlockingResponse:
    """The same for a blocking caller; its body cannot hang."""

    def __init__(self, response: FakeResponse) -> None:
        self.fake = response
        self.status = response.status
        self.content_type = response.content_type

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        yield from self.fake.pieces
        if self.fake.failure is not None:
            raise self.fake.failure

    def close(self) -> None:
        self.fake.closed = True


class BlockingTransport:
    def __init__(self, *answers: FakeResponse | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []
        self.responses: list[FakeResponse] = []
        self.closed = False

    def send(self, request: Request) -> BlockingResponse:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        self.responses.append(answer)
        return BlockingResponse(answer)

    def close(self) -> None:
        self.closed = True


class FakeTransport:
    def __init__(self, *answers: FakeResponse | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []
        self.responses: list[FakeResponse] = []

    async def send(self, request: Request) -> FakeResponse:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        self.responses.append(answer)
        return answer

    async def close(self) -> None:
        pass


def failure(status: int, tag: str, **fields: str) -> FakeResponse:
    return FakeResponse(status, msgspec.json.encode({"_tag": tag, "message": f"{tag}!", **fields}))


def event(number: int) -> dict[str, Any]:
    position = {"aggregateID": "ses_1", "seq": number, "version": 1}
    data = {"timestamp": number, "sessionID": "ses_1", "messageID": f"msg_{number}", "text": str(number)}
    return {"id": f"evt_{number}", "type": "session.next.synthetic", "durable": position, "data": data}


def frame(number: int) -> bytes:
    return b"data: " + msgspec.json.encode(event(number)) + b"\n\n"
