"""What can go wrong with a snapshot."""

from __future__ import annotations

from typing import Literal

Operation = Literal["capture", "files", "diff", "preview", "restore"]


class SnapshotError(Exception):
    """git could not do it; the files are as they were, except that a restore may have come half way."""

    tag = "Snapshot.Error"

    def __init__(self, operation: Operation, message: str) -> None:
        super().__init__(f"snapshot {operation}: {message}")
        self.operation = operation
        self.message = message
