"""How a provider can be connected, with what it is, and that a rotating token is renewed once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import ManualClock

from holdfast.core.clock import Ids
from holdfast.core.credential import integrations
from holdfast.core.credential.errors import AuthorizationFailed, IntegrationNotFound
from holdfast.core.credential.integration import Authorization, IntegrationDraft, OAuth
from holdfast.core.credential.integrations import REFRESH_AHEAD_MS, Integrations, Variable
from holdfast.core.credential.store import CredentialStore, KeyValue, OAuthValue
from holdfast.core.file_lock import file_lock
from holdfast.llm.errors import LLMError
from holdfast.llm.route.auth import refresh
from holdfast.schema.catalog import CredentialConnection, EnvConnection, EnvMethod, KeyMethod, OAuthMethod
from holdfast.schema.live_event import IntegrationConnectionUpdated, IntegrationUpdated
from holdfast.schema.record import Record

pytestmark = pytest.mark.anyio
Renew = Callable[[OAuthValue], Any]


async def never(inputs: Mapping[str, str]) -> Authorization:
    raise AssertionError("not begun here")


def method(id: str, renew: Renew | None = None, label: str = "Sign in") -> OAuth:
    return OAuth(OAuthMethod(id=id, label=label), never, renew)


@pytest.fixture
def store(tmp_path: Path, ids: Ids, clock: ManualClock) -> CredentialStore:
    return CredentialStore(tmp_path / "credentials.json", ids, clock)


class World:
    def __init__(self, store: CredentialStore, ids: Ids, clock: ManualClock) -> None:
        self.draft = IntegrationDraft()
        self.environment: dict[str, str] = {}
        self.told: list[Record] = []
        self.store, self.ids, self.clock = store, ids, clock
        self.integrations = self.another()

    def another(self) -> Integrations:
        return Integrations(
            self.draft.copy,
            lambda draft: None,
            self.environment,
            self.store,
            self.ids,
            self.clock,
            announce=self.told.append,
        )


@pytest.fixture
def world(store: CredentialStore, ids: Ids, clock: ManualClock) -> World:
    return World(store, ids, clock)


def test_an_integration_has_one_key_one_env_and_any_oauth_methods(world: World) -> None:
    """CAT-130: one key and one env method, the later one; OAuth methods by their ids."""
    world.draft.add("p", KeyMethod(label="old"), "P")
    world.draft.add("p", EnvMethod(names=("A",)))
    world.draft.add("p", method("max", label="old"))
    world.draft.add("p", method("pro"))
    world.draft.add("p", KeyMethod(label="new"))
    world.draft.add("p", EnvMethod(names=("B", "C")))
    world.draft.add("p", method("max", label="new"))
    found = world.integrations.get("p")
    assert found is not None
    assert found.methods == (
        KeyMethod(label="new"),
        EnvMethod(names=("B", "C")),
        OAuthMethod(id="max", label="new"),
        OAuthMethod(id="pro", label="Sign in"),
    )
    assert msgspec.json.decode(msgspec.json.encode(found.methods[2])) == {"type": "oauth", "id": "max", "label": "new"}
    assert world.integrations.get("unknown") is None


async def test_stored_connections_come_before_environment_variables(world: World) -> None:
    """CAT-131: stored ones first, then variables that hold something now; the first is the active one."""
    world.draft.add("z", KeyMethod(), "Alpha")
    world.draft.add("z", EnvMethod(names=("REGION", "Z_API_KEY", "EMPTY_KEY")))
    world.draft.add("a", KeyMethod(), "Beta")
    integrations = world.integrations
    assert [(found.id, found.connections) for found in integrations.list()] == [("z", ()), ("a", ())]
    assert (integrations.active("z"), integrations.variable("z")) == (None, None)
    world.environment.update(REGION="eu", Z_API_KEY="key", EMPTY_KEY="")
    assert integrations.connections("z") == (EnvConnection(name="REGION"), EnvConnection(name="Z_API_KEY"))
    assert await integrations.resolve("z") == Variable("Z_API_KEY", "key")
    await integrations.connect_key("z", " stored \n", "mine")
    credential = integrations.stored("z")
    assert credential is not None
    assert integrations.active("z") == CredentialConnection(id=credential.id, label="mine")
    assert len(integrations.connections("z")) == 3
    assert await integrations.resolve("z") == KeyValue(key="stored")
    assert await integrations.resolve("nobody") is None


async def test_a_key_is_taken_only_where_one_is_asked_for(world: World) -> None:
    """CAT-130."""
    world.draft.add("p", method("m"))
    world.draft.add("k", KeyMethod())
    for id, key, error in [
        ("p", "x", IntegrationNotFound),
        ("gone", "x", IntegrationNotFound),
        ("k", " ", AuthorizationFailed),
    ]:
        with pytest.raises(error):
            await world.integrations.connect_key(id, key)
    with pytest.raises(IntegrationNotFound, match="no method other"):
        world.integrations.oauth("p", "other")
    assert world.integrations.oauth("p", "m").method.id == "m"


async def test_changes_are_told_without_secrets(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """CAT-135: in every Location, and in no event, list or log line."""
    caplog.set_level(logging.DEBUG)
    world.draft.add("p", KeyMethod())
    other = world.another()
    await world.integrations.connect_key("p", "secret-key", "label")
    assert world.told == [IntegrationConnectionUpdated(integration_id="p"), IntegrationUpdated()] * 2
    credential = world.integrations.stored("p")
    assert credential is not None
    await world.store.update(credential.id, label="new")
    await world.store.remove(credential.id)
    assert len(world.told) == 12
    shown = json.dumps(msgspec.to_builtins((world.told, other.list(), world.integrations.list())))
    assert "secret-key" not in shown + caplog.text + repr((world.integrations, other, Variable("A", "secret-key")))
    await other.close()
    world.told.clear()
    await world.integrations.connect_key("p", "again")
    assert len(world.told) == 2


# -- renewing ------------------------------------------------------------------------------------------------------


def token(n: int, expires: int) -> OAuthValue:
    return OAuthValue(method_id="m", access=f"access-{n}", refresh=f"refresh-{n}", expires=expires)


class Provider:
    """Gives a new pair for the latest refresh token, and only for that."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.latest = 1
        self.gate = asyncio.Event()
        self.called = asyncio.Event()

    async def renew(self, value: OAuthValue) -> OAuthValue:
        self.called.set()
        await self.gate.wait()
        if value.refresh != f"refresh-{self.latest}":
            raise PermissionError(f"{value.refresh} was used already")
        self.latest += 1
        return token(self.latest, self.clock.now() + 3_600_000)


