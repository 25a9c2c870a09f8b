"""Tokens for requests: when they are renewed, by whom, and what follows from a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from tests.mcp.oauth.authorization_server import Answer, Received, World, fetch
from tests.mcp.oauth.conftest import Client

from holdfast.mcp.errors import Challenge, McpError, NeedsAuthorization
from holdfast.mcp.oauth.authorizer import FRESH_MS, RETRY_MS, OAuthAuthorizer
from holdfast.mcp.oauth.errors import Forbidden, OAuthUnreachable
from holdfast.mcp.oauth.settings import ServerSettings

pytestmark = pytest.mark.anyio
HOUR = 3600 * 1000


async def sent(authorizer: OAuthAuthorizer) -> dict[str, str]:
    headers: dict[str, str] = {}
    await authorizer.authorize(headers)
    return headers


async def request(client: Client, authorizer: OAuthAuthorizer | None = None) -> int:
    """What a transport does with one request; the status at its end."""
    authorizer = authorizer or client.authorizer
    headers = await sent(authorizer)
    answer = await fetch(client.world.url, headers)
    challenge = Challenge(client.world.url, answer.status, answer.headers)
    if answer.status in (401, 403) and await authorizer.on_challenge(challenge, headers):
        answer = await fetch(client.world.url, await sent(authorizer))
    return answer.status


def refusal(status: int = 401, **parameters: str) -> Challenge:
    header = ", ".join(f'{name}="{value}"' for name, value in parameters.items())
    return Challenge("u", status, {"www-authenticate": f"Bearer {header}"})


def renewals(world: World) -> int:
    return sum(form["grant_type"] == "refresh_token" for form in world.token_requests)


async def test_without_a_sign_in_a_refused_request_needs_authorization(world: World, client: Client) -> None:
    """MCP-117: and nothing is sent to anybody else."""
    world.challenge["scope"] = "a b"
    with pytest.raises(NeedsAuthorization, match="nobody has signed in") as raised:
        await request(client)
    assert 'scope="a b"' in raised.value.challenge.www_authenticate
    assert not world.issuer.received
    begun = await client.begin(challenge=None)
    await begun.close()


async def test_a_request_carries_the_token(world: World, client: Client) -> None:
    """MCP-110, MCP-117."""
    await client.sign_in()
    assert await sent(client.authorizer) == {"authorization": "Bearer access-1"}
    assert await request(client) == 200
    given = {"authorization": "Bearer configured"}
    await client.authorizer.authorize(given)
    assert given == {"authorization": "Bearer access-1"}
    client.store.credential = None
    given = {"authorization": "Bearer configured"}
    await client.authorizer.authorize(given)
    assert given == {"authorization": "Bearer configured"}


async def test_a_credential_of_another_server_is_not_sent(world: World, client: Client) -> None:
    """MCP-115."""
    client.store.credential = (await client.sign_in()).replace(server_url=f"{world.url}/other")
    assert await sent(client.authorizer) == {}
    with pytest.raises(NeedsAuthorization, match="nobody"):
        await request(client)
    assert client.store.credential is not None


# -- renewal -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lifetime", "ahead"), [(3600, 300), (600, 60), (60, 6)])
async def test_a_token_is_renewed_before_its_end(world: World, client: Client, lifetime: int, ahead: int) -> None:
    """MCP-116: five minutes, or a tenth of a shorter life."""
    world.lifetime = lifetime
    await client.sign_in()
    client.clock.advance((lifetime - ahead) * 1000 - 1)
    assert (await sent(client.authorizer), renewals(world)) == ({"authorization": "Bearer access-1"}, 0)
    client.clock.advance(1)
    assert (await sent(client.authorizer), renewals(world)) == ({"authorization": "Bearer access-2"}, 1)
    assert client.store.credential is not None
    assert (client.store.credential.refresh, client.store.credential.expires) == (
        "refresh-2",
        client.clock.now() + lifetime * 1000,
    )
    assert (await sent(client.authorizer), renewals(world)) == ({"authorization": "Bearer access-2"}, 1)
    assert world.token_requests[-1]["resource"] == world.url


async def test_a_refresh_token_that_does_not_rotate_stays(world: World, client: Client) -> None:
    """MCP-116."""
    await client.sign_in()
    world.rotates = False
    for _ in range(2):
        client.clock.advance(HOUR)
        await sent(client.authorizer)
    assert client.store.credential is not None
    assert (client.store.credential.access, client.store.credential.refresh) == ("access-3", "refresh-1")


async def test_many_requests_and_processes_renew_once(world: World, client: Client) -> None:
    """MCP-116: the refresh token is used once, whoever needs it."""
    await client.sign_in()
    client.clock.advance(HOUR)
    others = [client.authorizer, client.another(), client.another()]
    found = await asyncio.gather(*(sent(each) for each in others * 5))
    assert {headers["authorization"] for headers in found} == {"Bearer access-2"}
    assert renewals(world) == 1


async def test_a_cancelled_request_does_not_lose_the_new_token(world: World, client: Client) -> None:
    """MCP-116: the renewal runs to its end and is stored."""
    await client.sign_in()
    client.clock.advance(HOUR)
    asked, proceed = asyncio.Event(), asyncio.Event()
    answer = world.issuer.routes["/token"]

    async def slow(received: Received) -> Answer:
        asked.set()
        await proceed.wait()
        made = answer(received)
        assert isinstance(made, Answer)
        return made

    world.issuer.routes["/token"] = slow
    waiting = asyncio.ensure_future(sent(client.authorizer))
    await asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    proceed.set()
    await client.authorizer.close()
    assert client.store.credential is not None
    assert client.store.credential.refresh == "refresh-2"


async def test_a_sign_out_during_a_renewal_is_not_undone(world: World, client: Client) -> None:
    """MCP-116."""
    await client.sign_in()
    client.clock.advance(HOUR)
    answer = world.issuer.routes["/token"]

    def signed_out(received: Received) -> Answer:
        client.store.credential = None
        made = answer(received)
        assert isinstance(made, Answer)
        return made

    world.issuer.routes["/token"] = signed_out
    await sent(client.authorizer)
    assert client.store.credential is None


async def test_a_sign_in_during_a_renewal_is_not_overwritten(world: World, client: Client) -> None:
    """MCP-116: the tokens of the person who signed in later count."""
    before = await client.sign_in()
    client.clock.advance(HOUR)
    answer = world.issuer.routes["/token"]

    def signed_in(received: Received) -> Answer:
        client.store.credential = before.replace(access="of the sign-in", expires=client.clock.now() + HOUR)
        made = answer(received)
        assert isinstance(made, Answer)
        return made

    world.issuer.routes["/token"] = signed_in
    await sent(client.authorizer)
    assert await sent(client.authorizer) == {"authorization": "Bearer of the sign-in"}


async def test_an_outage_keeps_the_credential_and_a_valid_token(world: World, client: Client) -> None:
    """MCP-116: nobody has to sign in because of it, and requests do not wait for it again and again."""
    await client.sign_in()
    world.token_answer = lambda answer: Answer(503, {})
    client.clock.advance(HOUR - 1000)
    for _ in range(3):
        assert await sent(client.authorizer) == {"authorization": "Bearer access-1"}
    assert renewals(world) == 1
    client.clock.advance(1000)
    with pytest.raises(OAuthUnreachable, match="status 503"):
        await sent(client.authorizer)
    client.clock.advance(RETRY_MS)
    world.token_answer = lambda answer: answer
    assert client.store.credential is not None
    world.refresh["refresh-1"] = client.store.credential.client.id
    assert (await sent(client.authorizer))["authorization"] == f"Bearer access-{world.issued}"


@pytest.mark.parametrize("code", ["invalid_grant", "invalid_client", "unauthorized_client"])
async def test_a_credential_that_was_withdrawn_is_removed(world: World, client: Client, code: str) -> None:
    """MCP-116: whether the token was about to end, has ended, or was refused."""
    credential = await client.sign_in()
    world.token_answer = lambda answer: Answer(400, {"error": code})
    for advance in (HOUR - 1000, 1000):
        client.store.credential = credential
        client.clock.advance(advance)
        with pytest.raises(NeedsAuthorization, match="cannot be renewed"):
            await sent(client.authorizer)
        assert client.store.credential is None


async def test_another_refusal_of_a_renewal_keeps_the_credential(world: World, client: Client) -> None:
    """MCP-116: it tells why, and a person can sign in again."""
    await client.sign_in()
    world.token_answer = lambda answer: Answer(400, {"error": "invalid_target", "error_description": "gone"})
    client.clock.advance(HOUR)
    with pytest.raises(NeedsAuthorization, match=r"invalid_target \(gone\)"):
        await sent(client.authorizer)
    assert client.store.credential is not None


async def test_a_token_without_a_refresh_token_is_used_to_its_end(world: World, client: Client) -> None:
    """MCP-116."""
    client.store.credential = (await client.sign_in()).replace(refresh="")
    client.clock.advance(HOUR - 1000)
    assert await sent(client.authorizer) == {"authorization": "Bearer access-1"}
    client.clock.advance(1000)
    with pytest.raises(NeedsAuthorization, match="has expired"):
        await sent(client.authorizer)
    assert client.store.credential is None


async def test_a_configured_secret_is_taken_from_the_configuration(world: World, client: Client) -> None:
    """MCP-107, MCP-116."""
    world.server_document["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    credential = await client.sign_in()
    world.clients["client-1"]["client_secret"] = "configured"
    configured = type(credential.client)(credential.client.id, "configured", "client_secret_post")
    client.store.credential = credential.replace(client=configured)
    client.settings = ServerSettings(world.url, client_id="client-1", client_secret="configured")
    client.clock.advance(HOUR)
    assert await sent(client.another()) == {"authorization": "Bearer access-2"}


# -- refusals ------------------------------------------------------------------------------------------------------


async def test_a_refused_token_is_renewed_and_the_request_repeated(world: World, client: Client) -> None:
    """MCP-117: a server may end a token before its time."""
    await client.sign_in()
    client.clock.advance(FRESH_MS)
    world.access.clear()
    assert await request(client) == 200
    assert renewals(world) == 1


async def test_a_token_that_another_process_renewed_is_used(world: World, client: Client) -> None:
    """MCP-117."""
    await client.sign_in()
    headers = await sent(client.authorizer)
    client.clock.advance(HOUR)
    await sent(client.another())
    assert await client.authorizer.on_challenge(refusal(), headers)
    assert renewals(world) == 1


async def test_a_server_that_refuses_every_token_is_not_asked_forever(world: World, client: Client) -> None:
    """MCP-117: a fresh token that is refused means that a person has to sign in."""
    await client.sign_in()
    client.clock.advance(FRESH_MS)
    world.mcp.routes["/mcp"] = lambda received: Answer(401, {}, {"www-authenticate": "Bearer"})
    assert await request(client) == 401
    with pytest.raises(NeedsAuthorization, match="does not accept"):
        await request(client)
    assert (client.store.credential, renewals(world)) == (None, 1)


async def test_a_refused_token_that_cannot_be_renewed_is_removed(world: World, client: Client) -> None:
    """MCP-117: not if the issuer cannot be reached."""
    credential = await client.sign_in()
    client.clock.advance(FRESH_MS)
    headers = await sent(client.authorizer)
    world.token_answer = lambda answer: Answer(500, {})
    with pytest.raises(OAuthUnreachable):
        await client.authorizer.on_challenge(refusal(), headers)
    assert client.store.credential == credential
    client.store.credential = credential.replace(refresh="")
    with pytest.raises(NeedsAuthorization):
        await client.authorizer.on_challenge(refusal(), headers)
    assert client.store.credential is None


async def test_missing_scopes_are_requested_at_the_next_sign_in(world: World, client: Client) -> None:
    """MCP-118: together with the earlier ones. The token stays, for what it is good for."""
    await client.sign_in()
    headers = await sent(client.authorizer)
    with pytest.raises(NeedsAuthorization, match="more rights"):
        await client.authorizer.on_challenge(refusal(403, error="insufficient_scope", scope="write admin"), headers)
    assert await sent(client.authorizer) == headers
    assert (await client.sign_in()).requested == ("read", "write", "admin")
    assert world.sign_ins[-1]["scope"] == "read write admin"


@pytest.mark.parametrize(
    ("granted", "asked", "error"),
    [
        (None, "read", Forbidden),
        (("read", "write"), "write", Forbidden),
        (("read",), "write", NeedsAuthorization),
        (("read",), "", Forbidden),
    ],
)
async def test_a_token_that_has_the_scopes_is_refused_for_good(
    client: Client, granted: tuple[str, ...] | None, asked: str, error: type[McpError]
) -> None:
    """MCP-118: what was granted counts, not what was requested."""
    client.store.credential = (await client.sign_in()).replace(granted=granted)
    headers = await sent(client.authorizer)
    with pytest.raises(error):
        await client.authorizer.on_challenge(refusal(403, error="insufficient_scope", scope=asked), headers)
    assert client.store.credential is not None


async def test_other_refusals_are_no_matter_of_authorization(client: Client) -> None:
    """MCP-118."""
    await client.sign_in()
    headers: Mapping[str, str] = await sent(client.authorizer)
    with pytest.raises(Forbidden, match=r"access_denied \(never\)"):
        await client.authorizer.on_challenge(refusal(403, error="access_denied", error_description="never"), headers)


async def test_a_step_up_does_not_undo_a_renewal(world: World, client: Client) -> None:
    """MCP-116, MCP-118: the scopes are added to the credential that is stored by then."""
    await client.sign_in()
    headers = await sent(client.authorizer)
    async with client.store.exclusive():
        waiting = asyncio.ensure_future(
            client.authorizer.on_challenge(refusal(403, error="insufficient_scope", scope="w"), headers)
        )
        await asyncio.sleep(0.01)
        assert client.store.credential is not None
        client.store.credential = client.store.credential.replace(access="newer", refresh="newer")
    with pytest.raises(NeedsAuthorization):
        await waiting
    assert (client.store.credential.refresh, client.store.credential.wanted) == ("newer", ("w",))
