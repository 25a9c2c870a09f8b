"""Progress reports of a running tool call, passed on as durable checkpoints.

Invariants
- The sink receives at most one report per `EVERY` seconds, the newest, bounded by the limits below.
- A call that fails or is interrupted keeps its newest report. A successful call does not; its result replaces it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from holdfast.core.tool.preview import OutputLimits, bounded_text
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.session_message import TextContent, ToolContent

Sink = Callable[[dict[str, Any], tuple[ToolContent, ...]], None]
"""Called on the event loop; must not block."""

EVERY = 0.5
STRUCTURED_BYTES = 64 * 1024
LIMITS = OutputLimits(max_lines=500, max_bytes=16 * 1024)

_checkpoints: ContextVar[_Checkpoints | None] = ContextVar("checkpoints", default=None)
log = logging.getLogger(__name__)


def report(structured: dict[str, Any], content: Sequence[ToolContent] = ()) -> None:
    """Replace the running call's progress report. Works from any thread; does nothing outside `reporting`."""
    if (checkpoints := _checkpoints.get()) is not None:
        checkpoints.take(structured, tuple(content))


@contextmanager
def reporting(sink: Sink, every: float = EVERY) -> Iterator[None]:
    """Send `report` calls made inside to the sink. Enter it in the task that executes the call."""
    checkpoints = _Checkpoints(sink, every)
    token = _checkpoints.set(checkpoints)
    failed = True
    try:
        yield
        failed = False
    finally:
        _checkpoints.reset(token)
        checkpoints.close(keep=failed)


class _Checkpoints:
    def __init__(self, sink: Sink, every: float) -> None:
        self._sink = sink
        self._every = every
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._newest: tuple[dict[str, Any], tuple[ToolContent, ...]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def take(self, structured: dict[str, Any], content: tuple[ToolContent, ...]) -> None:
        if threading.get_ident() != self._thread:
            with suppress(RuntimeError):  # a thread may outlive the loop
                self._loop.call_soon_threadsafe(self.take, structured, content)
        elif not self._closed:
            self._newest = structured, content
            if self._timer is None:
                self._deliver()

    def close(self, *, keep: bool) -> None:
        if keep:
            self._deliver()
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _deliver(self) -> None:
        self._timer = None
        if self._newest is None:
            return
        (structured, content), self._newest = self._newest, None
        self._timer = self._loop.call_later(self._every, self._deliver)
        try:
            self._sink(_bounded(structured), _bounded_content(content))
        except Exception:
            log.exception("a checkpoint of a running tool was lost")


def _bounded(structured: dict[str, Any]) -> dict[str, Any]:
    """A copy, or an empty value if it is too large: a part of a structured value would be misleading."""
    data = encode(structured)
    copy: dict[str, Any] = decode_any(data) if len(data) <= STRUCTURED_BYTES else {}
    return copy


def _bounded_content(content: tuple[ToolContent, ...]) -> tuple[ToolContent, ...]:
    """The text parts only; media is part of the final result."""
    text = "".join(part.text for part in content if isinstance(part, TextContent))
    return (TextContent(text=bounded_text(text, LIMITS)),) if text else ()
