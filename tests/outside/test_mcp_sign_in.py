"""A person signs in to a remote MCP server: over the API, by hand, and with the command line."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.cli.conftest import Machine, Ran, rows
from tests.mcp.oauth.authorization_server import World as Servers
from tests.mcp.oauth.authorization_server import authorization_world, browse, fetch
from tests.outside.world import World, ask

from holdfast import Holdfast
from holdfast.schema.catalog import Attempt, AttemptStatus, CredentialConnection, OAuthMethod
from holdfast.schema.exceptions import HoldfastError

pytestmark = pytest.mark.anyio
Invoke = Callable[..., Ran]


def id_of(name: str, url: str) -> str:
    return "mcp_" + hashlib.sha1(f"{name}\0{url}".encode()).hexdigest()[:16]


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with authorization_world() as servers:
        yield servers


@pytest.fixture
async def hf(world: World, servers: Servers) -> AsyncIterator[Holdfast]:
    world.configure(mcp={"docs": {"type": "remote", "url": servers.url, "disabled": True}})
    async with world.host() as hf:
        yield hf


async def begin(hf: Holdfast, servers: Servers) -> Attempt:
    id = id_of("docs", servers.url)
    return (await hf.integrations.connect_oauth(id, method_id=id, inputs={})).data


async def ended(hf: Holdfast, attempt: Attempt) -> AttemptStatus:
    async with asyncio.timeout(10):
        while True:
            found = (await hf.integrations.attempt_status(attempt.attempt_id)).data
            if found.status != "pending":
                return found
            await asyncio.sleep(0.005)


async def test_a_person_signs_in_over_the_api(
    hf: Holdfast, world: World, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    """MCP-100, MCP-110, MCP-111, MCP-115: connect, the browser, status; the credential is stored and never shown."""
    caplog.set_level(logging.DEBUG)
    id = id_of("docs", servers.url)
    listed = next(found for found in (await hf.integrations.list()).data if found.id == id)
    assert (listed.name, listed.connections) == ("docs", ())
    assert listed.methods == (OAuthMethod(id=id, label="Sign in with a browser"),)
    assert not servers.mcp.received

    attempt = await begin(hf, servers)
    assert (attempt.mode, attempt.url.startswith(f"{servers.issuer.url}/authorize?")) == ("auto", True)
    assert b"received" in (await browse(attempt.url)).body
    assert (await ended(hf, attempt)).status == "complete"

    found = (await hf.integrations.get(id)).data
    assert found is not None
    (connection,) = found.connections
    assert isinstance(connection, CredentialConnection)
    path = world.data / "credentials.json"
    stored = json.loads(path.read_text(encoding="utf-8"))["credentials"][0]["value"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (stored["access"], stored["metadata"]["mcp"]["server_url"]) == ("access-1", servers.url)
    assert not [secret for secret in ("access-1", "refresh-1") if secret in caplog.text + repr(found)]
    await hf.credentials.remove(connection.id)
    assert "access-1" not in path.read_text(encoding="utf-8")


async def test_the_browser_may_be_on_another_machine(hf: Holdfast, servers: Servers) -> None:
    """MCP-112, MCP-113: the address is pasted; a foreign one is refused and the sign-in goes on."""
    attempt = await begin(hf, servers)
    sent = (await fetch(attempt.url)).headers["location"]
    with pytest.raises(HoldfastError, match="state does not match"):
        await hf.integrations.attempt_complete(attempt.attempt_id, code=sent.replace("state=", "state=x"))
    await hf.integrations.attempt_complete(attempt.attempt_id, code=sent)
    assert (await ended(hf, attempt)).status == "complete"


async def test_a_cancelled_sign_in_stops_listening(hf: Holdfast, servers: Servers) -> None:
    """MCP-111."""
    attempt = await begin(hf, servers)
    sent = (await fetch(attempt.url)).headers["location"]
    await hf.integrations.attempt_cancel(attempt.attempt_id)
    with pytest.raises(ConnectionError):
        await fetch(sent)
    assert not servers.token_requests


@pytest.mark.parametrize(
    ("document", "change", "reason"),
    [
        ("server", {"issuer": "https://honest.example"}, "of another issuer: https://honest.example"),
        ("server", {"authorization_endpoint": "javascript:alert(1)"}, "authorization endpoint"),
        ("server", {"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ("server", {"registration_endpoint": None}, "`client_id`"),
        ("resource", {"resource": "https://other.example"}, "another resource"),
        ("resource", {"authorization_servers": ["http://169.254.169.254"]}, "not an https address"),
        ("resource", {"authorization_servers": ["https://169.254.169.254"]}, "not a public address"),
    ],
)
async def test_a_hostile_server_is_refused_with_a_reason(
    hf: Holdfast, servers: Servers, document: str, change: dict[str, object], reason: str
) -> None:
    """MCP-101, MCP-102, MCP-104, MCP-105, MCP-107, MCP-121."""
    (servers.server_document if document == "server" else servers.resource_document).update(change)
    with pytest.raises(HoldfastError, match=reason):
        await begin(hf, servers)
    assert not servers.sign_ins


async def test_an_answer_of_another_issuer_ends_the_sign_in(hf: Holdfast, servers: Servers) -> None:
    """MCP-112, MCP-121: its code goes nowhere."""
    servers.callback = {"iss": "https://evil.example"}
    attempt = await begin(hf, servers)
    assert b"refused" in (await browse(attempt.url)).body
    found = await ended(hf, attempt)
    assert (found.status, found.message) == ("failed", "The authorization response is of another issuer")
    assert not servers.token_requests


async def test_an_old_server_is_its_own_issuer(hf: Holdfast, servers: Servers) -> None:
    """MCP-103."""
    servers.mcp.routes = {"/mcp": servers.answer_mcp, **servers.issuer.routes}
    servers.mcp.routes["/.well-known/oauth-authorization-server"] = servers.mcp.other
    servers.challenge, servers.callback = {}, {"iss": None}
    attempt = await begin(hf, servers)
    await browse(attempt.url)
    assert (await ended(hf, attempt)).status == "complete"


async def test_configured_values_are_used(world: World, servers: Servers) -> None:
    """MCP-107, MCP-108, MCP-109, MCP-111, MCP-376: client, secret, issuer, scope and port, in the spelling of either
    version."""
    oauth = {"clientId": "mine", "clientSecret": "hush", "scope": "a b", "redirectUri": "http://127.0.0.1/back"}
    oauth["issuer"] = servers.issuer.url
    world.configure(mcp={"docs": {"type": "remote", "url": servers.url, "oauth": oauth}})
    async with world.host() as hf:
        attempt = await begin(hf, servers)
        asked = attempt.url
        assert ("client_id=mine" in asked, "scope=a+b" in asked, "%2Fback" in asked) == (True, True, True)
        redirect = next(part for part in asked.split("&") if part.startswith("redirect_uri="))
        servers.clients["mine"] = {
            "redirect_uris": [unquote(redirect.partition("=")[2])],
            "token_endpoint_auth_method": "client_secret_basic",
            "client_secret": "hush",
        }
        await browse(asked)
        assert (await ended(hf, attempt)).status == "complete"
    assert "hush" not in (world.data / "credentials.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("issuer", [None, "https://login.example.com"])
async def test_a_configured_secret_goes_to_the_named_issuer_only(
    world: World, servers: Servers, issuer: str | None
) -> None:
    """MCP-376: the server alone does not decide where it is sent; the message says what to write."""
    oauth = {"client_id": "mine", "client_secret": "hush", **({"issuer": issuer} if issuer else {})}
    world.configure(mcp={"docs": {"type": "remote", "url": servers.url, "oauth": oauth}})
    expected = (
        f'"issuer": "{servers.issuer.url}"' if issuer is None else "belongs to the issuer https://login.example.com"
    )
    async with world.host() as hf:
        with pytest.raises(HoldfastError) as refused:
            await begin(hf, servers)
    assert expected in str(refused.value)
    assert servers.issuer.url in str(refused.value)
    assert "hush" not in str(refused.value)
    assert not servers.token_requests


async def test_servers_that_want_no_sign_in_are_not_listed(world: World, servers: Servers) -> None:
    """MCP-100: nor those of a project that is not trusted."""
    here = {"type": "remote", "url": servers.url}
    world.configure(mcp={"off": {**here, "oauth": False}, "local": {"type": "local", "command": ["x"]}})
    world.write("opencode.json", json.dumps({"mcp": {"theirs": here}}))
    async with world.host() as hf:
        known = (await hf.integrations.list()).data
    assert not [found for found in known if found.id.startswith("mcp_")]


async def test_a_server_that_is_added_or_moved_is_another_integration(world: World, servers: Servers) -> None:
    """MCP-100, MCP-115, CAT-192: from the next turn on. A sign-in stays, and counts again when the server is back."""
    world.configure()
    async with world.host() as hf:
        session = await hf.sessions.create()

        async def listed(url: str | None) -> dict[str, bool]:
            world.configure(**({"mcp": {"docs": {"type": "remote", "url": url}}} if url else {}))
            await ask(hf, session, "hello")
            known = (await hf.integrations.list()).data
            return {found.id: bool(found.connections) for found in known if found.id.startswith("mcp_")}

        assert await listed(servers.url) == {id_of("docs", servers.url): False}
        attempt = await begin(hf, servers)
        await browse(attempt.url)
        assert (await ended(hf, attempt)).status == "complete"
        moved = f"{servers.mcp.url}/moved"
        assert await listed(moved) == {id_of("docs", moved): False}
        assert await listed(None) == {}
        assert await listed(servers.url) == {id_of("docs", servers.url): True}


@pytest.mark.parametrize("configured", [True, False])
def test_nothing_of_oauth_is_imported_before_a_sign_in(holdfast: Machine, configured: bool) -> None:
    """MCP-100, MCP-172: a disabled server costs nothing of OAuth, and without a server nothing is imported."""
    docs = {"type": "remote", "url": "https://x.example", "disabled": True}
    holdfast.configure_user(mcp={"docs": docs} if configured else {})
    script = (
        "import asyncio, sys, holdfast\n"
        "async def main():\n"
        "    async with holdfast.Holdfast() as hf:\n"
        "        print([found.name for found in (await hf.integrations.list()).data if found.id[:4] == 'mcp_'])\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith('holdfast.mcp.oauth')])\n"
        "print('holdfast.mcp' in sys.modules or 'holdfast.core.mcp.server' in sys.modules)\n"
    )
    holdfast.started_by = [sys.executable, "-c", script]
    assert holdfast().out == ("['docs']\n[]\nTrue\n" if configured else "[]\n[]\nFalse\n")


# -- the command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def running() -> Iterator[Servers]:
    """The servers in a thread of their own."""
    ready, stop = threading.Event(), threading.Event()
    made: list[Servers] = []

    async def serve() -> None:
        async with authorization_world() as servers:
            made.append(servers)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    yield made[0]
    stop.set()
    thread.join()


def install_browser(holdfast: Machine) -> None:
    """A browser whose user agrees to everything."""
    folder = holdfast.home / "bin"
    folder.mkdir()
    script = folder / "xdg-open"
    program = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{program}' \"$1\"\n", encoding="utf-8")
    script.chmod(0o755)
    holdfast.environment |= {"PATH": f"{folder}:{holdfast.environment['PATH']}", "DISPLAY": ":0"}


def test_the_command_line_signs_in_with_a_browser(holdfast: Machine, here: Invoke, running: Servers) -> None:
    """MCP-119: `mcp:NAME` in login, list and logout."""
    holdfast.configure_user(mcp={"docs": {"type": "remote", "url": running.url}})
    install_browser(holdfast)
    person = holdfast.at_terminal("auth", "login", "mcp:docs")
    person.wait_for("signed in to mcp:docs")
    ran = person.leave()

    assert ran.code == 0
    assert "access-1" not in ran.out + ran.err
    assert "access-1" in (holdfast.data / "credentials.json").read_text(encoding="utf-8")
    assert rows(here("auth", "list")) == [["mcp:docs", "docs", "signed in (default)"]]
    assert here("auth", "logout", "mcp:docs").err == "removed the sign-in of mcp:docs\n"
    assert here("auth", "list").out == ""


def test_mcp_login_signs_in_too(holdfast: Machine, here: Invoke, running: Servers) -> None:
    """API-600: with a browser, and with a pasted address."""
    holdfast.configure_user(mcp={"docs": {"type": "remote", "url": running.url}})
    assert rows(here("mcp", "list"))[0][:2] == ["docs", "needs_auth"]
    install_browser(holdfast)
    person = holdfast.at_terminal("mcp", "login", "docs")
    person.wait_for("signed in to mcp:docs")
    assert person.leave().code == 0
    assert "access-1" in (holdfast.data / "credentials.json").read_text(encoding="utf-8")
    assert rows(here("mcp", "list"))[0][1] != "needs_auth"
    person = holdfast.at_terminal("mcp", "login", "docs", "--paste")
    person.wait_for("Afterwards paste")
    url = next(line for line in person.shown.split() if line.startswith(running.issuer.url))
    person.type(asyncio.run(fetch(url)).headers["location"] + "\n")
    person.wait_for("signed in to mcp:docs")
    assert person.leave().code == 0


def test_the_command_line_takes_a_pasted_address(holdfast: Machine, running: Servers) -> None:
    """MCP-113, MCP-119: where no browser can reach this machine."""
    holdfast.configure_user(mcp={"docs": {"type": "remote", "url": running.url}})
    person = holdfast.at_terminal("auth", "login", "mcp:docs", "--paste")
    person.wait_for("Afterwards paste")
    url = next(line for line in person.shown.split() if line.startswith(running.issuer.url))
    person.type(asyncio.run(fetch(url)).headers["location"] + "\n")
    person.wait_for("signed in to mcp:docs")
    assert person.leave().code == 0


def test_a_failed_login_says_why(here: Invoke, holdfast: Machine, running: Servers) -> None:
    """MCP-119, MCP-121: one line."""
    holdfast.configure_user(mcp={"docs": {"type": "remote", "url": running.url}})
    running.server_document["issuer"] = "https://evil.example"
    ran = here("auth", "login", "mcp:docs")
    assert (ran.code, "another issuer" in ran.complaint) == (1, True)
    running.server_document["issuer"] = running.issuer.url
    pasted = here("auth", "login", "mcp:docs", "--paste", given="https://x.example/?code=1&state=2\n")
    assert (pasted.code, "state does not match" in pasted.complaint) == (1, True)
    assert "nothing was pasted" in here("auth", "login", "mcp:docs", "--paste", given="").complaint
    assert here("auth", "login", "mcp:other").complaint.startswith("holdfast: No provider mcp:other.")
    assert here("auth", "logout", "mcp:docs").code == 1
    assert not Path(holdfast.data / "credentials.json").exists()