@pytest.fixture
def provider(world: World, clock: ManualClock) -> Provider:
    provider = Provider(clock)
    world.draft.add("p", method("m", provider.renew))
    return provider


@pytest.mark.parametrize(("left", "renewed"), [(REFRESH_AHEAD_MS, False), (REFRESH_AHEAD_MS - 1, True), (-5, True)])
async def test_a_token_that_expires_soon_is_renewed(
    world: World, provider: Provider, clock: ManualClock, left: int, renewed: bool
) -> None:
    """CAT-133: within five minutes; and the new one is stored."""
    provider.gate.set()
    made = await world.store.create("p", token(1, clock.now() + left))
    found = await world.integrations.resolve("p")
    assert isinstance(found, OAuthValue)
    assert found.access == ("access-2" if renewed else "access-1")
    stored = world.store.get(made.id)
    assert stored is not None
    assert stored.value == found


async def test_one_renewal_however_many_ask(world: World, provider: Provider, clock: ManualClock) -> None:
    """CAT-133, trap 22: in one Location, in two, and when one of those who wait goes away."""
    await world.store.create("p", token(1, clock.now()))
    other = world.another()
    asking = [asyncio.create_task(where.resolve("p")) for where in (world.integrations, other) * 5]
    await provider.called.wait()
    asking[0].cancel()
    provider.gate.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert {value.access for value in found[1:] if isinstance(value, OAuthValue)} == {"access-2"}
    assert provider.latest == 2
    await world.integrations.close()


