"""A Session's stored epoch, for people. No source is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.schema.insight import (
    ContextChangeInfo,
    ContextSourceInfo,
    Current,
    PrefixBreakInfo,
    RemovedSince,
    RequestContextAbsent,
    RequestContextInfo,
    UnavailableSince,
)
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from holdfast.core.context.epoch import Epoch, Epochs, SourceState
    from holdfast.core.context.metrics import Metrics
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.schema.insight import RequestContextView

VIEW_LIMIT = 50
"""The number of newest updates and prefix breaks in a view."""


class ContextSummary(Record):
    """Sizes and states without texts, for logs."""

    baseline_bytes: int
    baseline_seq: int
    updates: int
    update_bytes: int
    outcome: str
    """The outcome of the last boundary in this process; empty if there was none."""
    sources: dict[str, tuple[int, Literal["current", "unavailable", "removed"]]]


async def request_context(epochs: Epochs, database: Database, session_id: str) -> RequestContextView:
    epoch = await epochs.load(session_id)
    if epoch is None:
        return RequestContextAbsent()
    newest: dict[str, Value] = {"session_id": session_id, "limit": VIEW_LIMIT}
    changes = await database.fetch("context.changes", newest, into=ContextChangeInfo)
    breaks = await database.fetch("context.breaks", newest, into=PrefixBreakInfo)
    return RequestContextInfo(
        baseline=epoch.baseline,
        baseline_seq=epoch.baseline_seq,
        sources=source_views(epoch),
        changes=tuple(changes),
        prefix_breaks=tuple(breaks),
    )


def source_views(epoch: Epoch) -> tuple[ContextSourceInfo, ...]:
    admitted = [
        ContextSourceInfo(
            key=key,
            value=epoch.snapshot[key].value,
            bytes=len(bytes(epoch.snapshot[key].value)),
            removable=epoch.snapshot[key].removed is not None,
            state=_state(epoch.observed.get(key)),
        )
        for key in epoch.snapshot
    ]
    others = [
        ContextSourceInfo(key=key, bytes=0, removable=False, state=_state(stored))
        for key, stored in epoch.observed.items()
        if key not in epoch.snapshot
    ]
    return (*admitted, *others)


def summary(epoch: Epoch, metrics: Metrics) -> ContextSummary:
    growth = metrics.of_session(epoch.session_id)
    return ContextSummary(
        baseline_bytes=len(epoch.baseline.encode()),
        baseline_seq=epoch.baseline_seq,
        updates=growth.updates,
        update_bytes=growth.bytes,
        outcome=growth.outcome,
        sources={view.key: (view.bytes, _name(epoch.observed.get(view.key))) for view in source_views(epoch)},
    )


def _state(stored: SourceState | None) -> Current | UnavailableSince | RemovedSince:
    if stored is None:
        return Current()
    return UnavailableSince(since=stored.since) if stored.state == "unavailable" else RemovedSince(since=stored.since)


def _name(stored: SourceState | None) -> Literal["current", "unavailable", "removed"]:
    return "current" if stored is None else stored.state
