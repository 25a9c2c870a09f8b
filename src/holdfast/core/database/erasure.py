"""Makes sure that the store keeps no former contents of rows that were removed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.database.sqlite import BusyWait
from holdfast.core.database.wal import truncate

if TYPE_CHECKING:
    from holdfast.core.database.place import Place

PATIENCE_SECONDS = 2.0
IN_USE = (
    "the write-ahead log could not be emptied, because something reads from the database for long; it still contains "
    "former contents of the file until it is overwritten, or until the last process closes the database"
)
POSTGRESQL = (
    "PostgreSQL keeps removed rows in its files until VACUUM, which it runs by itself; `VACUUM event, session_message, "
    "session_message_part` does it now. Its write-ahead log and backups are yours to expire"
)


async def erase_former_contents(place: Place) -> str | None:
    """Empty the write-ahead log of a file, whose pages are overwritten when rows are removed. Returns what is left to
    do, if anything."""
    if not isinstance(place, Path):
        return POSTGRESQL
    emptied = await asyncio.to_thread(truncate, str(place), BusyWait(PATIENCE_SECONDS))
    return None if emptied else IN_USE
