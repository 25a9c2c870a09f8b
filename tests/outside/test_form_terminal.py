"""Forms in the terminal of `holdfast run`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cli.conftest import Machine, Person, Server
from tests.mcp.oauth.authorization_server import authorization_world, browse
from tests.outside.scripted_provider import PATIENCE
from tests.outside.test_clients import Serve
from tests.outside.test_mcp_questions import NEW, SIZE, Asking, Remote, sign_in

from holdfast import Holdfast

pytestmark = pytest.mark.anyio

RUN = ("run", "--model", "demo/scripted", "go")
MANY: dict[str, Any] = {
    "message": "Tell me more",
    "requestedSchema": {
        "properties": {
            "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            "extras": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
            "gift": {"type": "boolean", "title": "As a gift?"},
            "note": {"type": "string", "default": "none"},
            "weight": {"type": "number"},
        }
    },
}


def prepare(machine: Machine, shop: Asking) -> None:
    """A model that orders, and a server whose tools are known."""
    allowed = [{"action": "shop_*", "resource": "*", "effect": "allow"}]
    machine.configure_user(mcp={"servers": {"shop": shop.config}}, permissions=allowed, holdfast={"titles": False})
    assert machine("mcp", "list").code == 0
    call = {"tool": "mcp_call", "input": {"tool": "shop_order", "arguments": {"item": "hat"}}}
    machine.script({"calls": [call]}, {"text": "Ah."})


def test_a_person_fills_in_a_form(holdfast: Machine) -> None:
    """API-621: field by field; a line that is no value is asked for again, and so is what the server side refuses."""
    shop = Asking(holdfast.home, NEW, [SIZE], [MANY])
    prepare(holdfast, shop)
    person = holdfast.at_terminal(*RUN)
    person.wait_for("? shop is requesting input")
    person.wait_for("The MCP server shop asks this and gets the answer. Never enter passwords or keys.")
    person.wait_for("Which size?")
    person.wait_for("A whole number.")
    person.wait_for("your answer:")
    person.type("large\n")
    person.wait_for("Please enter a whole number.")
    person.type("0\n")
    person.wait_for("field 'size': it is less than 1")
    person.wait_for("your answer:")
    person.type("7\n")
    person.wait_for("Tell me more")
    for shown, typed in (
        ("Green", "green"),
        ("c", "3,1"),
        ("As a gift?", "y"),
        ("Enter means none", ""),
        ("weight", ""),
    ):
        person.wait_for(shown)
        person.wait_for("your answer:")
        person.type(f"{typed}\n")
    ran = person.leave()
    assert (ran.code, ran.out) == (0, "Ah.\n")
    assert shop.acted == 1
    content = shop.heard()[-1]["inputResponses"]["q0"]["content"]
    assert content == {"colour": "g", "extras": ["c", "a"], "gift": True, "note": "none"}


def test_no_line_of_a_server_looks_like_one_of_ours(holdfast: Machine) -> None:
    """API-633"""
    asked = {"message": "Hello\n? bash wants to run\x1b[2J\r? ls", "requestedSchema": MANY["requestedSchema"]}
    shop = Asking(holdfast.home, NEW, [asked])
    prepare(holdfast, shop)
    person = holdfast.at_terminal(*RUN)
    person.wait_for("your answer:")
    person.type("\x04")
    person.leave()
    lines = person.shown.splitlines()
    assert "\n  ? bash wants to run[2J? ls" in person.shown
    assert [line for line in lines if line.startswith("?")] == ["? shop is requesting input"]


def test_the_end_of_input_cancels_a_form(holdfast: Machine) -> None:
    """API-621"""
    shop = Asking(holdfast.home, NEW, [SIZE])
    prepare(holdfast, shop)
    person = holdfast.at_terminal(*RUN)
    person.wait_for("your answer:")
    person.type("\x04")
    ran = person.leave()
    assert (ran.code, ran.out) == (0, "Ah.\n")
    assert shop.heard()[-1]["inputResponses"] == {"q0": {"action": "cancel"}}


@pytest.mark.parametrize("attached", [False, True])
def test_without_a_terminal_forms_are_cancelled(holdfast: Machine, serve: Serve, attached: bool) -> None:
    """API-621, MCP-254"""
    shop = Asking(holdfast.home, NEW, [SIZE])
    prepare(holdfast, shop)
    server: Server | None = serve("--no-auth") if attached else None
    ran = holdfast(*RUN, *(("--attach", server.url) if server is not None else ()))
    assert (ran.code, ran.out) == (0, "Ah.\n")
    assert shop.heard()[-1]["inputResponses"] == {"q0": {"action": "cancel"}}


@pytest.fixture
async def remote() -> AsyncIterator[Remote]:
    async with authorization_world() as oauth:
        yield Remote(oauth)


async def refused_run(machine: Machine, remote: Remote, *, issuer_fails: bool = False) -> Person:
    """A run whose call is refused for want of a credential."""
    allowed = [{"action": "shop_*", "resource": "*", "effect": "allow"}]
    machine.configure_user(mcp={"servers": {"shop": remote.config}}, permissions=allowed, holdfast={"titles": False})
    environment = {**machine.environment}
    async with Holdfast(
        machine.project, preset="allow", data=machine.data, environment=environment, recover=False
    ) as hf:
        await sign_in(hf, remote)
        await hf.mcp.connect("shop")
        async with asyncio.timeout(PATIENCE):
            while (await hf.mcp.list()).data[0].tools != 1:  # noqa: ASYNC110 - polls
                await asyncio.sleep(0.01)
    remote.revoke()
    if issuer_fails:
        remote.oauth.issuer.routes = {}
    call = {"tool": "mcp_call", "input": {"tool": "shop_order", "arguments": {}}}
    machine.script({"calls": [call]}, {"text": "Ah."})
    return machine.at_terminal(*RUN)


def addresses(person: Person, remote: Remote) -> list[str]:
    return [line for line in person.shown.splitlines() if line.startswith(remote.oauth.issuer.url)]


async def test_a_sign_in_that_a_call_waits_for_is_begun_in_the_terminal(holdfast: Machine, remote: Remote) -> None:
    """API-621, MCP-260: its address is shown, and the run goes on when the browser has been there."""
    person = await refused_run(holdfast, remote)
    await asyncio.to_thread(person.wait_for, "? the MCP server shop needs a sign-in")
    await asyncio.to_thread(person.wait_for, "Ctrl-D to give up:")
    (address,) = addresses(person, remote)
    await browse(address)
    await asyncio.to_thread(person.wait_for, "(signed in)")
    ran = await asyncio.to_thread(person.leave)
    assert (ran.code, ran.out) == (0, "Ah.\n")
    assert remote.called == [{}]


async def test_a_sign_in_that_fails_says_why_and_is_begun_again(holdfast: Machine, remote: Remote) -> None:
    """API-631"""
    documents = remote.oauth.issuer.routes
    person = await refused_run(holdfast, remote, issuer_fails=True)
    await asyncio.to_thread(person.wait_for, "sign-in could not begin")
    await asyncio.to_thread(person.wait_for, "Enter begins another sign-in")
    remote.oauth.issuer.routes = documents
    remote.oauth.callback = {"code": None, "error": "access_denied"}
    person.type("\n")
    await asyncio.to_thread(person.wait_for, "Ctrl-D to give up:")
    await browse(addresses(person, remote)[-1])
    await asyncio.to_thread(person.wait_for, "refused the sign-in: access_denied")
    await asyncio.to_thread(person.wait_for, "Enter begins another sign-in")
    remote.oauth.callback = {}
    person.type("\n")
    await asyncio.to_thread(person.wait_for, "Ctrl-D to give up:")
    await browse(addresses(person, remote)[-1])
    await asyncio.to_thread(person.wait_for, "(signed in)")
    assert (await asyncio.to_thread(person.leave)).out == "Ah.\n"
    assert remote.called == [{}]
