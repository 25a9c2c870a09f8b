"""A sign-in from the first refused request to the credential, and every response that does not belong to it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
from contextlib import suppress
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pytest
from tests.mcp.oauth.authorization_server import Answer, Received, World, browse, fetch
from tests.mcp.oauth.conftest import Client

from holdfast.mcp.oauth import callback
from holdfast.mcp.oauth.begin import begin_sign_in
from holdfast.mcp.oauth.callback import open_socket, pasted_parameters, read_parameters
from holdfast.mcp.oauth.credential import NEVER, OAuthClient
from holdfast.mcp.oauth.errors import (
    AccessDenied,
    CallbackRefused,
    ClientRequired,
    IssuerChanged,
    OAuthError,
    RegistrationFailed,
    ResponseRefused,
    TokenRefused,
    UrlRefused,
)
from holdfast.mcp.oauth.settings import ClientIdentity, ServerSettings
from holdfast.mcp.oauth.sign_in import SignIn

pytestmark = pytest.mark.anyio
EVIL = "https://evil.example"
TUNNEL = "https://tunnel.example/cb"


def parameters(sign_in: SignIn) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(sign_in.url).query).items()}


def response(sign_in: SignIn, world: World, **changes: str) -> str:
    """An address to which a browser could be sent."""
    given = {"code": "c", "state": parameters(sign_in)["state"], "iss": world.issuer.url, **changes}
    return f"{sign_in.redirect_uri}?{urlencode(given)}"


async def test_a_person_signs_in_with_a_browser(world: World, client: Client) -> None:
    """MCP-101, MCP-110, MCP-111: from the challenge to the tokens, with PKCE, state and resource."""
    credential = await client.sign_in()

    (asked,), (token,) = world.sign_ins, world.token_requests
    assert world.mcp.paths() == ["/mcp", "/.well-known/oauth-protected-resource/mcp"]
    assert world.issuer.paths() == ["/.well-known/oauth-authorization-server", "/register", "/authorize", "/token"]
    assert "authorization" not in world.mcp.received[0].headers
    digest = hashlib.sha256(token["code_verifier"].encode()).digest()
    assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert (asked["code_challenge_method"], asked["response_type"], asked["scope"]) == ("S256", "code", "read")
    assert (asked["resource"], token["resource"]) == (world.url, world.url)
    assert urlsplit(asked["redirect_uri"]).path == "/callback"
    assert len(asked["state"]) >= 32
    assert (credential.access, credential.refresh, credential.server_url) == ("access-1", "refresh-1", world.url)
    assert credential.expires == client.clock.now() + 3600 * 1000
    assert credential.client.redirect_uri == asked["redirect_uri"]
    assert "access-1" not in repr(credential) + repr(credential.client)


async def test_a_registered_client_is_a_native_one(world: World, client: Client) -> None:
    """MCP-107: with the exact redirect address, and without a secret if the issuer takes that."""
    await client.sign_in()
    assert world.clients["client-1"] == {
        "client_id": "client-1",
        "client_name": "Holdfast",
        "redirect_uris": [world.sign_ins[0]["redirect_uri"]],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "scope": "read",
    }


async def test_a_registration_is_used_again_at_the_same_port(world: World, client: Client) -> None:
    """MCP-107, MCP-111: unless the port is taken, or its secret has expired."""
    first = await client.sign_in()
    second = await client.sign_in()
    assert (len(world.clients), second.client) == (1, first.client)

    taken = open_socket(urlsplit(first.client.redirect_uri).port or 0)
    assert taken is not None
    with taken:
        third = await client.sign_in()
    assert third.client.id == "client-2"
    assert third.client.redirect_uri != first.client.redirect_uri


async def test_a_client_is_never_used_at_another_issuer(world: World, client: Client) -> None:
    """MCP-107: a server that names another issuer gets a new registration there."""
    first = await client.sign_in()
    client.store.credential = first.replace(issuer="https://other.example")
    assert (await client.sign_in()).client.id == "client-2"
    client.store.credential = first.replace(server_url="https://other.example/mcp")
    assert (await client.sign_in()).client.id == "client-3"


async def test_an_expired_registration_is_not_used(world: World, client: Client) -> None:
    """MCP-107."""
    world.server_document["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    register = world.issuer.routes["/register"]

    def expiring(request: Received) -> Answer:
        answer = register(request)
        assert isinstance(answer, Answer)
        return Answer(201, {**answer.body, "client_secret_expires_at": client.clock.now() // 1000 + 60})

    world.issuer.routes["/register"] = expiring
    await client.sign_in()
    assert (await client.sign_in()).client.id == "client-1"
    client.clock.advance(61_000)
    assert (await client.sign_in()).client.id == "client-2"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_client_with_a_secret_authenticates_as_the_issuer_wants(
    world: World, client: Client, method: str
) -> None:
    """MCP-108: registered and configured."""
    world.server_document["token_endpoint_auth_methods_supported"] = [method]
    credential = await client.sign_in()
    assert (credential.client.auth_method, credential.client.secret) == (method, "secret of client-1")

    secret = "s&c:r t/ü"
    redirect = "http://127.0.0.1/callback"
    settings = ServerSettings(
        world.url, client_id="mine", client_secret=secret, issuer=world.issuer.url, redirect_uri=redirect
    )
    begun = await client.begin(settings)
    world.clients["mine"] = {
        "redirect_uris": [begun.redirect_uri],
        "client_secret": secret,
        "token_endpoint_auth_method": method,
    }
    await browse(begun.url)
    configured = await begun.finish()
    await begun.close()
    assert (configured.client.kind, configured.client.secret) == ("configured", "")  # the configuration has it


async def test_a_configured_client_stays_with_its_issuer(world: World, client: Client) -> None:
    """MCP-107: a server that names another issuer later does not get the secret sent there."""
    credential = await client.sign_in()
    bound = credential.replace(
        client=OAuthClient("mine", "configured", "client_secret_post"), issuer="https://first.example"
    )
    mine = ServerSettings(world.url, client_id="mine", client_secret="hush")
    for known in (bound, bound.without_tokens()):
        client.store.credential = known
        with pytest.raises(IssuerChanged, match=r"known to https://first\.example, .* names another"):
            await client.begin(mine)
    for settings, known in [
        (mine, bound.replace(issuer=world.issuer.url)),
        (msgspec.structs.replace(mine, issuer=world.issuer.url), bound),
        (ServerSettings(world.url, client_id="new"), bound),
    ]:
        client.store.credential = known
        await (await client.begin(settings)).close()


async def test_an_address_as_client_id_is_a_document(world: World, client: Client) -> None:
    """MCP-107: configured, or Holdfast's own where the issuer supports it."""
    document = "https://client.example/holdfast.json"
    begun = await client.begin(ServerSettings(world.url, client_id=document))
    assert parameters(begun)["client_id"] == document
    await begun.close()

    own = ClientIdentity("Holdfast", document)
    for supported, expected in ((True, document), (False, "client-1")):
        world.server_document["client_id_metadata_document_supported"] = supported
        begun = await begin_sign_in(client.settings, own, client.requests, client.clock.now)
        assert parameters(begun)["client_id"] == expected
        await begun.close()


