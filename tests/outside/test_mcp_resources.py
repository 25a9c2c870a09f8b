"""Resources of MCP servers as attachments."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import pytest
from PIL import Image
from tests.cli.conftest import Machine
from tests.outside.mcp_world import Peer, known, servers
from tests.outside.scripted_provider import PATIENCE, Turn
from tests.outside.world import World, ask

from holdfast import FileInput, Holdfast, InvalidRequest, Session
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.session_message import SyntheticMessage, UserMessage

pytestmark = pytest.mark.anyio

ALLOWED = {"permission": {"docs_resources": "allow"}}


def resource(uri: str, name: str = "n") -> dict[str, str]:
    return {"uri": uri, "name": name}


def contents(uri: str, text: str, **more: Any) -> dict[str, Any]:
    return {uri: {"contents": [{"uri": uri, "text": text, **more}]}}


@pytest.fixture
def docs(world: World) -> Peer:
    found = Peer(world.home / "peers" / "docs", "docs")
    found.says(
        resources=[resource("note://one")],
        templates=[{"uriTemplate": "note://item/{id}", "name": "item"}],
        contents={**contents("note://one", "First note."), **contents("note://item/7", "Seven.")},
    )
    servers(world, found, **ALLOWED)
    return found


def sent(world: World) -> str:
    return "\n".join(str(content) for role, content in world.model.last.said if role == "user")


async def user_message(hf: Holdfast, session: Session) -> UserMessage:
    return [item for item in await hf.sessions.context(session.id) if isinstance(item, UserMessage)][-1]


async def notes(hf: Holdfast, session: Session) -> list[str]:
    return [item.text for item in await hf.sessions.context(session.id) if isinstance(item, SyntheticMessage)]


async def test_a_mentioned_resource_is_attached_as_it_was(world: World, docs: Peer) -> None:
    """MCP-290, MCP-291, SES-164: read once, before the prompt is durable; later turns and a retry send the same."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        text = "What is in @docs:note://one, and @docs:note://item/7?"
        await hf.sessions.prompt(session.id, id="msg_1", text=text, resolve=True)
        await hf.sessions.wait(session.id)
        assert "First note." in sent(world)
        assert "Seven." in sent(world)
        docs.says(contents=contents("note://one", "Changed."))
        await hf.sessions.prompt(session.id, id="msg_1", text=text, resolve=True)
        await ask(hf, session, "again")
        assert "First note." in sent(world)
        assert "Changed." not in sent(world)

        message = await hf.sessions.message(session.id, message_id="msg_1")
        assert isinstance(message, UserMessage)
        assert message.text == text
        assert message.files is not None
        assert [(file.uri, file.name, file.source and file.source.text) for file in message.files] == [
            ("mcp://docs/note://one", "docs:note://one", "@docs:note://one"),
            ("mcp://docs/note://item/7", "docs:note://item/7", "@docs:note://item/7"),
        ]
        assert await hf.verify() == []
    assert docs.heard("resources/read") == ["note://one", "note://item/7"]


@pytest.mark.parametrize("uri", ["mcp://docs/note://one", "mcp://docs/note%3A%2F%2Fone", "note://one"])
async def test_a_file_of_a_prompt_may_be_a_resource(world: World, docs: Peer, uri: str) -> None:
    """MCP-290: with the name of the server, or the address that a server is known to offer."""
    async with world.host() as hf:
        await known(hf, docs)
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="read it", files=[FileInput(uri=uri)])
        await hf.sessions.wait(session.id)
        assert "First note." in sent(world)
        message = await user_message(hf, session)
        assert message.files is not None
        assert (message.files[0].uri, message.files[0].mime) == (uri, "text/plain")


async def test_a_program_attaches_a_resource_in_one_call(world: World, docs: Peer) -> None:
    """MCP-290"""
    async with world.host() as hf:
        await hf.run("read it", files=["mcp://docs/note://one"])
    assert "First note." in sent(world)


async def test_an_address_that_fits_a_template_is_known(world: World, docs: Peer) -> None:
    """MCP-290"""
    async with world.host() as hf:
        await known(hf, docs)
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="read it", files=[FileInput(uri="note://item/7")])
        await hf.sessions.wait(session.id)
    assert "Seven." in sent(world)


async def test_what_cannot_be_attached_refuses_the_prompt(world: World, docs: Peer) -> None:
    """MCP-292, SES-233: nothing is admitted, and the message says why."""
    other = Peer(world.home / "peers" / "other", "other", resources=[resource("note://one")])
    servers(world, docs, other, **ALLOWED)
    docs.says(contents={"note://empty": {"contents": []}, "note://bad": {"contents": [{"uri": "x", "blob": "%%"}]}})
    async with world.host() as hf:
        await known(hf, docs, other)
        session = await hf.sessions.create()

        async def refused(uri: str) -> str:
            with pytest.raises(InvalidRequest) as caught:
                await hf.sessions.prompt(session.id, text="x", files=[FileInput(uri="hello.txt"), FileInput(uri=uri)])
            assert caught.value.field == "files[1]"
            return str(caught.value)

        assert "no MCP server 'nobody'" in await refused("mcp://nobody/note://one")
        assert "docs, other offer it" in await refused("note://one")
        assert "error -32002: not found" in await refused("mcp://docs/note://two")
        assert "it is empty" in await refused("mcp://docs/note://empty")
        assert "base64 is broken" in await refused("mcp://docs/note://bad")
        assert "in place of {id}" in await refused("mcp://docs/note://item/{id}")
        assert "cannot be read" in await refused("mcp://docs/")
        assert "not https:" in await refused("https://example.com/x")
        assert await hf.sessions.pending(session.id) == []


