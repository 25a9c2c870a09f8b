"""What can go wrong with a project's copies."""

from __future__ import annotations


class CopyFailed(Exception):
    def __init__(self, message: str, *, force_required: bool | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.force_required = force_required
