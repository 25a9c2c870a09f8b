"""Records of `schema/insight.py`, under the path that callers know."""

from __future__ import annotations

from holdfast.schema.insight import (
    ContextSourceInfo,
    Current,
    RequestContextAbsent,
    RequestContextInfo,
    UnavailableSince,
)

__all__ = ["ContextSourceInfo", "Current", "RequestContextAbsent", "RequestContextInfo", "UnavailableSince"]