def registered(method: str) -> Answer:
    return Answer(201, {"client_id": "x", "token_endpoint_auth_method": method})


async def test_an_issuer_that_registers_nobody_asks_for_a_client_id(world: World, client: Client) -> None:
    """MCP-107, MCP-121."""
    del world.server_document["registration_endpoint"]
    with pytest.raises(ClientRequired, match="`client_id`"):
        await client.begin()


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (
            Answer(400, {"error": "invalid_redirect_uri", "error_description": "no\n\x1b[31mloopback"}),
            RegistrationFailed,
            r"invalid_redirect_uri \(no \[31mloopback\)",
        ),
        (Answer(403, b"<html>no</html>"), RegistrationFailed, "status 403, no reason given"),
        (Answer(201, {"client_id": ""}), ResponseRefused, "no client id"),
        (Answer(201, {"client_id": "x" * 5000}), ResponseRefused, "too long"),
        (Answer(201, {"client_id": 7}), ResponseRefused, "registration"),
        (
            Answer(201, {"client_id": "x", "token_endpoint_auth_method": "private_key_jwt"}),
            RegistrationFailed,
            "private_key_jwt",
        ),
        (
            Answer(201, {"client_id": "x", "token_endpoint_auth_method": "client_secret_post"}),
            RegistrationFailed,
            "without the secret",
        ),
        (Answer(307, None, {"location": "https://evil.example/register"}), ResponseRefused, "redirects"),
    ],
)
async def test_a_registration_that_cannot_be_used(
    world: World, client: Client, answer: Answer, error: type[OAuthError], reason: str
) -> None:
    """MCP-106, MCP-107, MCP-121."""
    world.issuer.routes["/register"] = lambda request: answer
    with pytest.raises(error, match=reason) as raised:
        await client.begin()
    assert str(raised.value).isprintable()


