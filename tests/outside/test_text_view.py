"""A conversation as text, for readers that are no page: pages of entries, bodies of calls, and the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Call, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask

from holdfast import Holdfast, PromptInput, Session
from holdfast.schema.rendered import AssistantEntry, BodySection, Entry, RenderedCall, RenderedText, ShellEntry
from holdfast.schema.view import Block, Caught, Entries, Gone, Hello, Requests, Reset, Status, ViewFrame

pytestmark = pytest.mark.anyio

TEXT = "# Title\n\nSome **bold** words, \x1b[31mred\x1b[0m, and <b>tags</b>.\n\n```python\nprint(1)\n```\n"


@asynccontextmanager
async def view(hf: Holdfast, session: Session, after: int | None = None) -> AsyncIterator[AsyncIterator[ViewFrame]]:
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.sessions.view(session.id, after=after))) as frames:
        yield frames


async def until(frames: AsyncIterator[ViewFrame], met: Callable[[ViewFrame], bool]) -> list[ViewFrame]:
    seen: list[ViewFrame] = []
    async for frame in frames:
        seen.append(frame)
        if met(frame):
            return seen
    raise AssertionError(seen)


def is_answered(frame: ViewFrame) -> bool:
    return isinstance(frame, Entries) and any(isinstance(e, AssistantEntry) and not e.open for e in frame.entries)


def is_caught(frame: ViewFrame) -> bool:
    return isinstance(frame, Caught)


async def shown(hf: Holdfast, session: Session, **query: Any) -> list[Entry]:
    return (await hf.sessions.rendered(session.id, order="asc", format="text", **query)).items


async def sections(hf: Holdfast, session: Session, index: int = -1) -> tuple[BodySection, ...]:
    answers = [entry for entry in await shown(hf, session) if isinstance(entry, AssistantEntry)]
    pairs = [(entry.id, part) for entry in answers for part in entry.parts if isinstance(part, RenderedCall)]
    message_id, call = pairs[index]
    body = await hf.sessions.rendered_call(session.id, message_id=message_id, call_id=call.id, format="text")
    assert body.html == ""
    return body.sections


async def test_texts_come_as_they_were_written(world: World) -> None:
    """WEB-118: of the person, of the model, and of a command, in pages and as of a sequence."""
    world.model.plays(Turn(text=TEXT))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "**first**")
        await hf.sessions.shell(session.id, command="printf '<red>'")
        seq = (await hf.sessions.log(session.id, limit=1)).items[-1].seq
        for entries in (await shown(hf, session), await shown(hf, session, at=seq)):
            user, answer, shell = entries
            assert (user.text, user.html) == ("**first**", "")  # type: ignore[union-attr]
            assert isinstance(answer, AssistantEntry)
            (part,) = answer.parts
            assert isinstance(part, RenderedText)
            assert (part.text, part.html) == (TEXT, "")
            assert isinstance(shell, ShellEntry)
            assert (shell.text, shell.html) == ("<red>", "")


async def test_the_body_of_a_call_comes_in_sections(world: World) -> None:
    """WEB-119: diffs, code with its language, output, the error."""
    world.write("code.py", "print(1)\n")
    world.model.plays(
        Turn(
            calls=(
                Call("bash", {"command": "printf '\\033[31mred'"}),
                Call("edit", {"path": "hello.txt", "oldString": "hello", "newString": "bye"}),
                Call("read", {"path": "code.py"}),
                Call("edit", {"path": "nothing.txt", "oldString": "a", "newString": "b"}),
            )
        ),
        Turn(text="done"),
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        command, output, *_ = await sections(hf, session, 0)
        assert (command.kind, command.name, command.text) == ("code", "bash", "printf '\\033[31mred'")
        assert (output.kind, output.text) == ("output", "red")
        (diff,) = await sections(hf, session, 1)
        assert (diff.kind, diff.name, diff.status) == ("diff", "hello.txt", "modified")
        assert "-hello world\n+bye world\n" in diff.text
        (code,) = await sections(hf, session, 2)
        assert (code.kind, code.name, code.text) == ("code", "python", "print(1)\n")
        given, error = await sections(hf, session, 3)
        assert (given.kind, given.name, error.kind) == ("code", "json", "error")
        assert "nothing.txt" in error.text


async def test_the_sections_of_a_body_are_bounded(world: World) -> None:
    """WEB-119, WEB-114."""
    world.model.plays(
        Turn(calls=(Call("write", {"path": "big.txt", "content": "<line>\n" * 30_000}),)),
        Turn(text="done"),
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        assert sum(len(section.text.encode()) for section in await sections(hf, session)) <= 200_000


async def test_a_call_that_waits_shows_its_change_and_its_request_comes_with_the_stream(world: World) -> None:
    """WEB-115, WEB-128, WEB-129: and goes when it is answered."""
    world.configure(permission={"edit": "ask"})
    world.model.plays(calling("write", path="hello.txt", content="other\n"), Turn(text="done"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        async with view(hf, session) as frames:
            await until(frames, is_caught)
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            seen = await until(frames, lambda frame: isinstance(frame, Requests) and bool(frame.requests))
            (request,) = seen[-1].requests  # type: ignore[union-attr]
            assert (request.kind, request.session_id) == ("permission", session.id)
            (diff,) = await sections(hf, session)
            assert "+other\n" in diff.text
            await hf.permissions.reply(session.id, request_id=request.id, reply="once")
            await until(frames, lambda frame: isinstance(frame, Requests) and not frame.requests)


async def test_a_reader_of_the_stream_has_what_it_would_load(world: World) -> None:
    """WEB-128: entries by sequence, the text while it is written, the state, and after a break only the rest."""
    more = asyncio.Event()
    world.model.plays(Turn(text=TEXT * 50, begin=more), Turn(text="second"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        async with view(hf, session) as frames:
            begun = await until(frames, is_caught)
            assert [type(frame) for frame in begun] == [Hello, Caught]
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            more.set()
            seen = await until(frames, is_answered)
        found = {entry.id: entry for frame in seen if isinstance(frame, Entries) for entry in frame.entries}
        assert list(found.values()) == await shown(hf, session)
        blocks = [frame for frame in seen if isinstance(frame, Block)]
        assert (TEXT * 50).startswith("".join(block.text or block.add or "" for block in blocks))
        assert all(block.index == 0 and block.html is None for block in blocks)
        assert any(isinstance(frame, Status) and frame.session.session.id == session.id for frame in seen)
        reached = max(frame.seq for frame in seen if isinstance(frame, Entries))
        await ask(hf, session, "again")
        async with view(hf, session, reached) as frames:
            rest = await until(frames, is_caught)
        ids = {entry.id for frame in rest if isinstance(frame, Entries) for entry in frame.entries}
        assert ids >= {entry.id for entry in await shown(hf, session)} - set(found)
        async with view(hf, session) as frames:
            await until(frames, is_caught)
            first = (await shown(hf, session))[0]
            await hf.sessions.stage_revert(session.id, message_id=first.id)
            await hf.sessions.commit_revert(session.id)
            await until(frames, lambda frame: isinstance(frame, Reset))
            await hf.sessions.delete(session.id)
            await until(frames, lambda frame: isinstance(frame, Gone))


async def test_requests_of_a_tree_come_and_those_of_others_do_not(world: World) -> None:
    """WEB-129: a child's request reaches the reader of the root."""
    world.configure(permission={"edit": "ask"})
    write = calling("write", path="other.txt", content="x")
    world.model.always = Cast(root=[delegating("child")], child=[write], stranger=[write])
    async with world.host() as hf:
        stranger, root = await hf.sessions.create(), await hf.sessions.create()
        await hf.sessions.prompt(stranger.id, prompt=PromptInput(text="stranger"))
        async with view(hf, stranger) as frames:
            await until(frames, lambda frame: isinstance(frame, Requests) and bool(frame.requests))
        async with view(hf, root) as frames:
            await hf.sessions.prompt(root.id, prompt=PromptInput(text="root"))
            seen = await until(frames, lambda frame: isinstance(frame, Requests) and bool(frame.requests))
            (request,) = seen[-1].requests  # type: ignore[union-attr]
            assert request.ancestors == (root.id,)
        await hf.sessions.interrupt(stranger.id)
        await hf.sessions.interrupt(root.id)
