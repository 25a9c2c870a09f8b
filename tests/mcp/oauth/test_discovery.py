"""How the authorization server of an MCP server is found, and which metadata is refused."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mcp.oauth.authorization_server import Answer, Received, World, authorization_world
from tests.mcp.oauth.conftest import Client, LoopbackOnly

from holdfast.mcp.oauth.challenge import BearerChallenge
from holdfast.mcp.oauth.discovery import Discovered, discover
from holdfast.mcp.oauth.errors import (
    DiscoveryFailed,
    OAuthError,
    OAuthUnreachable,
    ResponseRefused,
    UrlRefused,
)
from holdfast.mcp.oauth.metadata import ResourceMetadata, ServerMetadata, check_metadata
from holdfast.mcp.oauth.requests import BODY_BYTES, OAuthRequests, Reply
from holdfast.mcp.oauth.settings import ServerSettings

pytestmark = pytest.mark.anyio
BOMB = gzip.compress(b" " * 2**22)
RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


async def found(client: Client, challenge: BearerChallenge | None = None) -> Discovered:
    return await discover(client.requests, client.settings.url, challenge or BearerChallenge())


def document(body: Any) -> Any:
    return lambda request: Answer(body=body)


# -- the resource --------------------------------------------------------------------------------------------------


async def test_the_address_of_the_challenge_comes_first(world: World, client: Client) -> None:
    """MCP-101: then the well-known addresses, with the server's path and without."""
    world.mcp.routes["/elsewhere"] = document(world.resource_document)
    await found(client, BearerChallenge(f"{world.mcp.url}/elsewhere"))
    assert world.mcp.paths() == ["/elsewhere"]

    world.mcp.received.clear()
    await found(client)
    assert world.mcp.paths() == [f"{RESOURCE}/mcp"]

    client.settings = ServerSettings(f"{world.url}/")
    world.mcp.received.clear()
    await found(client)
    assert world.mcp.paths() == [f"{RESOURCE}/mcp/", f"{RESOURCE}/mcp"]

    client.settings = ServerSettings(world.url)
    world.mcp.routes[RESOURCE] = world.mcp.routes.pop(f"{RESOURCE}/mcp")
    world.mcp.received.clear()
    await found(client, BearerChallenge(f"{world.mcp.url}/gone"))
    assert world.mcp.paths() == ["/gone", f"{RESOURCE}/mcp", RESOURCE]


@pytest.mark.parametrize("resource", ["", "/", "/mcp", "/mcp/"])
async def test_a_resource_may_be_above_the_server(world: World, client: Client, resource: str) -> None:
    """MCP-101: its own identifier is what the token is for."""
    world.resource_document["resource"] = f"{world.mcp.url}{resource}"
    assert (await found(client)).resource == f"{world.mcp.url}{resource}"


async def test_without_an_identifier_the_servers_url_is_the_resource(world: World, client: Client) -> None:
    """MCP-101: without its query, which may hold a key."""
    del world.resource_document["resource"]
    client.settings = ServerSettings(f"{world.url}?key=secret")
    assert (await found(client)).resource == world.url


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ({"resource": "https://other.example/mcp"}, DiscoveryFailed, "another resource: https://other.example/mcp"),
        ({"resource": "{mcp}/mcpx"}, DiscoveryFailed, "another resource"),
        ({"resource": "{mcp}/mcp/below"}, DiscoveryFailed, "another resource"),
        ({"resource": "javascript:alert(1)"}, UrlRefused, "resource"),
        ({"authorization_servers": []}, DiscoveryFailed, "names no authorization server"),
        ({"authorization_servers": "x"}, ResponseRefused, "cannot be read"),
        ({"authorization_servers": ["javascript:alert(1)"]}, UrlRefused, "authorization server"),
        ({"authorization_servers": ["http://plain.example"]}, UrlRefused, "not an https address"),
        ({"authorization_servers": ["https://u:p@x.example"]}, UrlRefused, "user name"),
        ({"authorization_servers": ["https://x.example#f"]}, UrlRefused, "fragment"),
        ({"authorization_servers": ["https://internal.example"]}, UrlRefused, "not a public address"),
    ],
)
async def test_metadata_of_a_resource_that_is_refused(
    world: World, client: Client, changes: dict[str, Any], error: type[OAuthError], reason: str
) -> None:
    """MCP-101, MCP-103, MCP-105: it is not taken for a server without metadata."""
    text = json.dumps(changes).replace("{mcp}", world.mcp.url)
    world.resource_document |= json.loads(text)
    with pytest.raises(error, match=reason):
        await found(client)
    assert not world.issuer.received


@pytest.mark.parametrize("address", ["javascript:alert(1)", "file:///etc/passwd", "http://x.example/", "/relative", ""])
async def test_an_address_of_a_challenge_that_is_refused(client: Client, address: str) -> None:
    """MCP-105."""
    with pytest.raises(UrlRefused):
        await found(client, BearerChallenge(address))


