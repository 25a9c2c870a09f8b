"""The integrations of one Location: how each can be connected, what it is connected with now, and its credential.

Connections are looked up whenever somebody asks: credentials and the environment change while the rest does not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.credential.attempts import Attempts
from holdfast.core.credential.auth import OAuthAuth
from holdfast.core.credential.errors import AuthorizationFailed, IntegrationNotFound
from holdfast.core.credential.integration import IntegrationDraft, OAuth
from holdfast.core.credential.store import KeyValue, OAuthValue
from holdfast.core.file_lock import file_lock
from holdfast.core.scope import Scope
from holdfast.core.state import Batches, Phase, State
from holdfast.schema.catalog import (
    CredentialConnection,
    EnvConnection,
    IntegrationInfo,
    KeyMethod,
)
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import IntegrationConnectionUpdated, IntegrationUpdated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.credential.integration import Integration
    from holdfast.core.credential.store import Credential, CredentialStore, Value
    from holdfast.schema.catalog import Connection
    from holdfast.schema.record import Record

REFRESH_AHEAD_MS = 5 * 60 * 1000
REFRESH_SECONDS = 30.0
"""Shorter than others wait for the lock."""


class Variable(Frozen):
    """A credential that the environment holds."""

    name: str
    key: str

    def __repr__(self) -> str:
        return f"Variable({self.name})"


class Integrations:
    def __init__(
        self,
        initial: Callable[[], IntegrationDraft],
        configure: Callable[[IntegrationDraft], None],
        environment: Mapping[str, str],
        credentials: CredentialStore | None,
        ids: Ids,
        clock: Clock,
        *,
        batches: Batches | None = None,
        announce: Callable[[Record], None] | None = None,
    ) -> None:
        """A rebuild starts with `initial`, and `configure` speaks after every plugin. Without a store there are only
        the keys of the environment."""
        self._initial = initial
        self._configure = configure
        self._environment = environment
        self._credentials = credentials
        self._clock = clock
        self._batches = batches or Batches()
        self._announce = announce
        self._scope = Scope()
        self._made: State[IntegrationDraft] | None = None
        self._refreshing: dict[str, asyncio.Task[OAuthValue]] = {}
        if credentials is not None:
            self._scope.add(credentials.on_change(self._connected))
        self.attempts = Attempts(self._store_oauth, ids, clock)

    async def close(self) -> None:
        self._scope.close()
        await self.attempts.close()
        if self._refreshing:
            await asyncio.wait(self._refreshing.values())  # a rotated token that is not stored would be lost

    # -- what there is -------------------------------------------------------------------------------------------

    def transform(
        self, apply: Callable[[IntegrationDraft], None], scope: Scope, *, phase: Phase, owner: str = "holdfast"
    ) -> Callable[[], None]:
        return self._state.transform(apply, scope, phase=phase, owner=owner)

    def reload(self) -> None:
        if self._made is not None:
            self._made.reload()

    def list(self) -> tuple[IntegrationInfo, ...]:
        found = sorted(self._state.value.list(), key=lambda integration: (integration.name, integration.id))
        return tuple(map(self._info, found))

    def get(self, id: str) -> IntegrationInfo | None:
        found = self._state.value.get(id)
        return self._info(found) if found else None

    def find(self, id: str) -> Integration | None:
        return self._state.value.get(id)

    # -- what it is connected with -------------------------------------------------------------------------------

    def connections(self, id: str) -> tuple[Connection, ...]:
        """Stored ones first, newest first; the first is the active one."""
        stored = tuple(CredentialConnection(id=found.id, label=found.label) for found in self._stored(id))
        return (*stored, *(EnvConnection(name=name) for name in self._variables(id)))

    def active(self, id: str) -> Connection | None:
        return next(iter(self.connections(id)), None)

    def stored(self, id: str) -> Credential | None:
        return next(iter(self._stored(id)), None)

    def variable(self, id: str) -> Variable | None:
        """The environment's key: of several variables the one that is named like a key."""
        names = self._variables(id)
        name = next((name for name in names if _KEY_LIKE.intersection(name.split("_"))), None)
        return Variable(name, self._environment[name]) if name else None

    def auth(self, credential: Credential) -> OAuthAuth:
        """For requests: always current when one is made."""
        return OAuthAuth(self, credential)

    async def resolve(self, id: str) -> Value | Variable | None:
        """The active credential, refreshed if need be. Raises AuthorizationFailed."""
        credential = self.stored(id)
        if credential is None:
            return self.variable(id)
        return await self.current(credential)

    async def current(self, credential: Credential) -> Value:
        """Its value, refreshed if it expires soon. However many ask, one refresh runs."""
        value = (self._store().get(credential.id) or credential).value
        if isinstance(value, KeyValue) or not self._expires_soon(value):
            return value
        running = self._refreshing.get(credential.id)
        if running is None:
            running = asyncio.get_running_loop().create_task(self._refresh(credential), name="credential refresh")
            self._refreshing[credential.id] = running
            running.add_done_callback(lambda task: self._refreshed(credential.id, task))
        return await asyncio.shield(running)

    # -- connecting ----------------------------------------------------------------------------------------------

    async def connect_key(self, id: str, key: str, label: str | None = None) -> None:
        integration = self._known(id)
        if not any(isinstance(way, KeyMethod) for way in integration.ways):
            raise IntegrationNotFound(id, "key")
        if not key.strip():
            raise AuthorizationFailed("The key is empty")
        await self._store().create(id, KeyValue(key=key.strip()), label)

    def oauth(self, id: str, method_id: str) -> OAuth:
        """For `attempts.begin`."""
        found = self._known(id).oauth(method_id)
        if found is None:
            raise IntegrationNotFound(id, method_id)
        return found

    # -- details -------------------------------------------------------------------------------------------------

    @property
    def _state(self) -> State[IntegrationDraft]:
        if self._made is None:
            own = Scope()  # never closed: configuration speaks as long as the state lives
            with self._batches.batch():
                made = State(self._initial, self._batches, updated=self._updated)
                made.transform(self._configure, own, phase=Phase.CONFIG)
            self._made = made
        return self._made

    def _known(self, id: str) -> Integration:
        found = self._state.value.get(id)
        if found is None:
            raise IntegrationNotFound(id)
        return found

    def _info(self, integration: Integration) -> IntegrationInfo:
        methods = tuple(way.method if isinstance(way, OAuth) else way for way in integration.ways)
        return IntegrationInfo(
            id=integration.id,
            name=integration.name,
            methods=methods,
            connections=self.connections(integration.id),
        )

    def _stored(self, id: str) -> tuple[Credential, ...]:
        return self._credentials.all(id) if self._credentials else ()

    def _variables(self, id: str) -> tuple[str, ...]:
        found = self._state.value.get(id)
        return tuple(name for name in found.variables if self._environment.get(name)) if found else ()

    def _expires_soon(self, value: OAuthValue) -> bool:
        return value.expires - self._clock.now() < REFRESH_AHEAD_MS

    async def _refresh(self, credential: Credential) -> OAuthValue:
        try:
            return await self._refresh_alone(credential)
        except (OSError, TimeoutError) as error:  # the lock, or the file; what a provider raises is told apart below
            reason = f"could not renew its authorization ({type(error).__name__})"
            raise AuthorizationFailed(f"{credential.integration_id} {reason}") from error

    async def _refresh_alone(self, credential: Credential) -> OAuthValue:
        store = self._store()
        async with file_lock(store.lock_path(credential.id)):
            latest = store.get(credential.id)
            if latest is None or not isinstance(latest.value, OAuthValue):
                raise AuthorizationFailed(f"{credential.integration_id} is no longer connected")
            if not self._expires_soon(latest.value):
                return latest.value  # somebody else was quicker
            integration = self.find(credential.integration_id)
            method = integration.oauth(latest.value.method_id) if integration else None
            if method is None or method.refresh is None:
                return latest.value
            try:
                async with asyncio.timeout(REFRESH_SECONDS):
                    value = await method.refresh(latest.value)
            except Exception as error:  # noqa: BLE001 - a provider's words may hold secrets: only the kind is told
                reason = f"did not renew its authorization ({type(error).__name__}); connect again"
                raise AuthorizationFailed(f"{credential.integration_id} {reason}") from None
            await store.update(credential.id, value=value)
            return value

    def _refreshed(self, id: str, task: asyncio.Task[OAuthValue]) -> None:
        del self._refreshing[id]
        if not task.cancelled():
            task.exception()  # whoever waited has it; if nobody did, it is no news

    async def _store_oauth(self, integration_id: str, value: OAuthValue, label: str | None) -> None:
        await self._store().create(integration_id, value, label)

    def _store(self) -> CredentialStore:
        if self._credentials is None:
            raise AuthorizationFailed("This runtime keeps no credentials")
        return self._credentials

    def _connected(self, integration_id: str) -> None:
        if self._announce is not None:
            self._announce(IntegrationConnectionUpdated(integration_id=integration_id))
            self._announce(IntegrationUpdated())

    def _updated(self) -> None:
        if self._announce is not None and self._made is not None:  # that it was looked at is no news
            self._announce(IntegrationUpdated())


# Other variables of a provider say where it is, or half of a signature.
_KEY_LIKE = frozenset({"KEY", "TOKEN", "PAT", "APIKEY"})
