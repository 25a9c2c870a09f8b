"""Questions of MCP servers and missing sign-ins: forms that everyone sees, and that outlive their process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine, finish
from tests.mcp.oauth.authorization_server import Answer, Received, authorization_world, browse
from tests.mcp.oauth.authorization_server import World as Servers
from tests.outside.mcp_world import Peer, known, servers
from tests.outside.scripted_provider import PATIENCE, Model, calling
from tests.outside.test_clients import Serve
from tests.outside.test_mcp_sign_in import id_of
from tests.outside.world import World, newest, result_of, text_of, tools_of

from holdfast import (
    DISMISS,
    AsyncClient,
    Form,
    FormNotFound,
    FormPiece,
    FormState,
    Holdfast,
    NotFound,
    PromptInput,
    Session,
    connect,
)
from holdfast.schema.form import ExternalField, IntegerField, StringField
from holdfast.schema.insight import WaitInfo
from holdfast.schema.session_message import ToolError

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
SCRIPT = Path(__file__).with_name("mcp_asking_script.py")
OLD, NEW = "2025-11-25", "2026-07-28"
SIZE: Json = {
    "mode": "form",
    "message": "Which size?",
    "requestedSchema": {
        "type": "object",
        "properties": {"size": {"type": "integer", "minimum": 1}},
        "required": ["size"],
    },
}
NAME: Json = {
    "mode": "form",
    "message": "For whom?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
PAY: Json = {"mode": "url", "message": "Please pay", "url": "https://pay.example/7", "elicitationId": "e7"}
ALLOWED: list[Json] = [{"action": "shop_*", "resource": "*", "effect": "allow"}]
ORDER = calling("shop_order", item="hat")
either_version = pytest.mark.parametrize("version", ["2025-06-18", OLD, NEW])


class Asking(Peer):
    """A server whose tool asks people, in rounds."""

    def __init__(self, home: Path, version: str, *rounds: list[Json], **more: Any) -> None:
        super().__init__(home / "peers" / "shop", "shop", asks=[*rounds], **more)
        self.version = version

    @property
    def config(self) -> Json:
        return {"type": "local", "command": [sys.executable, "-S", "-E", str(SCRIPT), str(self.folder), self.version]}

    @property
    def acted(self) -> int:
        return len(self.heard("acted"))


async def ordering(hf: Holdfast, world: World, shop: Peer) -> Session:
    """A Session whose model calls the tool that asks."""
    await known(hf, shop)
    session = await hf.sessions.create()
    world.model.plays(ORDER)
    await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
    return session


async def forms(hf: Holdfast | AsyncClient, session_id: str, count: int = 1) -> list[Form]:
    """The open forms, once there are as many."""
    async with asyncio.timeout(PATIENCE):
        while len(found := await hf.forms.list(session_id)) != count:  # noqa: ASYNC110 - polls, as clients may
            await asyncio.sleep(0.005)
    return found


async def another(hf: Holdfast | AsyncClient, session_id: str, before: Form) -> Form:
    """The open form, once it is not the one before."""
    while (found := await forms(hf, session_id))[0].id == before.id:
        pass
    return found[0]


async def waits(hf: Holdfast | AsyncClient, session_id: str) -> list[WaitInfo]:
    return [wait for wait in await hf.sessions.waits(session_id) if wait.kind in ("form", "authorization")]


# -- questions ---------------------------------------------------------------------------------------------------------


@either_version
async def test_a_question_of_a_server_is_a_form_of_the_session(world: World, version: str) -> None:
    """MCP-250, MCP-251, MCP-254, MCP-256, API-620: the call waits, everyone sees for what, and its answer goes to the
    server."""
    shop = Asking(world.home, version, [SIZE])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        (form,) = await forms(hf, session.id)
        assert (form.session_id, form.title, form.metadata) == (
            session.id,
            "shop is requesting input",
            {"kind": "mcp-elicitation", "server": "shop", "message": "Which size?"},
        )
        assert form.fields == (IntegerField(key="size", required=True, minimum=1),)
        assert form.tool is not None
        (wait,) = await waits(hf, session.id)
        assert (wait.kind, wait.id) == ("form", form.id)
        assert wait.what == "a form: shop is requesting input: Which size?"
        (node,) = (await hf.sessions.tree(session.id)).nodes
        assert (node.state, "form" in [wait.kind for wait in node.waits or ()]) == ("waiting", True)
        await hf.forms.reply(session.id, form_id=form.id, answer={"size": 7})
        await hf.sessions.wait(session.id)
        assert text_of(await newest(hf, session)) == "done"
        assert await hf.verify() == []
    given = {"action": "accept", "content": {"size": 7}}
    assert json.loads(result_of(world)) == ({"q0": given} if version == NEW else [given])
    assert shop.acted == 1


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_person_declines_or_cancels(world: World, version: str) -> None:
    """MCP-254, API-619"""
    shop = Asking(world.home, version, [NAME], [SIZE])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        (first,) = await forms(hf, session.id)
        assert first.fields == (StringField(key="name"),)
        await hf.forms.cancel(session.id, form_id=first.id, decline=True)
        second = await another(hf, session.id, first)
        await hf.forms.cancel(session.id, form_id=second.id)
        await hf.sessions.wait(session.id)
    answers = result_of(world)
    assert '"cancel"' in answers
    if version == OLD:
        assert json.loads(answers) == [{"action": "decline"}, {"action": "cancel"}]
    else:
        assert shop.heard()[1]["inputResponses"] == {"q0": {"action": "decline"}}


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("rounds", [20, 21])
async def test_a_call_asks_at_most_twenty_times(world: World, version: str, rounds: int) -> None:
    """MCP-263: what a server asks beyond that is put to nobody."""
    shop = Asking(world.home, version, *([NAME] for _ in range(rounds)))
    servers(world, shop, permissions=ALLOWED)
    asked: list[str] = []

    async def fill_in(form: Form) -> Json:
        asked.append(form.id)
        return {"name": "me"}

    async with world.host() as hf:
        hf.on_form(fill_in)
        session = await ordering(hf, world, shop)
        await hf.sessions.wait(session.id)
    assert len(asked) == 20
    if version == OLD:
        assert ("A call may ask for input at most 20 times" in result_of(world)) == (rounds > 20)
    else:
        assert shop.acted == (rounds == 20)
        told = "The MCP server shop cannot be used: it asked for input or a credential more than 20 times in one call"
        assert (told in result_of(world)) == (rounds > 20)


async def test_a_visit_is_answered_by_the_server(world: World) -> None:
    """MCP-253: or by the person."""
    shop = Asking(world.home, OLD, [PAY])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        (form,) = await forms(hf, session.id)
        (field,) = form.fields
        assert isinstance(field, ExternalField)
        assert (field.key, field.url) == ("elicitation", "https://pay.example/7")
        await hf.forms.reply(session.id, form_id=form.id, answer={"elicitation": True})
        await hf.sessions.wait(session.id)
        assert json.loads(result_of(world)) == [{"action": "accept"}]
        shop.says(completes=True)
        world.model.plays(ORDER)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="again"))
        await hf.sessions.wait(session.id)
    assert json.loads(result_of(world)) == [{"action": "accept"}]


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_question_that_no_form_can_show_is_refused_with_its_reason(world: World, version: str) -> None:
    """MCP-252"""
    nested = {"message": "x", "requestedSchema": {"properties": {"deep": {"type": "object"}}}}
    shop = Asking(world.home, version, [nested])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        await hf.sessions.wait(session.id)
        assert await hf.forms.list(session.id) == []
    assert "its type is none of" in result_of(world)
    assert "deep" in result_of(world)


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_an_address_that_looks_like_another_is_not_shown(world: World, version: str) -> None:
    """MCP-340"""
    shop = Asking(world.home, version, [{**PAY, "url": "https://bank.example@evil.example/"}])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        await hf.sessions.wait(session.id)
        assert await hf.forms.list(session.id) == []
    assert "its url has a user name" in result_of(world)


NEAR = (
    "http://127.0.0.1:8080/",
    "http://localhost/",
    "https://10.0.0.7/",
    "http://2130706433/",
    "https://intranet/",
    "http://[::1]/",
)


@pytest.mark.parametrize("url", NEAR)
async def test_an_address_of_this_machine_or_a_private_network_is_not_shown(world: World, url: str) -> None:
    """MCP-375."""
    shop = Asking(world.home, OLD, [{**PAY, "url": url}])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        await hf.sessions.wait(session.id)
        assert await hf.forms.list(session.id) == []
    assert "which is not on the public internet" in result_of(world)


SECRET_FIELDS: dict[str, Json] = {
    "password": {"type": "string"},
    "apiKey": {"type": "string"},
    "ANTHROPIC_API_KEY": {"type": "string"},
    "answer": {"type": "string", "title": "Your access token"},
    "code": {"type": "integer", "title": "PIN"},
}


@pytest.mark.parametrize("key", SECRET_FIELDS)
@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_form_that_asks_for_a_secret_is_refused(world: World, version: str, key: str) -> None:
    """MCP-374: with what the server can do instead."""
    asking = {"message": "Security check", "requestedSchema": {"properties": {key: SECRET_FIELDS[key]}}}
    shop = Asking(world.home, version, [asking])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        await hf.sessions.wait(session.id)
        assert await hf.forms.list(session.id) == []
    assert "may not ask for passwords, keys or tokens" in result_of(world)
    assert key in result_of(world)


async def test_texts_of_a_form_have_nothing_that_is_not_seen(world: World) -> None:
    """MCP-373: for clients of the API and in the log; ordinary fields that only sound similar are shown."""
    evil = "A\x1b[2J\u202eB"
    properties = {
        "author": {"type": "string", "title": evil, "description": evil, "default": evil},
        "max_tokens": {"type": "integer", "title": "Maximum tokens"},
        "use_token": {"type": "boolean"},
        "kind": {"type": "string", "oneOf": [{"const": "a", "title": evil}]},
    }
    shop = Asking(world.home, OLD, [{"message": evil, "requestedSchema": {"properties": properties}}])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        (form,) = await forms(hf, session.id)
        log = (await hf.sessions.log(session.id)).items
        await hf.forms.cancel(session.id, form_id=form.id)
        await hf.sessions.wait(session.id)
    assert [field.key for field in form.fields] == list(properties)
    assert (form.fields[0].title, form.metadata) == (
        "A[2JB",
        {"kind": "mcp-elicitation", "server": "shop", "message": "A[2JB"},
    )
    for text in (repr(form), repr(log)):
        assert "\\x1b" not in text
        assert "\\u202e" not in text


async def test_what_a_result_asks_for_is_bounded(world: World) -> None:
    """MCP-341"""
    huge = {**SIZE, "requestedSchema": {**SIZE["requestedSchema"], "$comment": "x" * 1024 * 1024}}
    shop = Asking(world.home, NEW, [huge])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        await hf.sessions.wait(session.id)
        assert await hf.forms.list(session.id) == []
    assert "more than 1048576 bytes" in result_of(world)
    assert shop.acted == 0


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_an_interruption_cancels_the_forms_of_a_call(world: World, version: str) -> None:
    """MCP-258: nothing is left to answer, now or after a restart."""
    shop = Asking(world.home, version, [SIZE, NAME])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        asked = await forms(hf, session.id, 1 if version == OLD else 2)
        await hf.sessions.interrupt(session.id)
        assert await hf.forms.list(session.id) == []
        for form in asked:
            assert await hf.forms.state(session.id, form_id=form.id) == FormState(status="cancelled")
        (part,) = tools_of(await newest(hf, session))
        assert isinstance(part.state, ToolError)
        assert await hf.sessions.interrupted() == []
    assert version == OLD or shop.acted == 0


async def test_where_nobody_can_be_asked_the_server_reads_a_cancel(world: World) -> None:
    """MCP-254, API-622"""
    shop = Asking(world.home, OLD, [SIZE])
    servers(world, shop, permissions=ALLOWED)
    async with world.host(unattended="deny") as hf:
        session = await ordering(hf, world, shop)
        await hf.sessions.wait(session.id)
    assert json.loads(result_of(world)) == [{"action": "cancel"}]


async def test_functions_and_streams_of_a_program_answer_forms(world: World) -> None:
    """API-622"""
    shop = Asking(world.home, NEW, [SIZE], [NAME])
    servers(world, shop, permissions=ALLOWED)
    seen: list[Form] = []

    def fill_in(form: Form) -> Any:
        seen.append(form)
        return {"size": 3} if form.fields[0].key == "size" else DISMISS

    async with world.host() as hf:
        await known(hf, shop)
        hf.on_form(fill_in)
        session = await hf.sessions.create()
        world.model.plays(ORDER)
        pieces = [piece async for piece in hf.stream(session, "go")]
    assert [piece.request for piece in pieces if isinstance(piece, FormPiece)] == seen
    assert json.loads(result_of(world)) == {"q0": {"action": "cancel"}}
    assert [call.get("requestState") for call in shop.heard()] == [None, "round-1", "round-2"]


# -- processes that end ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_call_that_waits_for_a_form_outlives_a_shutdown(world: World, version: str) -> None:
    """MCP-255, MCP-256, MCP-261, SES-252: the form stays listed, and its answer lets the call go on in the next
    process. A second question of the same words is another form."""
    shop = Asking(world.home, version, [SIZE], [SIZE])
    servers(world, shop, permissions=ALLOWED)
    async with world.host() as hf:
        session = await ordering(hf, world, shop)
        (form,) = await forms(hf, session.id)
    async with world.host() as hf:
        assert await hf.forms.list(session.id) == [form]
        await hf.forms.reply(session.id, form_id=form.id, answer={"size": 1})
        second = await another(hf, session.id, form)
    async with world.host() as hf:
        await hf.forms.reply(session.id, form_id=second.id, answer={"size": 2})
        await hf.sessions.wait(session.id)
        assert text_of(await newest(hf, session)) == "done"
        assert await hf.verify() == []
    first, last = ({"action": "accept", "content": {"size": size}} for size in (1, 2))
    assert shop.acted == 1
    if version == OLD:
        assert json.loads(result_of(world)) == [first, last]
        assert len(shop.heard()) == 3
    else:
        assert json.loads(result_of(world)) == {"q0": last}
        assert shop.heard() == [
            {},
            {"inputResponses": {"q0": first}, "requestState": "round-1"},
            {"inputResponses": {"q0": last}, "requestState": "round-2"},
        ]


def configure(machine: Machine, model: Model, mcp: Json) -> None:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": model.url, "apiKey": "sk"},
        "models": {"m": {"tool_call": True}},
    }
    machine.configure_user(
        model="mock/m",
        provider={"mock": provider},
        holdfast={"titles": False},
        mcp={"servers": {"shop": mcp}},
        permissions=ALLOWED,
    )


async def connected(client: AsyncClient) -> None:
    await client.mcp.connect("shop")
    async with asyncio.timeout(PATIENCE):
        while (await client.mcp.list()).data[0].tools != 1:  # noqa: ASYNC110 - polls
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_question_survives_kill_9(holdfast: Machine, serve: Serve, model: Model, version: str) -> None:
    """MCP-255, MCP-256, MCP-262: the form is answered after the restart and the call completes. With 2026-07-28 the
    server was called once and got the answers once."""
    shop = Asking(holdfast.home, version, [SIZE, NAME])
    configure(holdfast, model, shop.config)
    model.plays(ORDER)
    server = await asyncio.to_thread(serve)
    async with connect(server.url, environment=holdfast.environment) as client:
        await connected(client)
        session = await client.sessions.create()
        await client.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        asked = await forms(client, session.id, 1 if version == OLD else 2)
    server.process.kill()
    finish(server.process)

    server = await asyncio.to_thread(serve)
    async with connect(server.url, environment=holdfast.environment) as client:
        assert await client.forms.list(session.id) == asked
        (found,) = await client.sessions.interrupted()
        assert (found.session_id, found.stage) == (session.id, "waiting")
        assert len(shop.heard()) == 1
        for form in asked:
            answer: Json = {"size": 7} if form.fields[0].key == "size" else {"name": "Ada"}
            await client.forms.reply(session.id, form_id=form.id, answer=answer)
        if version == OLD:
            second = await another(client, session.id, asked[0])
            await client.forms.reply(session.id, form_id=second.id, answer={"name": "Ada"})
        await client.sessions.wait(session.id)
        message = await newest(client, session)  # type: ignore[arg-type]
        assert text_of(message) == "done"
    size, name = ({"action": "accept", "content": content} for content in ({"size": 7}, {"name": "Ada"}))
    (told,) = [found["content"] for found in model.last.messages if found["role"] == "tool"]
    assert json.loads(told) == ([size, name] if version == OLD else {"q0": size, "q1": name})
    assert shop.acted == 1
    if version == NEW:
        assert shop.heard() == [{}, {"inputResponses": {"q0": size, "q1": name}, "requestState": "round-1"}]
    else:
        assert len(shop.heard()) == 2


# -- sign-ins ----------------------------------------------------------------------------------------------------------


class Remote:
    """A remote server with one tool, which wants a token."""

    def __init__(self, oauth: Servers) -> None:
        self.oauth = oauth
        self.called: list[Json] = []
        oauth.mcp.routes["/mcp"] = self.answer

    @property
    def config(self) -> Json:
        return {"type": "remote", "url": self.oauth.url}

    @property
    def integration(self) -> str:
        return id_of("shop", self.oauth.url)

    def revoke(self) -> None:
        """No token that was issued is valid any more."""
        self.oauth.access.clear()
        self.oauth.refresh.clear()

    def answer(self, request: Received) -> Answer:
        refused = self.oauth.answer_mcp(request)
        if refused.status != 200:
            return refused
        if request.method != "POST":
            return Answer(405, {})
        asked = request.json
        if "id" not in asked:
            return Answer(202, {})
        tools = [{"name": "order", "inputSchema": {"type": "object"}}]
        match asked["method"]:
            case "server/discover":
                result: Json = {"supportedVersions": [NEW], "capabilities": {"tools": {}}}
            case "tools/list":
                result = {"tools": tools}
            case "tools/call":
                self.called.append(asked["params"]["arguments"])
                result = {"resultType": "complete", "content": [{"type": "text", "text": "ordered"}]}
            case _:
                return Answer(body={"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "?"}})
        return Answer(body={"jsonrpc": "2.0", "id": asked["id"], "result": result})


@pytest.fixture
async def remote() -> AsyncIterator[Remote]:
    async with authorization_world() as oauth:
        yield Remote(oauth)


async def sign_in(hf: Holdfast | AsyncClient, remote: Remote) -> None:
    id = remote.integration
    attempt = (await hf.integrations.connect_oauth(id, method_id=id, inputs={})).data
    await browse(attempt.url)
    async with asyncio.timeout(PATIENCE):
        while (await hf.integrations.attempt_status(attempt.attempt_id)).data.status == "pending":  # noqa: ASYNC110 - polls
            await asyncio.sleep(0.005)


async def refused_call(hf: Holdfast | AsyncClient, remote: Remote, model: Model) -> tuple[Session, Form]:
    """A call whose token is not accepted any more."""
    await sign_in(hf, remote)
    await connected(hf)
    remote.revoke()
    session = await hf.sessions.create()
    model.plays(ORDER)
    await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
    (form,) = await forms(hf, session.id)
    return session, form


async def test_a_refused_token_is_a_wait_that_everyone_sees(world: World, remote: Remote) -> None:
    """MCP-259, MCP-260, API-620, API-623: no sign-in begins before the page is opened; the credential answers the form,
    and the call is made."""
    world.configure(mcp={"servers": {"shop": remote.config}}, permissions=ALLOWED)
    async with world.host() as hf:
        session, form = await refused_call(hf, remote, world.model)
        url = f"/api/session/{session.id}/integration/{remote.integration}/sign-in"
        assert (form.title, form.metadata) == (
            "shop needs a sign-in",
            {"kind": "mcp-authorization", "server": "shop", "integrationID": remote.integration},
        )
        assert form.fields == (ExternalField(key="signedIn", url=url, title="Sign in to shop", required=True),)
        (wait,) = await waits(hf, session.id)
        assert (wait.kind, wait.what) == ("authorization", "a sign-in to the MCP server shop")
        before = len(remote.oauth.sign_ins)
        assert remote.called == []
        page = (await hf.integrations.sign_in_page(session.id, integration_id=remote.integration)).decode()
        assert len(remote.oauth.sign_ins) == before
        await browse(unescape(page.partition("url=")[2].partition('"')[0]))
        await hf.sessions.wait(session.id)
        state = await hf.forms.state(session.id, form_id=form.id)
        assert state == FormState(status="answered", answer={"signedIn": True})
        assert result_of(world) == "ordered"
        with pytest.raises(NotFound):
            await hf.integrations.sign_in_page(session.id, integration_id=remote.integration)
    assert remote.called == [{"item": "hat"}]


async def test_who_gives_up_a_sign_in_fails_the_call(world: World, remote: Remote) -> None:
    """MCP-260: a word that one has signed in does not count for a credential."""
    world.configure(mcp={"servers": {"shop": remote.config}}, permissions=ALLOWED)
    async with world.host() as hf:
        session, form = await refused_call(hf, remote, world.model)
        await hf.forms.reply(session.id, form_id=form.id, answer={"signedIn": True})
        second = await another(hf, session.id, form)
        await hf.forms.cancel(session.id, form_id=second.id)
        await hf.sessions.wait(session.id)
        with pytest.raises(FormNotFound):
            await hf.forms.state(session.id, form_id="frm_other")
    assert "authorization" in result_of(world)
    assert remote.called == []


async def test_a_running_host_goes_on_with_the_call_of_a_process_that_died(
    holdfast: Machine, serve: Serve, model: Model, remote: Remote
) -> None:
    """MCP-260: the host was there before the form, and a process that only signs in stores the credential."""
    configure(holdfast, model, remote.config)
    other = await asyncio.to_thread(serve)
    data, environment = holdfast.data, holdfast.environment
    async with Holdfast(holdfast.project, preset="allow", data=data, environment=environment) as running:
        await running.sessions.list()
        async with connect(other.url, environment=holdfast.environment) as client:
            session, form = await refused_call(client, remote, model)
        other.process.kill()
        finish(other.process)
        async with Holdfast(
            holdfast.project, preset="allow", data=data, environment=environment, recover=False
        ) as program:
            await sign_in(program, remote)
        await model.asked(2)
        await running.sessions.wait(session.id)
        assert (await running.forms.state(session.id, form_id=form.id)).status == "answered"
        assert text_of(await newest(running, session)) == "done"
    assert remote.called == [{"item": "hat"}]


@pytest.mark.parametrize("when", ["after", "before", "elsewhere"])
async def test_a_missing_sign_in_survives_kill_9(
    holdfast: Machine, serve: Serve, model: Model, remote: Remote, when: str
) -> None:
    """MCP-259, MCP-260: the credential arrives after the restart; before it, from a process that only signs in; or
    after it from such a process. The call is made once."""
    configure(holdfast, model, remote.config)
    server = await asyncio.to_thread(serve)
    async with connect(server.url, environment=holdfast.environment) as client:
        session, form = await refused_call(client, remote, model)
    server.process.kill()
    finish(server.process)

    async def alone() -> None:
        async with Holdfast(
            holdfast.project, data=holdfast.data, environment=holdfast.environment, recover=False
        ) as program:
            await sign_in(program, remote)

    if when == "before":
        await alone()
    server = await asyncio.to_thread(serve)
    async with connect(server.url, environment=holdfast.environment) as client:
        if when != "before":
            assert await client.forms.list(session.id) == [form]
            (wait,) = await waits(client, session.id)
            assert wait.kind == "authorization"
            await (sign_in(client, remote) if when == "after" else alone())
        await model.asked(2)
        await client.sessions.wait(session.id)
        state = await client.forms.state(session.id, form_id=form.id)
        assert state == FormState(status="answered", answer={"signedIn": True})
        message = await newest(client, session)  # type: ignore[arg-type]
        assert text_of(message) == "done"
    (told,) = [found["content"] for found in model.last.messages if found["role"] == "tool"]
    assert told == "ordered"
    assert remote.called == [{"item": "hat"}]
