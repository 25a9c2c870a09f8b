"""Conditions of commits that remove Sessions for good."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement
from holdfast.core.session.errors import PurgeRefused, SessionUsed
from holdfast.schema.codec import encode_text

if TYPE_CHECKING:
    from collections.abc import Mapping


def not_shown(session_id: str) -> Statement:
    """No other Session shows messages of this one. Needs `Unit.shares_lineage`. Raises PurgeRefused."""
    return Statement("purge.shown", {"id": session_id}, found=False, error=partial(_shown, session_id))


def not_written_to(heads: Mapping[str, int]) -> Statement:
    """Nothing was written to any of these Sessions since it had this head. Raises SessionUsed."""
    return Statement(
        "purge.changed", {"heads": encode_text(heads)}, found=False, error=partial(used, next(iter(heads)))
    )


def used(session_id: str) -> SessionUsed:
    return SessionUsed(f"{session_id} was used while it was about to be removed", resource=session_id)


def _shown(session_id: str) -> PurgeRefused:
    return PurgeRefused(f"A fork of {session_id} shows its messages. Purge them together.", resource=session_id)
