"""What can go wrong with a snapshot, or with carrying changes over."""

from __future__ import annotations

from typing import Literal

from holdfast.schema.exceptions import HoldfastError

Operation = Literal["capture", "files", "diff", "preview", "restore"]
Step = Literal["capture", "apply", "reset"]


class SnapshotError(HoldfastError):
    """git could not do it; the files are as they were, except that a restore may have come half way."""

    code = "Snapshot.Error"

    def __init__(self, operation: Operation, message: str) -> None:
        super().__init__(f"snapshot {operation}: {message}")
        self.operation = operation
        self.message = message


class TransferError(HoldfastError):
    """Changes could not be carried over. Before `reset` the source is untouched; at `reset` they exist twice."""

    def __init__(self, step: Step, directory: str, reason: str) -> None:
        super().__init__(f"{step}, {directory}: {reason}")
        self.step: Step = step
        self.directory = directory
        self.reason = reason
