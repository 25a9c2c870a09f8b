"""Time limits of a client."""

from __future__ import annotations

import msgspec

PROBE_SECONDS = 5.0
"""How long a server may take to answer `server/discover` before it is taken for one that does not know it."""
PROBE_SHARE = 0.5
"""The most of the time for a start that this question may take: what remains is for `initialize`."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. `startup` is until a version is agreed upon, of which `probe` is left for a question that an older
    server may not answer; `catalog` for one whole list and for each other small request; `execution` for a call of a
    tool, a resource or a prompt. Progress does not extend them."""

    startup: float = 30.0
    probe: float = PROBE_SECONDS
    catalog: float = 30.0
    execution: float = 12 * 3600.0

    @property
    def probe_limit(self) -> float:
        """The time for the probe, which leaves time for `initialize` also when the whole start has little."""
        return min(self.probe, PROBE_SHARE * self.startup)
