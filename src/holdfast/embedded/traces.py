"""Traces of stored Sessions, for the command line and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.config.telemetry import SERVICE, SERVICE_NAME, TraceSettings, configured_traces, traces_address
from holdfast.core.session.stored_trees import StoredTrees
from holdfast.core.traces.otlp import json_value
from holdfast.core.traces.sending import TraceSender
from holdfast.core.traces.session_traces import SessionTraces
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from holdfast.core.runtime.runtime import Runtime
    from holdfast.core.traces.span import Span

BATCH_SPANS = 2_000


class NoCollector(HoldfastError):
    """Nobody said where traces are sent."""


class TraceReport(Frozen):
    endpoint: str
    traces: int
    spans: int


async def read_traces(runtime: Runtime, session_ids: Sequence[str]) -> AsyncIterator[dict[str, Any]]:
    service = runtime.environment.get(SERVICE) or SERVICE_NAME
    async for spans in _spans(runtime, session_ids):
        yield json_value(spans, service)


async def send_traces(runtime: Runtime, session_ids: Sequence[str], endpoint: str | None) -> TraceReport:
    """Headers of the configuration go only to the collector of the configuration."""
    sender = TraceSender(_settings(runtime, endpoint))
    seen: set[bytes] = set()
    batch: list[Span] = []
    count = 0
    try:
        async for spans in _spans(runtime, session_ids):
            seen.add(spans[0].trace_id)
            count += len(spans)
            batch += spans
            if len(batch) >= BATCH_SPANS:
                await sender.send(batch)
                batch = []
        if batch:
            await sender.send(batch)
    finally:
        await sender.close()
    return TraceReport(sender.settings.endpoint, len(seen), count)


def _settings(runtime: Runtime, endpoint: str | None) -> TraceSettings:
    configured = configured_traces(runtime.environment)
    if endpoint is None:
        if configured is None:
            raise NoCollector("no collector is configured: give --endpoint URL, or set holdfast.telemetry.traces")
        return configured
    address = traces_address(endpoint)
    if configured is not None and configured.endpoint == address:
        return configured
    return TraceSettings(address, {}, runtime.environment.get(SERVICE) or SERVICE_NAME)


async def _spans(runtime: Runtime, session_ids: Sequence[str]) -> AsyncIterator[list[Span]]:
    trees = StoredTrees(runtime.database)
    traces = SessionTraces(runtime.database, trees)
    done: set[str] = set()
    for session_id in session_ids:
        await runtime.store.get(session_id)  # a Session that does not exist is told
        place = (await trees.places([session_id]))[session_id]
        if place.root_id not in done:
            done.add(place.root_id)
            async for spans in traces.of_tree(session_id):
                yield spans
