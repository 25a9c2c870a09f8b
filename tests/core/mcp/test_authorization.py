"""Grants of MCP servers in the credential store, and the sign-in as a method of an integration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.conftest import ManualClock
from tests.mcp.oauth.authorization_server import Answer, World, authorization_world, browse, fetch

from holdfast.core.clock import Ids
from holdfast.core.config.schema import OAuth, RemoteServer
from holdfast.core.credential.attempts import SignInAttempts
from holdfast.core.credential.errors import AuthorizationFailed
from holdfast.core.credential.integration import IntegrationDraft
from holdfast.core.credential.integrations import Integrations
from holdfast.core.credential.store import CredentialStore, KeyValue, OAuthValue
from holdfast.core.file_lock import file_lock
from holdfast.core.mcp import authorization
from holdfast.core.mcp.authorization import ServerAuthorization, server_settings
from holdfast.core.mcp.authorizations import McpAuthorizations
from holdfast.core.mcp.remote_servers import integration_id
from holdfast.core.mcp.stored_credential import StoredOAuthCredential, as_credential, as_value
from holdfast.mcp.errors import Challenge, NeedsAuthorization
from holdfast.mcp.oauth.credential import OAuthClient, OAuthCredential
from holdfast.mcp.oauth.errors import OAuthUnreachable

pytestmark = pytest.mark.anyio

CREDENTIAL = OAuthCredential(
    server_url="https://x.example/mcp",
    resource="https://x.example",
    issuer="https://issuer.example",
    token_endpoint="https://issuer.example/token",
    client=OAuthClient("id", "registered", "client_secret_post", "client-secret", 7, "http://127.0.0.1:1/callback"),
    access="access-secret",
    refresh="refresh-secret",
    issued=1,
    expires=2,
    requested=("a", "b"),
    granted=("a",),
    wanted=("c",),
)


class Servers(McpAuthorizations):
    """Of servers that the test changes."""

    def __init__(self, credentials: CredentialStore, clock: ManualClock) -> None:
        self._configured: dict[str, RemoteServer] = {}
        super().__init__(lambda: self._configured, credentials, clock)

    def use(self, servers: dict[str, RemoteServer]) -> None:
        self._configured = servers


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def credentials(tmp_path: Path, ids: Ids, clock: ManualClock) -> CredentialStore:
    return CredentialStore(tmp_path / "credentials.json", ids, clock)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with authorization_world() as world:
        yield world


@pytest.fixture
async def servers(credentials: CredentialStore, clock: ManualClock, world: World) -> AsyncIterator[Servers]:
    servers = Servers(credentials, clock)
    servers.use({"docs": RemoteServer(url=world.url)})
    yield servers
    await servers.close()


def of(servers: McpAuthorizations, name: str = "docs") -> ServerAuthorization:
    found = servers.of(name)
    assert found is not None
    return found


async def sign_in(servers: Servers, credentials: CredentialStore) -> OAuthCredential:
    server = of(servers)
    begun = await server.begin({})
    assert begun.close is not None
    await browse(begun.url)
    await credentials.create(server.integration_id, await begun.finish(None))
    await begun.close()
    credential = server.authorizer.credential()
    assert credential is not None
    return credential


# -- storage -------------------------------------------------------------------------------------------------------


def test_the_integration_of_a_server_is_named_by_its_digest() -> None:
    """MCP-100."""
    assert integration_id("docs", "https://x.example/mcp") == "mcp_110955c88dbc403c"
    assert integration_id("a", "bc") != integration_id("ab", "c")


def test_all_of_a_sign_in_is_stored() -> None:
    """MCP-115: the tokens are the credential's; the rest is beside them, and nothing is in a repr."""
    value = as_value("mcp_1", CREDENTIAL)
    assert (value.method_id, value.access, value.refresh, value.expires) == (
        "mcp_1",
        "access-secret",
        "refresh-secret",
        2,
    )
    stored = msgspec.json.decode(msgspec.json.encode(value), type=OAuthValue)
    assert as_credential(stored) == CREDENTIAL
    assert "access" not in (value.metadata or {})["mcp"]
    for shown in (repr(value), repr(CREDENTIAL), str(CREDENTIAL.client)):
        assert "secret" not in shown.replace("client_secret_post", "")


