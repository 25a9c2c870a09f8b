"""Pruning: before a summary is made, the bodies of old tool results may give way. The record keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.runner.lowering import prunable
from holdfast.core.session.transcript import tokens

if TYPE_CHECKING:
    from holdfast.core.session.store import SessionStore

KEEP_TOKENS = 40_000
WORTH_TOKENS = 20_000


async def prune_point(store: SessionStore, session_id: str, already: int) -> int | None:
    """Up to which message results are pruned: all but the newest ones. None when that would save too little."""
    kept = saved = 0
    point = None
    for row in reversed(await store.active_history(session_id)):
        if row.seq <= already:
            break
        size = prunable(row.decode())
        if tokens(kept) <= KEEP_TOKENS:
            kept += size
            continue
        point = point or row.seq
        saved += size
    return point if point is not None and tokens(saved) >= WORTH_TOKENS else None
