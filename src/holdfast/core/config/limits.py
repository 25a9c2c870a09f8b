"""What a server takes: `holdfast.limits` of the user's configuration, read at start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.config.user_settings import user_section
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTION = "limits"
MEBIBYTE = 1024 * 1024


class ServerLimits(Frozen):
    """Sizes in bytes. None: without a limit."""

    sessions: int | None = None
    drains: int | None = None
    pending_inputs: int = 10_000
    followers: int = 5_000
    requests_per_second: float = 100.0
    burst: int = 1_000
    body_bytes: int = 32 * MEBIBYTE
    disk_floor_bytes: int = 100 * MEBIBYTE


def configured_limits(environment: Mapping[str, str]) -> ServerLimits:
    """What the user's files say, later ones before earlier ones. Raises UnusableSetting."""
    return ServerLimits(**user_section(environment, SECTION, ServerLimits.__struct_fields__))