@pytest.mark.parametrize("metadata", [None, {}, {"mcp": 7}, {"mcp": {"issuer": "x"}}, {"mcp": {"client": []}}])
def test_a_value_of_another_kind_is_not_used(metadata: dict[str, object] | None) -> None:
    """MCP-115."""
    assert as_credential(OAuthValue(method_id="m", access="a", refresh="r", expires=1, metadata=metadata)) is None


async def test_a_credential_is_replaced_and_removed_only_if_it_is_still_there(
    credentials: CredentialStore,
) -> None:
    """MCP-115, MCP-116."""
    store = StoredOAuthCredential(credentials, "mcp_1")
    following = CREDENTIAL.replace(access="next")
    await store.replace(CREDENTIAL, following)
    assert store.load() is None
    await credentials.create("mcp_1", as_value("mcp_1", CREDENTIAL), "mine")
    await store.replace(CREDENTIAL, following)
    await store.replace(CREDENTIAL, CREDENTIAL.replace(access="late"))
    await store.remove(CREDENTIAL)
    found = store.load()
    assert found is not None
    assert (found.access, credentials.all("mcp_1")[0].label) == ("next", "mine")
    await store.remove(found)
    assert store.load() is None
    await credentials.create("mcp_1", KeyValue(key="k"))
    assert store.load() is None


async def test_of_a_configured_client_the_issuer_is_remembered(
    credentials: CredentialStore, ids: Ids, clock: ManualClock
) -> None:
    """MCP-107, MCP-117: without tokens it connects nothing."""
    configured = CREDENTIAL.replace(client=OAuthClient("mine", "configured"))
    integrations = Integrations(IntegrationDraft, lambda draft: None, {}, credentials, ids, clock)
    store = StoredOAuthCredential(credentials, "mcp_1")
    await credentials.create("mcp_1", as_value("mcp_1", configured))
    assert len(integrations.connections("mcp_1")) == 1
    await store.remove(configured)
    assert store.load() == configured.without_tokens()
    assert (integrations.connections("mcp_1"), await integrations.resolve("mcp_1")) == ((), None)
    assert "access-secret" not in msgspec.json.encode(credentials.all("mcp_1")).decode()
    await integrations.close()


async def test_a_credential_that_cannot_be_stored_is_an_error_of_its_own(
    credentials: CredentialStore, tmp_path: Path
) -> None:
    """MCP-116: a new token that is not stored is not used."""
    store = StoredOAuthCredential(credentials, "mcp_1")
    await credentials.create("mcp_1", as_value("mcp_1", CREDENTIAL))
    credentials._load()
    seen = credentials._seen
    (tmp_path / "credentials.json").write_text("damaged", encoding="utf-8")
    assert seen is not None
    credentials._read = lambda: seen[1]  # type: ignore[method-assign] # read before it was damaged
    for change in (store.replace(CREDENTIAL, CREDENTIAL.replace(access="next")), store.remove(CREDENTIAL)):
        with pytest.raises(OAuthUnreachable, match="cannot be stored"):
            await change