# -- the issuer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "addresses"),
    [
        ("", [SERVER, OPENID]),
        ("/tenant/7", [f"{SERVER}/tenant/7", f"{OPENID}/tenant/7", f"/tenant/7{OPENID}"]),
        ("/tenant/", [f"{SERVER}/tenant", f"{OPENID}/tenant", f"/tenant{OPENID}"]),
    ],
)
async def test_metadata_of_an_issuer_is_looked_for_in_order(
    world: World, client: Client, path: str, addresses: list[str]
) -> None:
    """MCP-102: OAuth first, then OpenID Connect, before the path and after it."""
    issuer = f"{world.issuer.url}{path}"
    world.resource_document["authorization_servers"] = [issuer]
    world.issuer.routes = {addresses[-1]: document({**world.server_document, "issuer": issuer})}
    assert (await found(client)).server.issuer == issuer
    assert world.issuer.paths() == addresses


async def test_a_page_for_every_address_is_not_metadata(world: World, client: Client) -> None:
    """MCP-102: a site may answer every path with its start page."""
    world.issuer.routes = {OPENID: document(world.server_document)}
    world.issuer.other = lambda request: Answer(body=b"<!doctype html>")
    assert (await found(client)).server.issuer == world.issuer.url


async def test_metadata_of_another_issuer_is_refused(world: World, client: Client) -> None:
    """MCP-102: a mix-up of two authorization servers cannot begin."""
    for issuer in ("https://honest.example", f"{world.issuer.url}/tenant", world.issuer.url.upper()):
        world.server_document["issuer"] = issuer
        with pytest.raises(DiscoveryFailed, match="of another issuer"):
            await found(client)
    world.server_document["issuer"] = f"{world.issuer.url}/"
    assert (await found(client)).server.issuer == f"{world.issuer.url}/"


async def test_the_first_usable_issuer_counts(world: World, client: Client) -> None:
    """MCP-102: three are tried, and otherwise the failure of the first one is told."""
    async with authorization_world() as other:
        gone = [f"{other.issuer.url}/{n}" for n in range(3)]
        world.resource_document["authorization_servers"] = [*gone[:2], world.issuer.url]
        assert (await found(client)).server.issuer == world.issuer.url
        world.resource_document["authorization_servers"] = [*gone, world.issuer.url]
        with pytest.raises(DiscoveryFailed, match=f"{gone[0]} has no metadata"):
            await found(client)


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ({"code_challenge_methods_supported": None}, DiscoveryFailed, "PKCE"),
        ({"code_challenge_methods_supported": ["plain"]}, DiscoveryFailed, "PKCE"),
        ({"response_types_supported": ["token"]}, DiscoveryFailed, "authorization codes"),
        ({"authorization_endpoint": "javascript:alert(document.cookie)"}, UrlRefused, "authorization endpoint"),
        ({"authorization_endpoint": "https://x.example/a\nb"}, UrlRefused, "authorization endpoint"),
        ({"authorization_endpoint": 'https://x.example/"&calc"'}, UrlRefused, "authorization endpoint"),
        ({"authorization_endpoint": "https://x.example/" + "a" * 9000}, UrlRefused, "longer than"),
        ({"token_endpoint": "http://x.example/token"}, UrlRefused, "token endpoint"),
        ({"token_endpoint": "https://[bad/token"}, UrlRefused, "token endpoint"),
        ({"registration_endpoint": "ftp://x.example/"}, UrlRefused, "registration endpoint"),
        ({"token_endpoint": 7}, ResponseRefused, "cannot be read"),
        ({"issuer": None}, ResponseRefused, "cannot be read"),
    ],
)
async def test_metadata_of_an_issuer_that_is_refused(
    world: World, client: Client, changes: dict[str, Any], error: type[OAuthError], reason: str
) -> None:
    """MCP-104, MCP-105."""
    world.server_document |= changes
    with pytest.raises(error, match=reason):
        await found(client)


# -- servers of 2025-03-26 -----------------------------------------------------------------------------------------


async def test_the_origin_of_an_old_server_is_its_issuer(world: World, client: Client) -> None:
    """MCP-103."""
    own = world.mcp.url
    world.mcp.routes = {SERVER: document({**world.server_document, "issuer": own})}
    old = await found(client)
    assert (old.resource, old.server.issuer, old.scopes) == (world.url, own, None)
    assert old.server.token_endpoint == f"{world.issuer.url}/token"
    world.mcp.routes = {SERVER: document(world.server_document)}
    with pytest.raises(DiscoveryFailed, match="of another issuer"):
        await found(client)


