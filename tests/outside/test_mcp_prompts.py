"""Prompts of MCP servers, called like commands."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from tests.outside.mcp_world import Peer, known, servers
from tests.outside.scripted_provider import PATIENCE
from tests.outside.test_mcp_resources import notes, sent, user_message
from tests.outside.world import World

from holdfast import ApiError, CommandNotFound, InvalidRequest, ServiceUnavailable

pytestmark = pytest.mark.anyio


def text(value: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": value}}


@pytest.fixture
def docs(world: World) -> Peer:
    found = Peer(world.home / "peers" / "docs", "my docs")
    arguments = [{"name": "file", "required": True}, {"name": "style", "description": "How"}]
    found.says(
        prompts=[
            {"name": "review it", "description": "Reviews a file.", "arguments": arguments},
            {"name": "plain"},
        ],
        messages={
            "review it": {"messages": [text("Review this."), text("Yes?", "assistant"), text("Go on.")]},
            "plain": {"messages": [text("Plain: @hello.txt !`ls` $1 @my docs:note://one")]},
        },
    )
    servers(world, found)
    return found


async def test_a_prompt_is_listed_and_called_like_a_command(world: World, docs: Peer) -> None:
    """MCP-300, MCP-301: positional arguments in the declared order; the texts of all messages; stored once."""
    async with world.host() as hf:
        await known(hf, docs)
        listed = {command.name: command for command in (await hf.commands.list()).data}
        assert (listed["my_docs:review_it"].description, listed["my_docs:review_it"].template) == (
            "Reviews a file.",
            "",
        )
        session = await hf.sessions.create()
        name, given = "my_docs:review_it", '"a b.py" very short'
        receipt = await hf.sessions.command(session.id, command=name, arguments=given, id="msg_1")
        docs.says(messages={})
        again = await hf.sessions.command(session.id, command=name, arguments=given, id="msg_1")
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        message = await user_message(hf, session)
        assert message.text == "Review this.\nYes?\nGo on."
        assert message.command is not None
        assert (message.command.command, message.command.arguments) == (name, given)
        assert receipt.id == again.id
        assert await hf.verify() == []
    assert docs.heard("prompts/get") == [
        {"name": "review it", "arguments": {"file": "a b.py", "style": "very short"}},
    ]
    assert "Review this.\nYes?\nGo on." in sent(world)


async def test_the_text_of_a_server_is_only_text(world: World, docs: Peer) -> None:
    """MCP-302: no mention, placeholder or shell command of it counts; arguments that it does not take follow it."""
    async with world.host() as hf:
        await known(hf, docs)
        session = await hf.sessions.create()
        await hf.sessions.command(session.id, command="my_docs:plain", arguments="and @hello.txt")
        await hf.sessions.wait(session.id)
        message = await user_message(hf, session)
        assert message.text == "Plain: @hello.txt !`ls` $1 @my docs:note://one\n\nand @hello.txt"
        assert message.files is not None
        [file] = message.files
        assert file.source is not None
        assert file.source.start == message.text.rindex("@hello.txt")
        assert docs.heard("prompts/get") == [{"name": "plain", "arguments": {}}]
        assert await notes(hf, session) == []


async def test_other_content_is_attached_or_noted(world: World, docs: Peer) -> None:
    """MCP-302"""
    data = base64.b64encode(b"\0\1\2").decode()
    contents: list[dict[str, Any]] = [
        {"type": "resource", "resource": {"uri": "note://x", "text": "Embedded.", "mimeType": "text/markdown"}},
        {"type": "resource_link", "uri": "note://linked", "name": "n"},
        {"type": "image", "data": "%%", "mimeType": "image/png"},
        {"type": "audio", "data": data, "mimeType": "audio/wav; x"},
        {"type": "hologram"},
    ]
    docs.says(messages={"plain": {"messages": [{"role": "user", "content": content} for content in contents]}})
    async with world.host() as hf:
        await known(hf, docs)
        session = await hf.sessions.create()
        await hf.sessions.command(session.id, command="my_docs:plain")
        await hf.sessions.wait(session.id)
        message = await user_message(hf, session)
        assert message.text == "note://linked"
        assert message.files is not None
        assert [(file.name, file.mime) for file in message.files] == [
            ("note://x", "text/markdown"),
            ("my_docs:plain 2", "audio/wav"),
        ]
        told = await notes(hf, session)
    assert "Embedded." in sent(world)
    assert [("base64" in note, "hologram" in note) for note in told] == [(True, False), (False, True)]


async def test_what_cannot_be_fetched_is_not_admitted(world: World, docs: Peer) -> None:
    """MCP-303: a missing argument, an error of the server, no such prompt."""
    async with world.host() as hf:
        await known(hf, docs)
        session = await hf.sessions.create()

        async def fails(command: str, kind: type[ApiError], arguments: str = "") -> str:
            with pytest.raises(kind) as caught:
                await hf.sessions.command(session.id, command=command, arguments=arguments)
            return str(caught.value)

        missing = await fails("my_docs:review_it", InvalidRequest)
        assert "needs the argument file: /my_docs:review_it file [style]" in missing
        docs.says(messages={})
        assert "error -32002: not found" in await fails("my_docs:plain", ServiceUnavailable)
        assert "my_docs:plain" in await fails("my_docs:plane", CommandNotFound)
        await hf.mcp.disconnect("my docs")
        await fails("my_docs:plain", CommandNotFound)
        assert await hf.sessions.pending(session.id) == []


async def test_what_is_left_out_is_told(world: World, docs: Peer) -> None:
    """MCP-343: a prompt without anything to send is not admitted; many notes are counted."""
    broken = {"role": "user", "content": {"type": "image", "data": "!", "mimeType": "image/png"}}
    async with world.host() as hf:
        await known(hf, docs)
        session = await hf.sessions.create()
        for messages, reason in (([], "sent nothing"), ([text(" ")], "sent nothing"), ([broken], "base64")):
            docs.says(messages={"plain": {"messages": messages}})
            with pytest.raises(ServiceUnavailable, match=reason):
                await hf.sessions.command(session.id, command="my_docs:plain")
        assert await hf.sessions.context(session.id) == []
        docs.says(messages={"plain": {"messages": [*[broken] * 50, text("Hi.")]}})
        await hf.sessions.command(session.id, command="my_docs:plain")
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        told = await notes(hf, session)
    assert (len(told), told[-1]) == (20, "Of the prompt my_docs:plain 31 more parts were left out")


async def test_a_configured_command_of_the_same_name_wins(world: World, docs: Peer) -> None:
    """MCP-300"""
    servers(world, docs, command={"my_docs:plain": {"template": "Mine."}})
    async with world.host() as hf:
        await known(hf, docs)
        names = [command.name for command in (await hf.commands.list()).data]
        assert names.count("my_docs:plain") == 1
        session = await hf.sessions.create()
        await hf.sessions.command(session.id, command="my_docs:plain")
        await hf.sessions.wait(session.id)
        assert (await user_message(hf, session)).text == "Mine."
    assert docs.heard("prompts/get") == []