# -- scopes --------------------------------------------------------------------------------------------------------


async def requested(client: Client, settings: ServerSettings | None = None) -> str | None:
    begun = await client.begin(settings)
    await begun.close()
    return parameters(begun).get("scope")


async def test_scopes_are_chosen_in_order(world: World, client: Client) -> None:
    """MCP-109: configured, of the challenge, of the resource, none."""
    assert await requested(client) == "read"
    world.challenge["scope"] = "files:read files:list"
    assert await requested(client) == "files:read files:list"
    configured = ServerSettings(world.url, scopes=("mine",))
    assert await requested(client, configured) == "mine"
    world.server_document["scopes_supported"] = ["offline_access", "email"]
    assert await requested(client) == "files:read files:list offline_access"
    assert await requested(client, configured) == "mine"
    del world.challenge["scope"], world.resource_document["scopes_supported"], world.server_document["scopes_supported"]
    assert await requested(client) is None


async def test_earlier_scopes_are_requested_again(world: World, client: Client) -> None:
    """MCP-109: also those that the server has asked for since."""
    credential = await client.sign_in()
    client.store.credential = credential.replace(requested=("a", "b"), wanted=("c",))
    world.challenge["scope"] = "b d"
    assert await requested(client) == "a b c d"
    assert await requested(client, ServerSettings(world.url, scopes=("mine",))) == "mine c"


# -- the response --------------------------------------------------------------------------------------------------


async def test_a_foreign_response_is_discarded_and_the_sign_in_waits_on(world: World, client: Client) -> None:
    """MCP-111, MCP-112: wrong state, wrong path, wrong host, wrong method, a repeated parameter; then the right one."""
    begun = await client.begin()
    done = asyncio.ensure_future(begun.finish())
    good = response(begun, world)
    own = urlsplit(begun.redirect_uri)
    for address, headers, method, status in [
        (response(begun, world, state="wrong"), {}, "GET", 400),
        (f"{begun.redirect_uri}?code=c", {}, "GET", 400),
        (f"{good}&code=other", {}, "GET", 400),
        (good.replace("/callback", "/favicon.ico"), {}, "GET", 404),
        (good, {"host": "evil.example"}, "GET", 404),
        (good, {}, "POST", 404),
        (f"http://{own.netloc}", {}, "GET", 404),
    ]:
        answer = await fetch(address, headers, method)
        assert (answer.status, b"<script" in answer.body) == (status, False)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not done.done()
    assert (await browse(begun.url)).status == 200
    credential = await done
    assert credential.access == "access-1"
    assert (await fetch(good)).status == 400  # only the first response counts
    await begun.close()


