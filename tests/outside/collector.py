"""A collector of traces: takes OTLP over HTTP and decodes it with the official package."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE = 30.0


class Collector:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.statuses: list[int] = []
        """What the next requests are answered with; then 200."""
        self._changed = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = collector.statuses.pop(0) if collector.statuses else 200
                with collector._changed:
                    if status == 200:
                        collector.bodies.append(body)
                    collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                    collector._changed.notify_all()
                self.send_response(status if self.path == "/v1/traces" else 404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[Collector]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def wait(self, spans: int) -> list[dict[str, Any]]:
        """The spans, once there are as many as this."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.spans()) >= spans, PATIENCE), self.spans()
        return self.spans()

    def spans(self) -> list[dict[str, Any]]:
        return [span for body in tuple(self.bodies) for span in decoded(body)]


def decoded(body: bytes) -> list[dict[str, Any]]:
    """The spans of a request. Its bytes must be those that the official package writes."""
    request = ExportTraceServiceRequest.FromString(body)
    assert request.SerializeToString(deterministic=True) == body
    (resource,) = request.resource_spans
    assert [(item.key, item.value.string_value) for item in resource.resource.attributes] == [
        ("service.name", "holdfast")
    ]
    (scope,) = resource.scope_spans
    assert scope.scope.name == "holdfast"
    assert scope.schema_url == "https://opentelemetry.io/schemas/1.41.0"
    return [
        {
            "trace": span.trace_id.hex(),
            "id": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            "name": span.name,
            "kind": span.kind,
            "ms": (span.end_time_unix_nano - span.start_time_unix_nano) // 1_000_000,
            "failed": span.status.code == 2,
            **{item.key: _value(item.value) for item in span.attributes},
        }
        for span in scope.spans
    ]


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(item) for item in found.values] if kind == "array_value" else found
