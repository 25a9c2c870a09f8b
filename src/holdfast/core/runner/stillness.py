"""Whether anyone but the drain itself has recorded something about its Session: as long as nobody has, what was read at
the last boundary still holds, and nothing is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.event.signal import Flag
    from holdfast.core.runner.outbox import Outbox


class Stillness:
    """Counts the Session's commits against the drain's own. Another process's are heard of a moment late, like a wake
    from there."""

    def __init__(self, flag: Flag, outbox: Outbox) -> None:
        self._flag = flag
        self._outbox = outbox
        self._others = -1

    @property
    def holds(self) -> bool:
        return self._flag.touched - self._outbox.committed == self._others

    def begin(self) -> None:
        """From now on; to be called before reading, so that what comes during the read breaks it."""
        self._others = self._flag.touched - self._outbox.committed
