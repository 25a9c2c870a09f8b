"""Encoding spans: the bytes are those of the official package, for all values."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from holdfast.core.traces.otlp import json_value, protobuf
from holdfast.core.traces.span import Span, activity_span_id, span_id, trace_id

times = st.integers(0, 2**43)
values = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.lists(st.text(), max_size=3).map(tuple)
)
spans = st.builds(
    Span,
    trace_id=st.binary(min_size=16, max_size=16),
    id=st.binary(min_size=8, max_size=8),
    parent_id=st.sampled_from((b"", b"12345678")),
    name=st.text(max_size=300),
    kind=st.sampled_from((1, 3)),
    start=times,
    end=times,
    attributes=st.lists(st.tuples(st.text(min_size=1), values), max_size=4).map(tuple),
    failed=st.booleans(),
)


@given(st.lists(spans, max_size=4), st.text(min_size=1))
def test_the_official_package_reads_and_writes_the_same_bytes(given: list[Span], service: str) -> None:
    data = protobuf(given, service)
    read = ExportTraceServiceRequest.FromString(data)
    assert read.SerializeToString(deterministic=True) == data
    found = read.resource_spans[0].scope_spans[0].spans
    assert [(span.trace_id, span.span_id, span.kind) for span in found] == [
        (span.trace_id, span.id, span.kind) for span in given
    ]
    assert [span.end_time_unix_nano for span in found] == [span.end * 1_000_000 for span in given]


def test_json_has_ids_as_hexadecimal_digits_and_large_numbers_as_text() -> None:
    attributes = (("a", 1), ("b", 0.5), ("c", True), ("d", ("x",)))
    span = Span(b"\x01" * 16, b"\x02" * 8, b"", "chat m", 3, 1, 2, attributes, failed=True)
    found = json_value([span], "holdfast")["resourceSpans"][0]["scopeSpans"][0]
    assert found["spans"] == [
        {
            "traceId": "01" * 16,
            "spanId": "02" * 8,
            "name": "chat m",
            "kind": 3,
            "startTimeUnixNano": "1000000",
            "endTimeUnixNano": "2000000",
            "attributes": [
                {"key": "a", "value": {"intValue": "1"}},
                {"key": "b", "value": {"doubleValue": 0.5}},
                {"key": "c", "value": {"boolValue": True}},
                {"key": "d", "value": {"arrayValue": {"values": [{"stringValue": "x"}]}}},
            ],
            "status": {"code": 2},
        }
    ]
    assert json.loads(json.dumps(found)) == found


def test_ids_do_not_change() -> None:
    """They are in other people's databases."""
    found = (trace_id("ses_1", "evt_1"), activity_span_id("evt_1"), span_id("evt_1"))
    assert [id.hex() for id in found] == [
        "f331026e4b2791589f0fb513aebe4418",
        "d1c419520b8720e7",
        "5c5ec81c8bc458d4",
    ]
