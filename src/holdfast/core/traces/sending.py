"""Sends spans to a collector by OTLP/HTTP, and tries again where the protocol says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.traces.otlp import protobuf
from holdfast.http.client import HttpClient
from holdfast.http.errors import HttpError
from holdfast.http.request import Request
from holdfast.http.url import parse
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.config.telemetry import TraceSettings
    from holdfast.core.traces.span import Span

TRIES = 6
BACKOFF_SECONDS = 1.0
"""After the first failure; doubled after each further one."""
LONGEST_SECONDS = 30.0
RESPONSE_SECONDS = 10.0
RETRIED = frozenset((429, 502, 503, 504))


class TracesRefused(HoldfastError):
    """A collector did not take the spans."""


class TraceSender:
    def __init__(self, settings: TraceSettings) -> None:
        self.settings = settings
        self._url = parse(settings.endpoint)
        self._client = HttpClient(keep_seconds=30.0, resend=True)

    async def send(self, spans: Sequence[Span]) -> None:
        """Raises TracesRefused after the last try, or at once if another try would not help."""
        body = protobuf(spans, self.settings.service)
        for number in range(TRIES):
            reason, delay = await self._try(body)
            if reason is None:
                return
            if delay is None or number == TRIES - 1:
                raise TracesRefused(f"{self.settings.endpoint} did not take the traces: {reason}")
            await asyncio.sleep(min(max(delay, BACKOFF_SECONDS * 2**number), LONGEST_SECONDS))

    async def close(self) -> None:
        await self._client.close()

    async def _try(self, body: bytes) -> tuple[str | None, float | None]:
        """Why it failed, and after how many seconds at least it may be tried again; None if it never should be."""
        headers = {
            "user-agent": f"holdfast/{__version__}",
            **self.settings.headers,
            "content-type": "application/x-protobuf",
        }
        try:
            response = await self._client.send(
                Request("POST", self._url, headers, (body,)), response_seconds=RESPONSE_SECONDS
            )
        except (HttpError, OSError, TimeoutError) as error:
            return str(error) or type(error).__name__, 0.0
        except ValueError as error:
            return str(error), None
        status, after = response.status, response.headers.get("retry-after", "")
        response.release()
        if 200 <= status < 300:
            return None, None
        seconds = float(after) if after.isdecimal() else 0.0
        return f"HTTP {status}", seconds if status in RETRIED else None
