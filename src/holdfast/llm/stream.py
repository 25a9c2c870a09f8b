"""One provider turn over a route: bytes out, batches of canonical events in."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from holdfast.llm.errors import LLMError, excerpt, http_error
from holdfast.llm.route.transport import HttpRequest, HttpResponse, Transport
from holdfast.schema.sse import FrameTooLarge, SSEFrames

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from holdfast.llm.event import Event
    from holdfast.llm.request import Request
    from holdfast.llm.route.route import Route

ERROR_BODY_LIMIT = 16_384
FRAME_LIMIT = 16 * 1024 * 1024


async def stream(transport: Transport, route: Route, request: Request) -> AsyncGenerator[list[Event], None]:
    """Yields what each network read completed. Closing the iterator early releases the connection."""
    headers = {**dict(route.headers), **(request.headers or {}), "accept": "text/event-stream"}
    secrets = (route.secret,) if route.secret else ()
    if route.secret:
        headers["authorization"] = f"Bearer {route.secret}"
    headers["content-type"] = "application/json"
    response = await transport.send(HttpRequest(route.url, headers, route.protocol.encode(request), route.timeouts))
    try:
        if response.status != 200:
            raise http_error(response.status, await _error_body(response), secrets)
        if response.content_type not in ("text/event-stream", "application/octet-stream", ""):
            body = excerpt(await _error_body(response), secrets)
            raise LLMError("InvalidProviderOutput", f"expected an event stream, got {response.content_type}: {body}")
        frames, decoder = SSEFrames(FRAME_LIMIT), route.protocol.decoder()
        async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                if events := [event for frame in frames.feed(chunk) for event in decoder.feed(frame)]:
                    yield events
        last = [event for frame in frames.finish() for event in decoder.feed(frame)]
        last += decoder.finish()
        if last:
            yield last
    except FrameTooLarge as error:
        raise LLMError("InvalidProviderOutput", f"the provider's stream makes no sense: {error}") from error
    finally:
        await response.close()


async def _error_body(response: HttpResponse) -> str:
    body = b""
    async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            body += chunk
            if len(body) >= ERROR_BODY_LIMIT:
                break
    return body[:ERROR_BODY_LIMIT].decode("utf-8", "replace")
