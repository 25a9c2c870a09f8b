"""The transport to real providers: our HTTP client, with its failures as LLMError. Sockets and TLS are imported when
something is sent, because they are most of a cold start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.http.errors import (
    ConnectTimeout,
    InflationLimit,
    InvalidRequest,
    ResponseTimeout,
    UnsupportedEncoding,
)
from holdfast.llm.errors import LLMError, invalid_output
from holdfast.llm.explain import place, unreachable
from holdfast.llm.limits import INFLATION_FLOOR, AnswerTooLarge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.http.client import HttpClient
    from holdfast.http.connection import Response
    from holdfast.http.inflate import Inflater
    from holdfast.http.url import Url
    from holdfast.llm.route.sockets import Sockets
    from holdfast.llm.route.transport import HttpRequest, Timeouts

KEEP_SECONDS = 60.0
URLS = 256
"""Parsed URLs that are remembered."""


class NetworkTransport:
    def __init__(self) -> None:
        self._urls: dict[str, Url] = {}
        self._client: HttpClient | None = None
        self._sockets: Sockets | None = None

    async def send(self, request: HttpRequest) -> NetworkResponse:
        from holdfast.http.request import Request

        timeouts = request.timeouts
        try:
            url = self._url(request.url)
        except ValueError as error:
            raise _invalid(error) from error
        origin = url.origin
        try:
            response = await self._http().send(
                Request("POST", url, request.headers, request.body),
                connect_seconds=timeouts.connect,
                response_seconds=timeouts.first_byte,
            )
        except ConnectTimeout as error:
            text = f"Cannot reach {place(origin)}: no connection"
            raise _timeout("connect", timeouts.connect, text) from error
        except ResponseTimeout as error:
            raise _timeout("first-byte", timeouts.first_byte, f"{place(origin)} did not answer") from error
        except OSError as error:  # before ValueError: some errors are both
            raise unreachable(origin, error) from error
        except ValueError as error:
            raise _invalid(error) from error
        return NetworkResponse(response, timeouts, request.limits.inflation, place(origin))

    @property
    def sockets(self) -> Sockets:
        from holdfast.llm.route.sockets import Sockets

        if self._sockets is None:
            self._sockets = Sockets()
        return self._sockets

    async def close(self) -> None:
        if self._sockets is not None:
            await self._sockets.close()
        if self._client is not None:
            await self._client.close()

    def _http(self) -> HttpClient:
        from holdfast.http.client import HttpClient

        if self._client is None:
            self._client = HttpClient(keep_seconds=KEEP_SECONDS, resend=True)
        return self._client

    def _url(self, text: str) -> Url:
        from holdfast.http.url import parse

        known = self._urls.get(text)
        if known is None:
            if len(self._urls) >= URLS:
                self._urls.clear()
            known = self._urls[text] = parse(text)
        return known


class NetworkResponse:
    def __init__(self, response: Response, timeouts: Timeouts, inflation: int, place: str) -> None:
        self._response = response
        self._place = place
        self._timeouts = timeouts
        self._inflation = inflation
        self.status = response.status
        self.headers = response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        limit, name, what = self._timeouts.first_byte, "first-byte", f"{self._place} sent no body"
        try:
            inflate = self._inflater()
            while True:
                data = await self._response.read(limit)
                limit, name, what = self._timeouts.idle, "inactivity", f"{self._place} fell silent: nothing"
                if inflate is not None:
                    for piece in inflate.pieces(data):
                        yield piece
                elif data:
                    yield data
                if not data:
                    return
        except ResponseTimeout as error:
            raise _timeout(name, limit, what) from error
        except UnsupportedEncoding as error:
            raise invalid_output(str(error)) from error
        except InflationLimit as error:
            raise AnswerTooLarge("the decompressed body", self._inflation, "inflation") from error
        except OSError as error:
            raise LLMError("Transport", f"the stream from {self._place} broke off: {error}", kind="read") from error

    def _inflater(self) -> Inflater | None:
        encoding = self.headers.get("content-encoding")
        if encoding is None:
            return None
        from holdfast.http.inflate import inflater

        return inflater(encoding, ratio=self._inflation, floor=INFLATION_FLOOR)

    def release(self) -> None:
        self._response.release()

    async def close(self) -> None:
        self._response.close()


def _invalid(error: ValueError) -> LLMError:
    reason = f": {error}" if isinstance(error, InvalidRequest) else f" ({type(error).__name__})"
    return LLMError("InvalidRequest", f"the request cannot be sent{reason}")


def _timeout(name: str, seconds: float | None, what: str) -> LLMError:
    text = f"{what} within {seconds or 0:g} s ({name} limit)"
    return LLMError("Transport", text, kind="timeout", retryable=name == "connect")
