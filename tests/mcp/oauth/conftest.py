"""A sign-in at a pair of real servers, with a clock and a store under the test's control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from tests.conftest import ManualClock
from tests.mcp.oauth.authorization_server import World, authorization_world, browse

from holdfast.mcp.oauth.authorizer import OAuthAuthorizer
from holdfast.mcp.oauth.begin import begin_sign_in
from holdfast.mcp.oauth.credential import OAuthCredential
from holdfast.mcp.oauth.errors import AddressRefused
from holdfast.mcp.oauth.requests import OAuthRequests
from holdfast.mcp.oauth.settings import ClientIdentity, ServerSettings
from holdfast.mcp.oauth.sign_in import SignIn

IDENTITY = ClientIdentity("Holdfast")


class LoopbackOnly:
    """Refuses every other address, as a test must not reach any."""

    async def addresses(self, host: str, port: int, *, proxied: bool) -> Sequence[IPv4Address | IPv6Address]:
        if host not in ("127.0.0.1", "localhost"):
            raise AddressRefused(host)
        return (ip_address("127.0.0.1"),)


class MemoryStore:
    def __init__(self) -> None:
        self.credential: OAuthCredential | None = None
        self.saved = 0
        self.lock = asyncio.Lock()

    def load(self) -> OAuthCredential | None:
        return self.credential

    async def replace(self, old: OAuthCredential, new: OAuthCredential) -> None:
        self.saved += 1
        await asyncio.sleep(0)
        if self.credential is not None and self.credential.access == old.access:
            self.credential = new

    async def remove(self, credential: OAuthCredential) -> None:
        if self.credential is not None and self.credential.access == credential.access:
            configured = credential.client.kind == "configured"
            self.credential = credential.without_tokens() if configured else None

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        async with self.lock:
            yield


class Client:
    """Our side of it."""

    def __init__(self, world: World, clock: ManualClock) -> None:
        self.world, self.clock = world, clock
        self.requests = OAuthRequests(LoopbackOnly(), seconds=5)
        self.store = MemoryStore()
        self.settings = ServerSettings(world.url)
        self.authorizer = self.another()

    def another(self) -> OAuthAuthorizer:
        return OAuthAuthorizer(self.settings, self.store, self.requests, self.clock.now)

    async def begin(self, settings: ServerSettings | None = None, **options: object) -> SignIn:
        settings = settings or self.settings
        options.setdefault("known", self.store.credential)
        return await begin_sign_in(settings, IDENTITY, self.requests, self.clock.now, **options)  # type: ignore[arg-type]

    async def sign_in(self, settings: ServerSettings | None = None) -> OAuthCredential:
        begun = await self.begin(settings)
        try:
            page = await browse(begun.url)
            assert b"received" in page.body
            self.store.credential = await begun.finish()
        finally:
            await begun.close()
        return self.store.credential


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with authorization_world() as world:
        yield world


@pytest.fixture
async def client(world: World, clock: ManualClock) -> AsyncIterator[Client]:
    client = Client(world, clock)
    yield client
    await client.authorizer.close()
    await client.requests.close()
