"""Errors of fetching.

FetchFailed
└── AddressRefused
"""

from __future__ import annotations

from holdfast.schema.exceptions import HoldfastError


class FetchFailed(HoldfastError):
    """The reason is short, holds no secret, and may be shown to a model."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AddressRefused(FetchFailed):
    """The host is not on the public internet, or resolves to an address that is not."""

    def __init__(self) -> None:
        super().__init__("address not allowed")
