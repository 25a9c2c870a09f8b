"""What can go wrong with a snapshot, with an isolated copy, or with carrying changes over."""

from __future__ import annotations

from typing import Literal

from holdfast.schema.exceptions import HoldfastError

Operation = Literal["capture", "files", "diff", "preview", "restore"]
Step = Literal["capture", "apply", "reset"]


class SnapshotError(HoldfastError):
    """git failed. Files are unchanged, except that a restore may be incomplete."""

    code = "Snapshot.Error"

    def __init__(self, operation: Operation, message: str) -> None:
        super().__init__(f"snapshot {operation}: {message}")
        self.operation = operation
        self.message = message


class TransferError(HoldfastError):
    """Changes could not be moved. Before `reset` the source is unchanged; at `reset` they exist in both places."""

    def __init__(self, step: Step, directory: str, reason: str) -> None:
        super().__init__(f"{step}, {directory}: {reason}")
        self.step: Step = step
        self.directory = directory
        self.reason = reason


class CopyFailed(HoldfastError):
    """An isolated copy could not be made, read or changed; the message says why. Nothing of the source changed."""