async def test_an_old_server_without_metadata_has_fixed_endpoints(world: World, client: Client) -> None:
    """MCP-103."""
    world.mcp.routes = {}
    server = (await found(client)).server
    own = world.mcp.url
    assert (server.issuer, server.authorization_endpoint, server.token_endpoint, server.registration_endpoint) == (
        own,
        f"{own}/authorize",
        f"{own}/token",
        f"{own}/register",
    )


async def test_a_person_signs_in_at_an_old_server(world: World, client: Client) -> None:
    """MCP-103: the whole flow, at the fixed endpoints."""
    world.mcp.routes = {"/mcp": world.answer_mcp} | {
        path: handler for path, handler in world.issuer.routes.items() if path != SERVER
    }
    world.challenge = {}
    world.callback = {"iss": None}
    assert (await client.sign_in()).issuer == world.mcp.url


async def test_a_failure_is_not_taken_for_absence(world: World, client: Client) -> None:
    """MCP-103: the tokens of an outage would go to fixed endpoints."""
    world.mcp.routes[f"{RESOURCE}/mcp"] = lambda request: Answer(503, {})
    with pytest.raises(OAuthUnreachable, match="status 503"):
        await found(client)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from([*ServerMetadata.__struct_fields__, *ResourceMetadata.__struct_fields__])


@given(st.dictionaries(FIELDS, JSON | st.just("https://x.example"), max_size=12))
def test_any_metadata_is_used_or_refused(document: dict[str, Any]) -> None:
    """MCP-102, MCP-104, MCP-105: with an error that names the reason."""
    whole = {"issuer": "https://x.example", "code_challenge_methods_supported": ["S256"], **document}
    for given_document in (document, whole):
        reply = Reply(200, {}, json.dumps(given_document).encode())
        with suppress(OAuthError):
            server = check_metadata(reply.decode(ServerMetadata, "metadata"), "https://x.example")
            assert server.token_endpoint.startswith("https://")
        with suppress(OAuthError):
            reply.decode(ResourceMetadata, "metadata")


# -- bounds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (Answer(body=b" " * (BODY_BYTES + 1)), ResponseRefused, "more than"),
        (
            Answer(body=gzip.compress(b" " * 2**22), headers={"content-encoding": "gzip"}),
            ResponseRefused,
            "times|more than",
        ),
        (Answer(body=b"{", headers={"content-encoding": "br"}), ResponseRefused, "br"),
        (Answer(body=b"{", headers={"content-encoding": "gzip"}), OAuthUnreachable, "cannot be reached"),
        (Answer(body=b'{"a":' * 50_000), ResponseRefused, "cannot be read"),
        (Answer(body=b'{"authorization_servers": ["\xff"]}'), ResponseRefused, "cannot be read"),
        (Answer(302, b"", {"location": "https://evil.example/"}), ResponseRefused, "another host"),
        (Answer(302, b"", {"location": "javascript:alert(1)"}), ResponseRefused, "another host"),
        (Answer(302, b"", {"location": "http://[bad"}), ResponseRefused, "another host"),
        (Answer(302, b"", {"location": f"{RESOURCE}/mcp"}), ResponseRefused, "too often"),
    ],
)
async def test_answers_that_are_too_large_or_lead_away(
    world: World, client: Client, answer: Answer, error: type[OAuthError], reason: str
) -> None:
    """MCP-105, MCP-106."""
    world.mcp.routes[f"{RESOURCE}/mcp"] = lambda request: answer
    with pytest.raises(error, match=reason):
        await found(client)


async def test_a_redirect_on_the_same_origin_is_followed(world: World, client: Client) -> None:
    """MCP-106."""
    world.mcp.routes["/moved"] = world.mcp.routes[f"{RESOURCE}/mcp"]
    world.mcp.routes[f"{RESOURCE}/mcp"] = lambda request: Answer(301, b"", {"location": "/moved"})
    assert (await found(client)).resource == world.url


async def test_a_server_that_does_not_answer_is_not_waited_for(world: World, client: Client) -> None:
    """MCP-106: also one that sends its body byte by byte."""
    never = asyncio.Event()

    async def silent(request: Received) -> Answer:
        await never.wait()
        return Answer()

    world.mcp.routes[f"{RESOURCE}/mcp"] = silent
    world.mcp.routes[RESOURCE] = silent
    client.requests = OAuthRequests(LoopbackOnly(), seconds=0.03)
    with pytest.raises(OAuthUnreachable, match="in time"):
        await found(client)
    never.set()


async def test_a_compressed_document_is_read(world: World, client: Client) -> None:
    """MCP-106."""
    body = gzip.compress(json.dumps(world.resource_document).encode())
    world.mcp.routes[f"{RESOURCE}/mcp"] = lambda request: Answer(body=body, headers={"content-encoding": "gzip"})
    assert (await found(client)).resource == world.url
