"""Which events of a Session came from elsewhere: with a bundle, or with a backup that was restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.database import Reads
    from holdfast.core.database.unit import Value


class ImportedRange(Frozen):
    """Events that were imported together: when, by whom, and of the bundle with this digest."""

    first_seq: int
    last_seq: int
    time: int
    digest: str
    author: str | None = None

    def statement(self, session_id: str) -> Statement:
        """Records the range, or lets one with the same beginning grow."""
        row: dict[str, Value] = {
            "session_id": session_id,
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "time": self.time,
            "digest": self.digest,
            "author": self.author,
        }
        return Statement("import.record", row)


async def imported_ranges(database: Reads, session_id: str) -> Sequence[ImportedRange]:
    return await database.fetch("import.of_session", {"session_id": session_id}, into=ImportedRange)


def is_imported(seq: int, ranges: Sequence[ImportedRange]) -> bool:
    return any(each.first_seq <= seq <= each.last_seq for each in ranges)