async def test_a_lock_that_is_held_too_long_is_an_error_of_its_own(
    credentials: CredentialStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MCP-116."""
    store = StoredOAuthCredential(credentials, "mcp_1")
    monkeypatch.setattr("holdfast.core.mcp.stored_credential.file_lock", lambda path: file_lock(path, patience=0.01))
    async with store.exclusive():
        with pytest.raises(OAuthUnreachable, match="locked"):
            async with store.exclusive():
                pass
    async with store.exclusive():
        pass


# -- signing in ----------------------------------------------------------------------------------------------------


async def test_a_sign_in_is_stored_and_renewed(
    servers: Servers, credentials: CredentialStore, clock: ManualClock, world: World
) -> None:
    """MCP-115, MCP-116: in the store, by the authorizer of any Location."""
    await sign_in(servers, credentials)
    clock.advance(3600 * 1000)
    other = Servers(credentials, clock)
    other.use({"docs": RemoteServer(url=world.url)})
    headers: list[dict[str, str]] = [{} for _ in range(6)]
    both = (of(servers).authorizer, of(other).authorizer)
    await asyncio.gather(*(both[i % 2].authorize(each) for i, each in enumerate(headers)))
    assert {each["authorization"] for each in headers} == {"Bearer access-2"}
    assert len(world.token_requests) == 2
    (stored,) = credentials.all(integration_id("docs", world.url))
    assert isinstance(stored.value, OAuthValue)
    assert (stored.value.access, stored.value.refresh) == ("access-2", "refresh-2")
    await other.close()


async def test_a_server_of_another_url_does_not_get_the_credential(
    servers: Servers, credentials: CredentialStore, world: World
) -> None:
    """MCP-115: its integration is another one; and even a credential in its place is not used."""
    credential = await sign_in(servers, credentials)
    servers.use({"docs": RemoteServer(url=f"{world.mcp.url}/other")})
    assert of(servers).authorizer.credential() is None
    await credentials.create(of(servers).integration_id, as_value("x", credential))
    headers: dict[str, str] = {}
    await of(servers).authorizer.authorize(headers)
    assert headers == {}
    value = as_value("x", credential)
    assert await of(servers).refresh(value) == value


async def test_integrations_renew_it_too(
    servers: Servers, credentials: CredentialStore, clock: ManualClock, ids: Ids, world: World
) -> None:
    """MCP-100, MCP-116: a plugin that resolves the integration gets a valid token."""
    integrations = Integrations(IntegrationDraft, lambda draft: None, {}, credentials, ids, clock)
    integrations.extend(servers.configure)
    credential = await sign_in(servers, credentials)
    id = integration_id("docs", world.url)
    clock.advance(3600 * 1000)
    found = await integrations.resolve(id)
    assert isinstance(found, OAuthValue)
    assert found.access == "access-2"
    await credentials.create(id, as_value(id, credential.replace(refresh="")))
    before = credentials.all(id)[0]
    found = await integrations.resolve(id)
    assert found == before.value  # without a refresh token it stays as it is
    await integrations.close()


async def test_a_sign_in_that_cannot_begin_says_why(
    servers: Servers, credentials: CredentialStore, ids: Ids, clock: ManualClock, world: World
) -> None:
    """MCP-121, CAT-134."""
    world.server_document["issuer"] = "https://evil.example"
    draft = IntegrationDraft()
    servers.configure(draft)
    (integration,) = draft.list()
    method = integration.oauth(integration.id)
    assert method is not None
    attempts = SignInAttempts(None, ids, clock)  # type: ignore[arg-type]
    with pytest.raises(AuthorizationFailed, match="of another issuer: https://evil"):
        await attempts.begin(integration.id, method, {})
    servers.use({})
    with pytest.raises(AuthorizationFailed, match="no remote MCP server docs"):
        await attempts.begin(integration.id, method, {})
    value = as_value("x", CREDENTIAL)
    assert method.refresh is not None
    assert await method.refresh(value) is value
    await attempts.close()


async def test_a_challenge_of_a_refused_request_is_used_for_the_sign_in(servers: Servers, world: World) -> None:
    """MCP-101, MCP-109: the server is not asked again."""
    server = of(servers)
    header = f'Bearer resource_metadata="{world.challenge["resource_metadata"]}", scope="special"'
    with pytest.raises(NeedsAuthorization):
        await server.authorizer.on_challenge(Challenge(world.url, 401, {"www-authenticate": header}), {})
    begun = await server.begin({})
    assert "scope=special" in begun.url
    assert "/mcp" not in world.mcp.paths()
    assert begun.close is not None
    await begun.close()


async def test_a_sign_in_by_pasting(servers: Servers, world: World) -> None:
    """MCP-111, MCP-113: mode `code` if nothing can listen."""
    servers.use({"docs": RemoteServer(url=world.url, oauth=OAuth(redirect_uri="https://tunnel.example/cb"))})
    begun = await of(servers).begin({})
    assert (begun.mode, begun.accept) == ("code", None)
    with pytest.raises(AuthorizationFailed, match="state does not match"):
        await begun.finish("https://tunnel.example/cb?code=c&state=wrong")
    value = await begun.finish((await fetch(begun.url)).headers["location"])
    assert value.access == "access-1"
    assert begun.close is not None
    await begun.close()


async def test_a_failed_sign_in_is_told_in_one_line(servers: Servers, world: World) -> None:
    """MCP-121."""
    world.token_answer = lambda answer: Answer(400, {"error": "invalid_grant", "error_description": "too\nlate"})
    begun = await of(servers).begin({})
    await browse(begun.url)
    with pytest.raises(AuthorizationFailed, match=r"invalid_grant \(too late\)"):
        await begun.finish(None)
    assert begun.close is not None
    await begun.close()


def test_settings_of_a_server() -> None:
    """MCP-100, MCP-109."""
    oauth = OAuth(client_id="c", client_secret="s", scope="a b", callback_port=7, redirect_uri="http://localhost/x")
    found = server_settings(RemoteServer(url="https://x.example", headers={"K": "v"}, oauth=oauth))
    assert (found.scopes, found.client_id, found.callback_port, dict(found.headers)) == (("a", "b"), "c", 7, {"K": "v"})
    assert repr(found) == "ServerSettings(x.example)"
    for plain in (None, True):
        assert server_settings(RemoteServer(url="https://x.example", oauth=plain)).scopes is None


async def test_servers_without_oauth_are_no_integrations(servers: Servers, world: World) -> None:
    """MCP-100."""
    servers.use({"off": RemoteServer(url=world.url, oauth=False), "on": RemoteServer(url=world.url, disabled=True)})
    draft = IntegrationDraft()
    servers.configure(draft)
    assert [(found.id, found.name) for found in draft.list()] == [(integration_id("on", world.url), "on")]
    assert servers.of("off") is None
    same = of(servers, "on")
    assert of(servers, "on") is same
    servers.use({"on": RemoteServer(url=world.url, headers={"a": "b"})})
    assert of(servers, "on") is not same


# -- waiting -------------------------------------------------------------------------------------------------------


async def test_who_waits_is_told_of_a_sign_in_at_once(servers: Servers, credentials: CredentialStore) -> None:
    """MCP-120: not of another integration's, and not of the refused one."""
    refused = await sign_in(servers, credentials)
    waiting = asyncio.ensure_future(of(servers).arrival(refused.access))
    await credentials.create("other", KeyValue(key="k"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await sign_in(servers, credentials)
    async with asyncio.timeout(authorization.LOOK_SECONDS / 2):
        assert (await waiting).access == "access-2"
    assert (await of(servers).arrival(None)).access == "access-2"
    assert not credentials._listeners


async def test_who_waits_is_told_of_a_sign_in_of_another_process(
    servers: Servers,
    credentials: CredentialStore,
    tmp_path: Path,
    ids: Ids,
    clock: ManualClock,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MCP-120: the file is looked at while someone waits."""
    monkeypatch.setattr(authorization, "LOOK_SECONDS", 0.01)
    waiting = asyncio.ensure_future(of(servers).arrival(None))
    await asyncio.sleep(0.02)
    elsewhere = CredentialStore(tmp_path / "credentials.json", ids, clock)
    id = integration_id("docs", world.url)
    await elsewhere.create(id, as_value(id, CREDENTIAL.replace(server_url=world.url)))
    assert (await waiting).access == "access-secret"
