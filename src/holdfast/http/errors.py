"""Errors of the HTTP client.

InvalidRequest (ValueError)     the URL or a header cannot be sent; nothing was sent
HttpError (ConnectionError)     the exchange failed
├── NoResponse                  the connection was closed before the first byte of a response
├── MalformedResponse           the response is not HTTP/1.1
├── HeadTooLarge                status line and headers, or trailers, exceed HEAD_LIMIT
├── ResponseTruncated           the connection was closed inside the response
├── ProxyRefused                the proxy did not open a tunnel
└── UndecodableBody             the body does not match its content encoding
    ├── UnsupportedEncoding     the content encoding is neither gzip nor deflate
    └── InflationLimit          the body grows by more than the permitted ratio
ConnectTimeout (TimeoutError)   no connection within the limit
ResponseTimeout (TimeoutError)  no response, or no further byte of it, within the limit

Failures of the operating system and of TLS are raised unchanged: OSError, socket.gaierror, ssl.SSLError. So `OSError`
covers everything except InvalidRequest."""

from __future__ import annotations

HEAD_LIMIT = 64 * 1024


class InvalidRequest(ValueError):
    """The message gives the reason and holds no part of the request."""


class HttpError(ConnectionError):
    pass


class NoResponse(HttpError):
    """On a reused connection this usually means that the server closed it while it was idle."""

    def __init__(self) -> None:
        super().__init__("the connection was closed before an answer came")


class MalformedResponse(HttpError):
    def __init__(self) -> None:
        super().__init__("the answer is not HTTP/1.1")


class HeadTooLarge(HttpError):
    def __init__(self) -> None:
        super().__init__(f"the head of the answer is larger than {HEAD_LIMIT} bytes")


class ResponseTruncated(HttpError):
    def __init__(self) -> None:
        super().__init__("the connection was closed in the middle of the answer")


class ProxyRefused(HttpError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"the proxy did not open a tunnel ({reason})")


class UndecodableBody(HttpError):
    pass


class UnsupportedEncoding(UndecodableBody):
    def __init__(self, encoding: str) -> None:
        super().__init__(f"the answer is encoded as {encoding[:20]}, which is not supported")


class InflationLimit(UndecodableBody):
    def __init__(self, ratio: int) -> None:
        super().__init__(f"the decompressed body is more than {ratio} times what was received")


class ConnectTimeout(TimeoutError):
    def __init__(self) -> None:
        super().__init__("no connection in time")


class ResponseTimeout(TimeoutError):
    def __init__(self) -> None:
        super().__init__("no answer in time")
