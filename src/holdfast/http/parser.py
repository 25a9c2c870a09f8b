"""Parses one HTTP/1.1 response as its bytes arrive. No I/O.

Invariants
- Every response ends: `complete` becomes true, or `feed` or `end` raises HttpError.
- At most HEAD_LIMIT bytes that are not body are held: of the head, of a chunk's extension, of trailers.
- Body bytes are held only until `take`."""

from __future__ import annotations

import httptools

from holdfast.http.errors import HEAD_LIMIT, HeadTooLarge, MalformedResponse, NoResponse, ResponseTruncated


class ResponseParser:
    def __init__(self) -> None:
        self.status = 0
        """0 until the head is complete. Interim responses (1xx) are skipped."""
        self.headers: dict[str, str] = {}
        """Names in lower case; of a repeated header the last one, but all challenges of `www-authenticate`."""
        self.complete = False
        self.reusable = False
        """The response is complete, and the connection may carry another request."""
        self.unread = 0
        """Bytes of the body that were not taken yet."""
        self._pieces: list[bytes] = []
        self.received = False
        self._overhead = 0
        self._has_body = False
        self._fields = 0
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self.received = True
        self._has_body = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete:
                too_large = isinstance(error.__context__, HeadTooLarge)
                raise (HeadTooLarge if too_large else MalformedResponse) from error
            self.reusable = False  # bytes follow that nobody asked for
        self._overhead = 0 if self._has_body else self._overhead + len(data)
        if self._overhead > HEAD_LIMIT and not self.complete:
            raise HeadTooLarge

    def end(self) -> None:
        """The connection was closed by the other side."""
        if self.complete:
            return
        if not self.status:
            raise ResponseTruncated if self.received else NoResponse
        if "content-length" in self.headers or "transfer-encoding" in self.headers:
            raise ResponseTruncated
        self.complete = True  # without a length, the end of the connection is the end of the body

    def take(self) -> bytes:
        """The body that arrived since the last call."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.unread = 0
        return data

    # -- callbacks of httptools ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += len(name) + len(value)
        if self._fields > HEAD_LIMIT:
            raise HeadTooLarge
        if not self.status:  # trailers are ignored
            self._add(name.decode("latin-1").lower(), value.decode("utf-8", "replace"))

    def _add(self, name: str, value: str) -> None:
        before = self.headers.get(name) if name == "www-authenticate" else None
        self.headers[name] = value if before is None else f"{before}, {value}"

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self.headers = {}
        elif not self.status:
            self.status = status

    def on_body(self, data: bytes) -> None:
        if not self.complete:
            self._has_body = True
            self._pieces.append(data)
            self.unread += len(data)

    def on_message_complete(self) -> None:
        if self.status and not self.complete:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()
