"""Calls callbacks whose failure must not harm a connection."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)


def tell(callback: Callable[..., None] | None, *arguments: object) -> None:
    """Does nothing without a callback. What it raises is logged."""
    if callback is None:
        return
    try:
        callback(*arguments)
    except Exception:
        log.exception("a callback for an MCP connection failed")