async def test_requests_that_are_too_long_or_never_end_do_not_disturb(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MCP-111."""
    monkeypatch.setattr(callback, "SECONDS", 0.05)
    begun = await client.begin()
    own = urlsplit(begun.redirect_uri)
    for sent in (b"GET /" + b"a" * callback.HEAD_BYTES * 3, b"GET /callback?co", b"\x00\xff\r\n\r\n", b""):
        reader, writer = await asyncio.open_connection(own.hostname, own.port)
        writer.write(sent)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
    idle = [await asyncio.open_connection(own.hostname, own.port) for _ in range(callback.MOST_CONNECTIONS)]
    for _, writer in idle:
        writer.close()
    await asyncio.sleep(0)
    await browse(begun.url)
    assert (await begun.finish()).access == "access-1"
    await begun.close()


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ({"iss": EVIL}, CallbackRefused, "another issuer"),
        ({"iss": None}, CallbackRefused, "does not name its issuer"),
        (
            {"iss": "https://evil.example", "error": "x", "error_description": "CALL 555"},
            CallbackRefused,
            "another issuer",
        ),
        (
            {"code": None, "error": "access_denied", "error_description": "not\ttoday"},
            AccessDenied,
            r"access_denied \(not today\)",
        ),
        ({"code": None}, CallbackRefused, "no code"),
        ({"code": "x" * 9000}, CallbackRefused, "no code"),
        ({"code": "unknown"}, TokenRefused, "invalid_grant"),
    ],
)
async def test_a_response_that_ends_the_sign_in(
    world: World, client: Client, changes: dict[str, str | None], error: type[OAuthError], reason: str
) -> None:
    """MCP-112, MCP-121: nothing of a response of another issuer is shown or sent."""
    world.callback = changes
    begun = await client.begin()
    page = await browse(begun.url)
    with pytest.raises(error, match=reason) as raised:
        await begun.finish()
    await begun.close()
    assert "CALL 555" not in str(raised.value) + page.body.decode()
    assert bool(world.token_requests) == (error is TokenRefused)


async def test_an_issuer_that_promises_no_iss_may_send_one(world: World, client: Client) -> None:
    """MCP-112: it is compared all the same."""
    world.server_document["authorization_response_iss_parameter_supported"] = False
    world.callback = {"iss": None}
    await client.sign_in()
    world.callback = {"iss": f"{world.issuer.url}/"}
    begun = await client.begin()
    await browse(begun.url)
    with pytest.raises(CallbackRefused, match="another issuer"):
        await begun.finish()
    await begun.close()


async def test_the_address_can_be_pasted(world: World, client: Client) -> None:
    """MCP-113: with the same checks; a foreign one is refused and the sign-in goes on."""
    begun = await client.begin()
    for text in (response(begun, world, state="wrong"), "code=x&state=", "bare-code", "http://[bad?code=1", ""):
        with pytest.raises(CallbackRefused):
            begun.paste(text)
    sent = (await fetch(begun.url)).headers["location"]
    begun.paste(f"  {sent}\n")
    assert (await begun.finish()).access == "access-1"
    with pytest.raises(CallbackRefused, match="already"):
        begun.paste(sent)
    await begun.close()


async def test_a_bare_code_is_enough_where_no_issuer_is_promised(world: World, client: Client) -> None:
    """MCP-113: PKCE binds it to this sign-in."""
    world.server_document["authorization_response_iss_parameter_supported"] = False
    begun = await client.begin()
    with pytest.raises(CallbackRefused, match="not an authorization code"):
        begun.paste("x" * 9000)
    sent = parse_qs(urlsplit((await fetch(begun.url)).headers["location"]).query)
    begun.paste(sent["code"][0])
    assert (await begun.finish()).access == "access-1"
    with pytest.raises(CallbackRefused, match="already"):
        begun.paste("another")
    await begun.close()


def test_parameters_that_are_ambiguous_or_endless_are_refused() -> None:
    """MCP-111, MCP-112."""
    for query in ("code=a&code=b", "&".join(f"p{i}=1" for i in range(60)), "code=%ff"):
        with pytest.raises(CallbackRefused):
            read_parameters(query)
    assert pasted_parameters("abc") is None
    assert pasted_parameters("code=a&state=b") == {"code": "a", "state": "b"}


# -- the redirect address ------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def test_the_redirect_address_is_configured(world: World, client: Client) -> None:
    """MCP-111: callback_port, else the port of redirect_uri; its path counts too."""
    port = free_port()
    for settings, address, listens in [
        (ServerSettings(world.url, callback_port=port), f"http://127.0.0.1:{port}/callback", True),
        (
            ServerSettings(world.url, redirect_uri=f"http://localhost:{port}/mcp/back"),
            f"http://localhost:{port}/mcp/back",
            True,
        ),
        (
            ServerSettings(world.url, redirect_uri="https://tunnel.example/cb", callback_port=port),
            "https://tunnel.example/cb",
            True,
        ),
        (ServerSettings(world.url, redirect_uri="https://tunnel.example/cb"), "https://tunnel.example/cb", False),
    ]:
        begun = await client.begin(settings)
        assert (begun.redirect_uri, begun.listens) == (address, listens)
        assert parameters(begun)["redirect_uri"] == address
        if listens:
            good, parts = response(begun, world, state="x"), urlsplit(address)
            assert (await fetch(f"http://127.0.0.1:{port}{parts.path}?{urlsplit(good).query}")).status == 400
            assert (await fetch(f"http://127.0.0.1:{port}/callback?{urlsplit(good).query}")).status == 400
        await begun.close()
    for refused in ("http://example.com/cb", "holdfast://callback", "javascript:alert(1)", "https://a@b.example/"):
        with pytest.raises(UrlRefused):
            await client.begin(ServerSettings(world.url, redirect_uri=refused))


async def test_a_port_that_is_taken_leaves_pasting(world: World, client: Client) -> None:
    """MCP-111, MCP-113."""
    taken = open_socket(0)
    assert taken is not None
    with taken:
        port = taken.getsockname()[1]
        begun = await client.begin(ServerSettings(world.url, callback_port=port))
        assert (begun.listens, begun.redirect_uri) == (False, f"http://127.0.0.1:{port}/callback")
        begun.paste((await fetch(begun.url)).headers["location"])
        assert (await begun.finish()).access == "access-1"
        await begun.close()


async def test_a_sign_in_that_is_given_up_frees_its_port(world: World, client: Client) -> None:
    """MCP-111."""
    begun = await client.begin()
    port = urlsplit(begun.redirect_uri).port
    assert port is not None
    await begun.close()
    again = open_socket(port)
    assert again is not None
    again.close()
    with pytest.raises(asyncio.CancelledError):
        await begun.finish()


# -- tokens --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"access_token": "a", "token_type": "mac"}, "not a bearer token: mac"),
        ({"access_token": "a\r\nx: y", "token_type": "bearer"}, "cannot be sent"),
        ({"access_token": "ü", "token_type": "bearer"}, "cannot be sent"),
        ({"access_token": "", "token_type": "bearer"}, "empty"),
        ({"access_token": "x" * 70_000, "token_type": "bearer"}, "too long"),
        ({"access_token": "a", "token_type": "bearer", "refresh_token": "b\n"}, "cannot be sent"),
        ({"access_token": ["a"], "token_type": "bearer"}, "cannot be read"),
        ({"token_type": "bearer"}, "cannot be read"),
        ({"access_token": "a", "token_type": None}, "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"access_token=a", "not JSON"),
        (b"x" * 300_000, "more than"),
    ],
)
async def test_tokens_that_cannot_be_used(world: World, client: Client, body: object, reason: str) -> None:
    """MCP-106, MCP-114."""
    world.token_answer = lambda answer: Answer(body=body)
    begun = await client.begin()
    await browse(begun.url)
    with pytest.raises(ResponseRefused, match=reason):
        await begun.finish()
    await begun.close()


@pytest.mark.parametrize(
    ("lifetime", "seconds"),
    [(60, 60), ("90", 90), (0, None), (None, None), (-1, None), (1e300, None), ("soon", None), ("nan", None)],
)
async def test_the_lifetime_of_a_token(world: World, client: Client, lifetime: object, seconds: int | None) -> None:
    """MCP-114: what makes no sense is unknown."""
    world.lifetime = lifetime  # type: ignore[assignment]
    credential = await client.sign_in()
    assert credential.expires == (NEVER if seconds is None else client.clock.now() + seconds * 1000)


@pytest.mark.parametrize("status", [200, 400])
async def test_an_error_of_the_token_endpoint_may_have_any_status(world: World, client: Client, status: int) -> None:
    """MCP-114, MCP-121."""
    world.token_answer = lambda answer: Answer(status, {"error": "bad_code", "error_description": None})
    begun = await client.begin()
    await browse(begun.url)
    with pytest.raises(TokenRefused, match=f"status {status}, bad_code"):
        await begun.finish()
    await begun.close()


async def test_answers_with_nothing_in_their_fields_are_read(world: World, client: Client) -> None:
    """MCP-102, MCP-107, MCP-114: some servers send null for what they do not have."""
    world.server_document |= {"client_id_metadata_document_supported": None, "scopes_supported": None}
    nothing = {"client_secret": None, "client_secret_expires_at": None, "token_endpoint_auth_method": None}
    register = world.issuer.routes["/register"]

    def registered(request: Received) -> Answer:
        answer = register(request)
        assert isinstance(answer, Answer)
        return Answer(201, {**answer.body, **nothing})

    def without_type(answer: Answer) -> Answer:
        del answer.body["token_type"]
        return Answer(body={**answer.body, "refresh_token": None, "scope": None, "expires_in": None})

    world.issuer.routes["/register"] = registered
    world.token_answer = without_type
    credential = await client.sign_in()
    assert (credential.access, credential.refresh, credential.expires) == ("access-1", "", NEVER)


async def test_parameters_of_the_endpoint_stay_unless_they_are_ours(world: World, client: Client) -> None:
    """MCP-110."""
    world.server_document["authorization_endpoint"] += "?tenant=7&redirect_uri=https://evil.example&state=known"
    begun = await client.begin()
    asked = parse_qs(urlsplit(begun.url).query)
    assert asked["tenant"] == ["7"]
    assert asked["redirect_uri"] == [begun.redirect_uri]
    assert asked["state"] != ["known"]
    await begun.close()
