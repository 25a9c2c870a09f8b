"""Counts and logs requests: method, route, status and time. Never a path with its ids, a query, a header or a body."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.core.observe.log_context import fields
from holdfast.server.probes import HEALTH, READINESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.observe.counters import Counters

UNKNOWN, REFUSED, PREFLIGHT, PAGE, METRICS = "unknown", "refused", "preflight", "page", "/metrics"
"""What stands for a route: nothing is there or the caller is not known, another host name, a question of a browser
before a request, the page with its files."""
QUIET = frozenset((HEALTH, READINESS, METRICS))
"""Asked for again and again by programs."""
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))

log = logging.getLogger("holdfast.request")


class RequestLog:
    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.followers = 0
        """Streams that are open."""

    def begin(self, method: str) -> LoggedRequest:
        return LoggedRequest(self, self._counters, method if method in METHODS else "other")


class LoggedRequest:
    def __init__(self, requests: RequestLog, counters: Counters, method: str) -> None:
        self._requests = requests
        self._counters = counters
        self._method = method
        self._begun = time.perf_counter()
        self.route = UNKNOWN
        self.caller = UNKNOWN
        """The name of the caller, once it is known. It is not logged."""

    def answered(self, route: str, status: int) -> None:
        seconds = time.perf_counter() - self._begun
        self._counters.requests.add(1, self._method, route, str(status))
        self._counters.request_seconds.observe(seconds)
        self._log("request", route, status, seconds)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """A stream is counted when it begins, and logged when it has ended too."""
        self._counters.requests.add(1, self._method, self.route, "200")
        self._requests.followers += 1
        self._log("stream began", self.route, 200, time.perf_counter() - self._begun)
        try:
            yield
        finally:
            self._requests.followers -= 1
            self._log("stream ended", self.route, 200, time.perf_counter() - self._begun)

    def _log(self, what: str, route: str, status: int, seconds: float) -> None:
        level = logging.DEBUG if route in QUIET else logging.INFO
        if log.isEnabledFor(level):
            told = fields(method=self._method, route=route, status=status, ms=round(seconds * 1000, 1))
            log.log(level, what, extra=told)
