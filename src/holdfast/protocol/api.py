"""All endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.protocol import instance, sessions

if TYPE_CHECKING:
    from holdfast.protocol.endpoint import Endpoint

API: tuple[Endpoint, ...] = (*instance.ENDPOINTS, *sessions.ENDPOINTS)
