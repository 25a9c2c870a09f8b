"""The seam through which requests over HTTP are authorized."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.mcp.errors import Challenge as Challenge
from holdfast.mcp.errors import NeedsAuthorization

if TYPE_CHECKING:
    from collections.abc import Mapping


class Authorizer(Protocol):
    async def authorize(self, headers: dict[str, str]) -> None:
        """Adds what authorizes a request. Called before each one. Raises NeedsAuthorization if that is known before."""

    async def on_challenge(self, challenge: Challenge, sent: Mapping[str, str]) -> bool:
        """The server refused a request with 401, or with 403 for want of scope. `sent` are its headers. True: the
        request is sent once more. Otherwise False, or NeedsAuthorization with a better reason, is raised."""


class NoAuthorization:
    """Nothing is added; a refused request fails with NeedsAuthorization."""

    async def authorize(self, headers: dict[str, str]) -> None:
        pass

    async def on_challenge(self, challenge: Challenge, sent: Mapping[str, str]) -> bool:
        raise NeedsAuthorization(challenge)
