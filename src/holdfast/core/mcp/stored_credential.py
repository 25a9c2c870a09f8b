"""Keeps the credential of one MCP server in the credential store, as the OAuth credential of its integration."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.credential.errors import CredentialsUnreadable
from holdfast.core.credential.store import OAuthValue
from holdfast.core.file_lock import file_lock
from holdfast.mcp.oauth.credential import OAuthCredential
from holdfast.mcp.oauth.errors import OAuthUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from holdfast.core.credential.store import Credential, CredentialStore

KEY = "mcp"
"""Of the metadata: everything but the tokens, which the value itself has."""


class StoredOAuthCredential:
    """An OAuthCredentialStore."""

    def __init__(self, credentials: CredentialStore, integration_id: str) -> None:
        self._credentials = credentials
        self._id = integration_id

    def load(self) -> OAuthCredential | None:
        found = self._credential()
        return as_credential(found.value) if found is not None and isinstance(found.value, OAuthValue) else None

    async def replace(self, old: OAuthCredential, new: OAuthCredential) -> None:
        if (found := self._holding(old)) is not None:  # a later sign-in has another id
            with _storing():
                await self._credentials.update(found.id, value=as_value(self._id, new))

    async def remove(self, credential: OAuthCredential) -> None:
        if credential.client.kind == "configured":
            await self.replace(credential, credential.without_tokens())
        elif (found := self._holding(credential)) is not None:
            with _storing():
                await self._credentials.remove(found.id)

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        found = self._credential()
        lock = file_lock(self._credentials.lock_path(found.id if found is not None else self._id))
        try:
            await lock.__aenter__()
        except (OSError, TimeoutError) as error:
            raise OAuthUnreachable(f"The stored credentials are locked ({type(error).__name__})") from error
        try:
            yield
        finally:
            await lock.__aexit__(None, None, None)

    def _holding(self, credential: OAuthCredential) -> Credential | None:
        found = self._credential()
        held = found is not None and isinstance(found.value, OAuthValue) and found.value.access == credential.access
        return found if held else None

    def _credential(self) -> Credential | None:
        return next(iter(self._credentials.all(self._id)), None)


@contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except (OSError, CredentialsUnreadable) as error:
        raise OAuthUnreachable(f"The credentials cannot be stored ({type(error).__name__})") from error


def as_value(integration_id: str, credential: OAuthCredential) -> OAuthValue:
    rest = msgspec.to_builtins(credential.without_tokens())
    kept = {name: value for name, value in rest.items() if name not in ("access", "refresh", "expires")}
    return OAuthValue(
        method_id=integration_id,
        access=credential.access,
        refresh=credential.refresh,
        expires=credential.expires,
        metadata={KEY: kept},
    )


def as_credential(value: OAuthValue) -> OAuthCredential | None:
    """None for a value of another kind, such as one that a plugin stored."""
    kept = (value.metadata or {}).get(KEY)
    if not isinstance(kept, dict):
        return None
    whole = {**kept, "access": value.access, "refresh": value.refresh, "expires": value.expires}
    try:
        return msgspec.convert(whole, OAuthCredential)
    except msgspec.ValidationError:
        return None
