"""Adds an OAuth credential to requests, refreshed before it expires and never shown."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from holdfast.core.credential.errors import CredentialsUnreadable, IntegrationError
from holdfast.core.credential.store import OAuthValue
from holdfast.llm.errors import LLMError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.credential.integrations import Integrations
    from holdfast.core.credential.store import Credential


class OAuthAuth:
    """A bearer token that is renewed before it expires."""

    def __init__(self, integrations: Integrations, credential: Credential) -> None:
        self._integrations = integrations
        self._credential = credential
        self._access = credential.value.access if isinstance(credential.value, OAuthValue) else ""

    async def refresh(self) -> None:
        try:
            value = await self._integrations.current(self._credential)
        except (CredentialsUnreadable, IntegrationError) as error:
            raise LLMError("Authentication", str(error), kind="expired") from error
        if isinstance(value, OAuthValue):
            self._access = value.access

    def headers(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> dict[str, str]:
        return {"authorization": f"Bearer {self._access}"}

    def secrets(self) -> tuple[str, ...]:
        return (self._access, base64.b64encode(self._access.encode()).decode())

    def __repr__(self) -> str:
        return f"OAuthAuth({self._credential.integration_id})"