async def test_a_mention_that_cannot_be_attached_is_a_note(world: World, docs: Peer) -> None:
    """MCP-292, SES-274: the reason is told to the model; a word with a colon is no mention."""
    servers(world, docs, docs={"command": ["/nowhere/at/all"]}, **ALLOWED)
    async with world.host() as hf:
        session = await hf.sessions.create()
        text = "@docs:note://one (@docs:note://item/{id}) @docs: hello @other:note://one a@docs:note://one"
        await ask(hf, session, text, resolve=True)
        told = await notes(hf, session)
    assert len(told) == 2
    assert told[0].startswith("`@docs:note://one` could not be attached: The MCP server docs cannot be used")
    assert "it is a template" in told[1]


async def test_permission_is_asked_for_each_resource(world: World, docs: Peer) -> None:
    """MCP-291: by default, for its address; a denial is a note, or refuses a file."""
    servers(world, docs)
    replies = {"note://one": "once", "note://item/7": "reject"}
    asked: list[PermissionRequest] = []

    def decide(request: PermissionRequest) -> Any:
        asked.append(request)
        return replies[request.resources[0]]

    async with world.host() as hf:
        hf.on_permission(decide)
        session = await hf.sessions.create()
        async with asyncio.timeout(PATIENCE):
            await ask(hf, session, "@docs:note://one @docs:note://item/7 and @docs:note://one", resolve=True)
        assert "First note." in sent(world)
        assert "Seven." not in sent(world)
        [note] = await notes(hf, session)
        assert "@docs:note://item/7" in note
        with pytest.raises(InvalidRequest):
            await hf.sessions.prompt(session.id, text="x", files=[FileInput(uri="mcp://docs/note://item/7")])
    assert [(request.action, *request.resources) for request in asked] == [
        ("docs_resources", "note://one"),
        ("docs_resources", "note://item/7"),
        ("docs_resources", "note://item/7"),
    ]
    assert asked[0].save == ("note://one", "*")
    assert asked[0].metadata == {"server": "docs", "resource": "note://one"}
    assert docs.heard("resources/read") == ["note://one"]


async def test_the_bytes_of_a_resource_decide_what_it_is(world: World, docs: Peer) -> None:
    """MCP-293: images, documents of several parts, other binary data; as for files."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, "PNG")
    image = base64.b64encode(buffer.getvalue()).decode()
    several = [{"uri": "a://1", "text": "Part one."}, {"uri": "a://2", "blob": image, "mimeType": "image/png"}]
    docs.says(
        contents={
            "a://image": {"contents": [{"uri": "a://image", "blob": image, "mimeType": "text/plain"}]},
            "a://all": {"contents": several},
            "a://raw": {"contents": [{"uri": "a://raw", "blob": base64.b64encode(b"\0\1\2\3").decode()}]},
        }
    )
    world.model.plays(Turn(text="ok"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, '@docs:a://image @"docs:a://all" @docs:a://raw', resolve=True)
        message = await user_message(hf, session)
        assert message.files is not None
        assert [file.mime for file in message.files] == ["image/png", "text/plain"]
        [note] = await notes(hf, session)
    assert "Part one." in sent(world)
    assert "[image/png, " in sent(world)
    assert "neither text nor an image" in note


async def test_a_template_of_an_untrusted_project_reads_no_resource(world: World, docs: Peer) -> None:
    """MCP-291: whatever the rules allow; in the arguments the caller may name one."""
    world.write(".opencode/command/steal.md", "Look: @docs:note://one\n\n$ARGUMENTS\n")
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.command(session.id, command="steal", arguments="@docs:note://item/7")
        await hf.sessions.wait(session.id)
        [note] = await notes(hf, session)
    assert "not trusted" in note
    assert docs.heard("resources/read") == ["note://item/7"]


def test_the_command_line_attaches_resources(holdfast: Machine) -> None:
    """MCP-290: as a file and as a mention, with permission; without anybody to ask it is refused."""
    docs = Peer(holdfast.home / "peers" / "docs", "docs")
    docs.says(contents=contents("note://one", "First note."))
    holdfast.configure_user(mcp={"servers": {"docs": docs.config}})
    run = ("run", "--model", "demo/echo", "--file", "mcp://docs/note://one", "What is in @docs:note://one?")
    ran = holdfast(*run, "--yes")
    assert ran.code == 0, ran
    _, messages = holdfast.look(ran.session)
    [message] = [item for item in messages if isinstance(item, UserMessage)]
    assert [file.uri for file in message.files or ()] == ["mcp://docs/note://one"] * 2
    assert "mcp://docs/note://one cannot be attached: " in holdfast(*run).complaint
