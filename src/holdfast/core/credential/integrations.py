"""The integrations of one Location: connection methods, current connections and credentials.

Connections are looked up on each call, because credentials and the environment change independently."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.credential.attempts import SignInAttempts
from holdfast.core.credential.auth import OAuthAuth
from holdfast.core.credential.errors import AuthorizationFailed, IntegrationNotFound
from holdfast.core.credential.integration import IntegrationDraft, OAuth
from holdfast.core.credential.store import KeyValue, OAuthValue, is_spent
from holdfast.core.file_lock import file_lock
from holdfast.core.scope import Scope
from holdfast.core.state import Batches, Phase, State
from holdfast.schema.catalog import CredentialConnection, EnvConnection, IntegrationInfo, KeyMethod
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import IntegrationConnectionUpdated, IntegrationUpdated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.credential.integration import Integration
    from holdfast.core.credential.store import Credential, CredentialStore, CredentialValue
    from holdfast.schema.catalog import Connection
    from holdfast.schema.record import Record

REFRESH_AHEAD_MS = 5 * 60 * 1000
REFRESH_SECONDS = 30.0
"""Shorter than the timeout of others waiting for the lock."""


class Variable(Frozen):
    """A credential from the environment."""

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
        """A rebuild starts with `initial` and applies `configure` after all plugins. Without a store only keys from the
        environment are used."""
        self._initial = initial
        self._configure = [configure]
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
        self.attempts = SignInAttempts(self._store_oauth, ids, clock)

    async def close(self) -> None:
        self._scope.close()
        await self.attempts.close()
        if self._refreshing:
            await asyncio.wait(self._refreshing.values())  # a rotated token that is not stored is lost

    def extend(self, configure: Callable[[IntegrationDraft], None]) -> None:
        """Also apply this at each rebuild, after the configured providers. Nothing is built now."""
        self._configure.append(configure)

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

    def connections(self, id: str) -> tuple[Connection, ...]:
        """Stored connections first, newest first; the first one is active."""
        stored = tuple(CredentialConnection(id=found.id, label=found.label) for found in self._stored(id))
        return (*stored, *(EnvConnection(name=name) for name in self._variables(id)))

    def active(self, id: str) -> Connection | None:
        return next(iter(self.connections(id)), None)

    def stored(self, id: str) -> Credential | None:
        return next(iter(self._stored(id)), None)

    def variable(self, id: str) -> Variable | None:
        """The key in the environment: of several variables the one whose name looks like a key."""
        names = self._variables(id)
        name = next((name for name in names if _KEY_LIKE.intersection(name.split("_"))), None)
        return Variable(name, self._environment[name]) if name else None

    def auth(self, credential: Credential) -> OAuthAuth:
        """Authentication for requests, refreshed as needed."""
        return OAuthAuth(self, credential)

    async def resolve(self, id: str) -> CredentialValue | Variable | None:
        """The active credential, refreshed if needed. Raises AuthorizationFailed."""
        credential = self.stored(id)
        if credential is None:
            return self.variable(id)
        return await self.current(credential)

    async def current(self, credential: Credential) -> CredentialValue:
        """The value, refreshed if it expires soon. Concurrent calls share one refresh."""
        value = (self._store().get(credential.id) or credential).value
        if isinstance(value, KeyValue) or not self._expires_soon(value):
            return value
        running = self._refreshing.get(credential.id)
        if running is None:
            running = asyncio.get_running_loop().create_task(self._refresh(credential), name="credential refresh")
            self._refreshing[credential.id] = running
            running.add_done_callback(lambda task: self._refreshed(credential.id, task))
        return await asyncio.shield(running)

    async def connect_key(self, id: str, key: str, label: str | None = None) -> None:
        integration = self._known(id)
        if not any(isinstance(method, KeyMethod) for method in integration.methods):
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

    @property
    def _state(self) -> State[IntegrationDraft]:
        if self._made is None:
            own = Scope()  # never closed: the transform lives as long as the state
            with self._batches.batch():
                made = State(self._initial, self._batches, updated=self._updated)
                for configure in self._configure:
                    made.transform(configure, own, phase=Phase.CONFIG)
            self._made = made
        return self._made

    def _known(self, id: str) -> Integration:
        found = self._state.value.get(id)
        if found is None:
            raise IntegrationNotFound(id)
        return found

    def _info(self, integration: Integration) -> IntegrationInfo:
        methods = tuple(method.method if isinstance(method, OAuth) else method for method in integration.methods)
        return IntegrationInfo(
            id=integration.id, name=integration.name, methods=methods, connections=self.connections(integration.id)
        )

    def _stored(self, id: str) -> tuple[Credential, ...]:
        found = self._credentials.all(id) if self._credentials else ()
        return tuple(credential for credential in found if not is_spent(credential.value))

    def _variables(self, id: str) -> tuple[str, ...]:
        found = self._state.value.get(id)
        return tuple(name for name in found.variables if self._environment.get(name)) if found else ()

    def _expires_soon(self, value: OAuthValue) -> bool:
        return value.expires - self._clock.now() < REFRESH_AHEAD_MS

    async def _refresh(self, credential: Credential) -> OAuthValue:
        try:
            return await self._refresh_alone(credential)
        except (OSError, TimeoutError) as error:  # the lock or the file; errors of the provider are handled below
            reason = f"could not renew its authorization ({type(error).__name__})"
            raise AuthorizationFailed(f"{credential.integration_id} {reason}") from error

    async def _refresh_alone(self, credential: Credential) -> OAuthValue:
        store = self._store()
        async with file_lock(store.lock_path(credential.id)):
            latest = store.get(credential.id)
            if latest is None or not isinstance(latest.value, OAuthValue):
                raise AuthorizationFailed(f"{credential.integration_id} is no longer connected")
            if not self._expires_soon(latest.value):
                return latest.value  # another process has refreshed it
            integration = self.find(credential.integration_id)
            method = integration.oauth(latest.value.method_id) if integration else None
            if method is None or method.refresh is None:
                return latest.value
            try:
                async with asyncio.timeout(REFRESH_SECONDS):
                    value = await method.refresh(latest.value)
            except Exception as error:  # noqa: BLE001 - the message may hold secrets: only the type is shown
                reason = f"did not renew its authorization ({type(error).__name__}); connect again"
                raise AuthorizationFailed(f"{credential.integration_id} {reason}") from None
            if value != latest.value:
                await store.update(credential.id, value=value)
            return value

    def _refreshed(self, id: str, task: asyncio.Task[OAuthValue]) -> None:
        del self._refreshing[id]
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved

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
        if self._announce is not None and self._made is not None:  # the first build is not a change
            self._announce(IntegrationUpdated())


# Other variables of a provider hold an address or half of a signature.
_KEY_LIKE = frozenset({"KEY", "TOKEN", "PAT", "APIKEY"})
