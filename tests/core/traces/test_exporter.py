"""Exporting in the background: bounds, retries, what is dropped."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from tests.outside.collector import Collector

from holdfast.core.config.telemetry import TraceSettings
from holdfast.core.database.errors import StorageUnavailable
from holdfast.core.observe.observer import Observer
from holdfast.core.traces import exporter as exporting
from holdfast.core.traces import sending
from holdfast.core.traces.exporter import TraceExporter
from holdfast.core.traces.sending import TraceSender, TracesRefused
from holdfast.core.traces.session_traces import SessionTraces
from holdfast.core.traces.span import Span
from holdfast.schema import session_event as ev
from holdfast.schema.session import NO_TOKENS

pytestmark = pytest.mark.anyio


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().serving() as collector:
        yield collector


class Traces:
    """One span for each Session that is asked for; `lost` cannot be read."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def ended_since(self, session_id: str, since: int) -> list[Span]:
        self.asked.append((session_id, since))
        if session_id == "lost":
            raise StorageUnavailable("holdfast.db", "gone")
        return [span(session_id)]


class Opened:
    """An exporter with a collector that says when it has been asked."""

    def __init__(self, url: str) -> None:
        self.traces = Traces()
        self.observer = Observer()
        self.sender = TraceSender(TraceSettings(f"{url}/v1/traces", {}))
        self.exporter = TraceExporter(cast("SessionTraces", self.traces), self.sender, self.observer.counters)

    def counted(self) -> dict[str, float]:
        counters = self.observer.counters
        samples = [*counters.traces.samples(), *counters.spans.samples()]
        return {f"{name.split('_')[1]} {labels[0][1]}": value for name, labels, value in samples}


def span(session_id: str) -> Span:
    id = session_id.encode().ljust(16, b"-")
    return Span(id[:16], id[:8], b"", "invoke_agent", 1, 1, 2, (), failed=False)


def ended(session_id: str, at: int = 1, finish: str = "stop") -> ev.StepEnded:
    step: dict[str, Any] = {"assistant_message_id": "msg_1", "cost": 0.0, "tokens": NO_TOKENS}
    return ev.StepEnded(timestamp=at, session_id=session_id, finish=finish, **step)


def commit(opened: Opened, events: Sequence[ev.StepEnded]) -> None:
    for event in events:
        opened.exporter.committed(event)


async def test_what_ended_travels_together_and_each_session_once(collector: Collector) -> None:
    opened = Opened(collector.url)
    commit(opened, [ended("a", 5), ended("b"), ended("a", 9), ended("c", finish="tool-calls")])
    await opened.exporter.close()
    assert opened.traces.asked == [("a", 5), ("b", 1)]
    assert len(collector.bodies) == 1
    assert opened.counted() == {"traces exported": 2, "trace exported": 2}


async def test_what_does_not_fit_into_the_queue_is_dropped_and_counted(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "QUEUE", 2)
    opened = Opened(collector.url)
    commit(opened, [ended(name) for name in "abcda"])
    await opened.exporter.close()
    assert opened.counted() == {"traces exported": 2, "traces dropped": 2, "trace exported": 2}


async def test_a_trace_that_cannot_be_read_does_not_stop_the_others(collector: Collector) -> None:
    opened = Opened(collector.url)
    commit(opened, [ended("lost"), ended("b")])
    await opened.exporter.close()
    assert opened.counted() == {"traces dropped": 1, "traces exported": 1, "trace exported": 1}


async def test_a_process_that_ends_waits_for_a_collector_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "CLOSE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as hung:  # takes connections and answers nothing
        opened = Opened(f"http://127.0.0.1:{hung.getsockname()[1]}")
        commit(opened, [ended("a")])
        await opened.exporter.close()
    assert opened.counted() == {"traces dropped": 1, "trace dropped": 1}


async def test_a_refusal_that_may_pass_is_tried_again_and_then_given_up(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BACKOFF_SECONDS", 0.0)
    sender = TraceSender(TraceSettings(f"{collector.url}/v1/traces", {}))
    collector.statuses = [503] * sending.TRIES
    with pytest.raises(TracesRefused, match="HTTP 503"):
        await sender.send([span("a")])
    assert len(collector.headers) == sending.TRIES
    collector.statuses = [401]
    with pytest.raises(TracesRefused, match="HTTP 401"):
        await sender.send([span("a")])
    assert len(collector.headers) == sending.TRIES + 1
    await sender.close()