async def test_another_process_may_have_been_quicker(world: World, provider: Provider, clock: ManualClock) -> None:
    """CAT-133, trap 22: the row is read again under the lock."""
    made = await world.store.create("p", token(1, clock.now()))
    async with file_lock(world.store.lock_path(made.id)):
        waiting = asyncio.create_task(world.integrations.resolve("p"))
        await asyncio.sleep(0)
        await world.store.update(made.id, value=token(9, clock.now() + 3_600_000))
    assert await waiting == token(9, clock.now() + 3_600_000)
    assert not provider.called.is_set()


async def test_a_failed_renewal_is_an_authorization_error_and_keeps_the_token(
    world: World, provider: Provider, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """CAT-133, CAT-135: is an authorization error, which does not repeat what the provider said; the token stays."""
    provider.gate.set()
    provider.latest = 5
    made = await world.store.create("p", token(1, clock.now()))
    with pytest.raises(AuthorizationFailed) as failed:
        await world.integrations.resolve("p")
    assert "refresh-1" not in f"{failed.value} {failed.value.__cause__} {caplog.text}"
    stored = world.store.get(made.id)
    assert stored is not None
    assert stored.value == token(1, clock.now())
    with pytest.raises(LLMError, match="connect again") as refused:
        await refresh(world.integrations.auth(made))
    assert refused.value.reason == "Authentication"


async def test_a_renewal_that_never_answers(
    world: World, provider: Provider, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAT-133: is given up, within the time that others wait for it; an authorization error, and the token stays."""
    monkeypatch.setattr(integrations, "REFRESH_SECONDS", 0.01)
    made = await world.store.create("p", token(1, clock.now()))
    with pytest.raises(AuthorizationFailed, match="TimeoutError"):
        await world.integrations.resolve("p")
    assert world.store.get(made.id) == made
    assert integrations.REFRESH_SECONDS < 60


async def test_a_lock_that_cannot_be_had(world: World, provider: Provider, clock: ManualClock) -> None:
    """CAT-133: whatever is in the way, a request is told in words that it can be refused with."""
    made = await world.store.create("p", token(1, clock.now()))
    world.store.lock_path(made.id).mkdir()
    with pytest.raises(LLMError, match="p could not renew its authorization"):
        await refresh(world.integrations.auth(made))


async def test_a_method_that_cannot_renew(world: World, clock: ManualClock) -> None:
    """CAT-133: what it gave is used as it is; one that was removed meanwhile is an error."""
    world.draft.add("p", method("m"))
    made = await world.store.create("p", token(1, clock.now()))
    assert await world.integrations.resolve("p") == token(1, clock.now())
    await world.store.remove(made.id)
    with pytest.raises(AuthorizationFailed, match="no longer connected"):
        await world.integrations.current(made)


async def test_a_request_carries_the_current_token(world: World, provider: Provider, clock: ManualClock) -> None:
    """CAT-133, CAT-112: renewed before the request; both forms of it are kept out of what is shown."""
    provider.gate.set()
    made = await world.store.create("p", token(1, clock.now()))
    auth = world.integrations.auth(made)
    for _ in range(2):
        await refresh(auth)
    assert auth.headers("", {}, ()) == {"authorization": "Bearer access-2"}
    assert "access-2" in auth.secrets()
    assert (repr(auth), provider.latest) == ("OAuthAuth(p)", 2)


async def test_without_a_store_the_keys_of_the_environment_count(ids: Ids, clock: ManualClock) -> None:
    """CAT-131: the environment's keys still count."""
    draft = IntegrationDraft()
    draft.add("p", KeyMethod())
    draft.add("p", EnvMethod(names=("P_KEY",)))
    integrations = Integrations(lambda: draft, lambda found: None, {"P_KEY": "k"}, None, ids, clock)
    assert integrations.active("p") == EnvConnection(name="P_KEY")
    with pytest.raises(AuthorizationFailed, match="keeps no credentials"):
        await integrations.connect_key("p", "x")
