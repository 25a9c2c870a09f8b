"""The conversation of a terminal against a real runtime: loaded, followed, unfolded, kept through lost connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Call, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask

from holdfast import Holdfast, PromptInput, Session
from holdfast.client.errors import ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.transport import AsyncTransport, Request, Response
from holdfast.schema.rendered import AssistantEntry, Entry
from holdfast.tui.conversation import Conversation
from holdfast.tui.feed import Feed
from holdfast.tui.linear import Linear
from holdfast.tui.lines import plain_text
from holdfast.tui.passages import Target

pytestmark = pytest.mark.anyio


class Wire:
    """A way to a host that can be cut, and that can lead to another host afterwards."""

    def __init__(self, host: Holdfast, lasts: Callable[[], int] = lambda: 1_000_000) -> None:
        """`lasts` tells after how many pieces of a response the connection breaks."""
        self.to: AsyncTransport | None = host._transport
        self._open: list[_Cuttable] = []
        self._lasts = lasts
        self.streams = 0

    def cut(self) -> None:
        self.to = None
        for response in self._open:
            response.cut.set()

    def lead_to(self, host: Holdfast) -> None:
        self.to = host._transport

    async def send(self, request: Request) -> Response:
        if self.to is None:
            raise ClientError("Transport", "connection refused")
        is_stream = "/view" in request.target
        self.streams += is_stream
        response = _Cuttable(await self.to.send(request), self._lasts() if is_stream else 1_000_000)
        self._open.append(response)
        return response

    async def close(self) -> None:
        pass


class _Cuttable:
    def __init__(self, response: Response, lasts: int) -> None:
        self._response = response
        self._lasts = lasts
        self.status, self.content_type = response.status, response.content_type
        self.cut = asyncio.Event()

    async def read(self) -> bytes:
        return await self._response.read()

    async def chunks(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._response.chunks())
        cut = asyncio.ensure_future(self.cut.wait())
        try:
            while True:
                chunk = asyncio.ensure_future(_next(chunks))
                await asyncio.wait((chunk, cut), return_when=asyncio.FIRST_COMPLETED)
                if not chunk.done():
                    chunk.cancel()
                    await asyncio.gather(chunk, return_exceptions=True)
                    raise ClientError("Transport", "reset")
                self._lasts -= 1
                if self._lasts < 0:
                    raise ClientError("Transport", "reset")
                if (got := chunk.result()) is None:
                    return
                yield got
        finally:
            cut.cancel()

    async def close(self) -> None:
        await self._response.close()


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


class Followed:
    """A feed that runs, and what it shows."""

    def __init__(self, client: AsyncClient, session: Session) -> None:
        self.conversation = Conversation(session.id)
        self._changed = asyncio.Event()
        self.feed = Feed(client, session.id, self.conversation, on_change=self._changed.set)

    def rows(self, width: int = 80) -> list[str]:
        conversation = self.conversation
        return [
            plain_text(line).rstrip()
            for index in range(len(conversation.entries))
            for passage in conversation.passages(index)
            for line in passage.rows(width, conversation.marks)
        ]

    def unfold(self, index: int = 0) -> None:
        """The call with this number, as if it was drawn."""
        calls = [
            (entry.id, part.id)
            for entry in self.conversation.entries
            if isinstance(entry, AssistantEntry)
            for part in entry.parts
            if part.id.startswith("call")
        ]
        self.conversation.folds.toggle(Target("call", *calls[index]))
        self.feed.load_body(*calls[index])

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not met():
                self._changed.clear()
                await self._changed.wait()

    async def shows(self, *lines: str) -> None:
        await self.until(lambda: all(any(line in row for row in self.rows()) for line in lines))


@asynccontextmanager
async def followed(client: AsyncClient, session: Session) -> AsyncIterator[Followed]:
    shown = Followed(client, session)
    running = asyncio.ensure_future(shown.feed.run())
    try:
        yield shown
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def stored(hf: Holdfast, session: Session) -> list[Entry]:
    return (await hf.sessions.rendered(session.id, order="asc", limit=200, format="text")).items


async def test_a_conversation_is_loaded_and_followed(world: World) -> None:
    """TUI-040, TUI-030: the newest page first, text while it is written, older pages when they are asked for."""
    more = asyncio.Event()
    world.model.plays(*(Turn(text=f"answer {number}") for number in range(40)), Turn(text="**Live** text", end=more))
    async with world.host() as hf:
        session = await hf.sessions.create()
        for number in range(40):
            await ask(hf, session, f"prompt {number}")
        async with followed(hf, session) as shown:
            await shown.shows("answer 39")
            assert len(shown.conversation.entries) == 50
            assert shown.conversation.older is not None
            assert "▌ prompt 0" not in shown.rows()

            await hf.sessions.prompt(session.id, prompt=PromptInput(text="now"))
            await shown.shows("▌ now", "Live text")
            more.set()
            await shown.until(lambda: not getattr(shown.conversation.entries[-1], "open", True))
            assert shown.feed.status is not None
            assert shown.feed.status.session.session.id == session.id

            shown.feed.load_older()
            await shown.until(lambda: len(shown.conversation.entries) == 82)
            assert list(shown.conversation.entries) == await stored(hf, session)


async def test_bodies_of_calls_are_loaded_when_they_are_unfolded(world: World) -> None:
    """TUI-023"""
    calls = Call("edit", {"path": "hello.txt", "oldString": "hello", "newString": "bye"}), Call("read", {"path": "no"})
    world.model.plays(Turn(calls=calls), Turn(text="done"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        async with followed(hf, session) as shown:
            await shown.shows("done")
            assert any(row.startswith("✓ edit hello.txt") and row.endswith("+1 −1") for row in shown.rows())
            shown.unfold(0)
            await shown.shows("│ 1 − hello world", "│ 1 + bye world")
            shown.unfold(1)
            await shown.shows('"path": "no"')


async def test_the_output_of_a_command_is_shown_while_it_runs(world: World) -> None:
    """TUI-040"""
    async with world.host() as hf:
        session = await hf.sessions.create()
        async with followed(hf, session) as shown:
            command = "mkfifo wait; printf '\\033[31mbegun\\n'; cat wait"
            running = asyncio.ensure_future(hf.sessions.shell(session.id, command=command))
            await shown.shows("│ begun")
            assert not running.done()
            await asyncio.to_thread((world.project / "wait").write_text, "ended\n")
            await shown.shows("│ begun", "│ ended")
            await running


async def test_a_child_is_followed_while_its_call_is_unfolded(world: World) -> None:
    """TUI-024"""
    world.model.always = Cast(
        root=[delegating("child")], child=[calling("read", path="hello.txt"), Turn(text="found it")]
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        async with followed(hf, session) as shown:
            await shown.shows("✓ subagent")
            shown.unfold(0)
            await shown.shows("│ ▌ child", "│ ✓ read hello.txt", "│   found it")
            child = next(iter(shown.conversation.children.values()))
            await hf.sessions.prompt(child.session_id, prompt=PromptInput(text="child"))
            await shown.until(lambda: len(child.entries) >= 5)
            shown.conversation.folds.set_all("call", False)
            await shown.until(lambda: not shown.conversation.children)


async def test_nothing_is_missing_or_there_twice_after_a_lost_connection(world: World) -> None:
    """TUI-042: what happened meanwhile comes with the next connection, and what was shown stays."""
    world.model.plays(Turn(text="first"), Turn(text="second"), Turn(text="third"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        wire = Wire(hf)
        async with followed(AsyncClient(wire), session) as shown:
            await ask(hf, session, "one")
            await shown.shows("first")
            assert shown.feed.connection.state == "connected"

            wire.cut()
            await shown.until(lambda: shown.feed.connection.state == "reconnecting")
            assert shown.feed.connection.attempts >= 1
            await ask(hf, session, "two")
            assert not any("two" in row for row in shown.rows())

            wire.lead_to(hf)
            await shown.shows("second")
            await ask(hf, session, "three")
            await shown.shows("third")
            assert shown.feed.connection.state == "connected"
            assert list(shown.conversation.entries) == await stored(hf, session)


@pytest.mark.parametrize("seed", range(3))
async def test_connections_that_break_at_any_frame_lose_nothing(
    world: World, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TUI-042: also in the middle of an answer."""
    monkeypatch.setattr("holdfast.client.resume.Patience.delay", lambda self, failures: 0.01)
    lengths = random.Random(seed)
    turns = [Turn(text=f"answer {number} " + "word " * 200) for number in range(8)]
    world.model.plays(*(turn for each in turns for turn in (calling("read", path="hello.txt"), each)))
    async with world.host() as hf:
        session = await hf.sessions.create()
        wire = Wire(hf, lambda: lengths.randint(1, 4))
        async with followed(AsyncClient(wire), session) as shown:
            for number in range(8):
                await ask(hf, session, f"prompt {number}")
                await shown.shows(f"answer {number}")
            stays = await stored(hf, session)
            await shown.until(lambda: list(shown.conversation.entries) == stays)
            assert wire.streams > 3


async def test_a_server_may_restart_under_the_screen(world: World) -> None:
    """TUI-042: another process goes on with the Session, and the terminal with it."""
    held = asyncio.Event()
    world.model.plays(Turn(text="begun ", end=held), Turn(text="finished by the next"))
    async with world.host() as first:
        session = await first.sessions.create()
        wire = Wire(first)
        async with followed(AsyncClient(wire), session) as shown:
            await first.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            await shown.shows("begun")
            wire.cut()
            await first.close()
            async with world.host() as second:
                wire.lead_to(second)
                await shown.shows("finished by the next")
                async with asyncio.timeout(PATIENCE):
                    await second.sessions.wait(session.id)
                await shown.until(lambda: shown.feed.status is not None and shown.feed.status.session.state == "idle")
                assert list(shown.conversation.entries) == await stored(second, session)


async def test_a_reverted_conversation_is_loaded_again_and_a_deleted_one_ends(world: World) -> None:
    """TUI-041, TUI-043"""
    world.model.plays(Turn(text="first"), Turn(text="second"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        await ask(hf, session, "two")
        shown = Followed(hf, session)
        running = asyncio.ensure_future(shown.feed.run())
        await shown.shows("second")
        (*_, prompt, _) = await stored(hf, session)
        await hf.sessions.stage_revert(session.id, message_id=prompt.id)
        await hf.sessions.commit_revert(session.id)
        await shown.until(lambda: not any("second" in row for row in shown.rows()))
        await hf.sessions.delete(session.id)
        async with asyncio.timeout(PATIENCE):
            await running
        assert shown.feed.connection.state == "gone"


async def test_a_session_that_does_not_exist_ends_the_feed(world: World) -> None:
    """TUI-043"""
    async with world.host() as hf:
        feed = Feed(hf, "ses_nothing", Conversation(), on_change=lambda: None)
        async with asyncio.timeout(PATIENCE):
            await feed.run()
        assert feed.connection.state == "gone"


class Typist:
    """Someone in front of the linear terminal."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._typed: asyncio.Queue[str | None] = asyncio.Queue(100)
        self._printed = asyncio.Event()

    def write(self, line: str) -> None:
        self.lines.append(line)
        self._printed.set()

    async def read(self) -> str | None:
        return await self._typed.get()

    def types(self, *lines: str | None) -> None:
        for line in lines:
            self._typed.put_nowait(line)

    async def reads(self, line: str, times: int = 1) -> None:
        async with asyncio.timeout(PATIENCE):
            while sum(line in printed for printed in self.lines) < times:
                self._printed.clear()
                await self._printed.wait()


async def linear(hf: Holdfast, session: Session, script: Callable[[Typist], Coroutine[Any, Any, None]]) -> list[str]:
    person = Typist()
    running = asyncio.ensure_future(Linear(hf, session.id, read=person.read, write=person.write).run())
    try:
        await person.reads("/help")
        await script(person)
        person.types("/quit")
        async with asyncio.timeout(PATIENCE):
            await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert all(line.isprintable() for line in person.lines)
    return person.lines


async def test_the_linear_terminal_prints_what_happens_line_by_line(world: World) -> None:
    """TUI-060: prompts, calls, answers; a command, a prompt of several lines, and the end of input."""
    world.model.plays(
        calling("read", path="hello.txt"), Turn(text="# It says\n\nhello \x1b[31mworld"), Turn(text="yes")
    )

    async def script(person: Typist) -> None:
        person.types("What does it say?")
        await person.reads("Answer complete.")
        person.types("!printf 'a\\033[31mb'")
        await person.reads("Command: printf")
        person.types("two\\", "lines")
        await person.reads("Answer complete.", times=2)
        await person.reads("Ready.")

    async with world.host() as hf:
        session = await hf.sessions.create()
        lines = await linear(hf, session, script)
        assert (await stored(hf, session))[-2].text == "two\nlines"  # type: ignore[union-attr]

    for line in ("Done: read hello.txt", "# It says", "hello \\u001b[31mworld", "ab", "yes"):
        assert any(shown.startswith(line) for shown in lines), line
    assert "You: What does it say?" not in lines


async def test_the_linear_terminal_asks_in_numbered_choices(world: World) -> None:
    """TUI-061: a line that is no choice answers nothing, and is not sent."""
    world.configure(permission={"edit": "ask"})
    world.model.plays(calling("write", path="new.txt", content="one\n"), Turn(text="written"))

    async def script(person: Typist) -> None:
        person.types("write it")
        await person.reads("1. ")
        person.types("surely")
        await person.reads("'surely' is not a choice")
        person.types("1")
        await person.reads("written")

    async with world.host() as hf:
        session = await hf.sessions.create()
        lines = await linear(hf, session, script)
        assert (world.project / "new.txt").read_text() == "one\n"
        assert (
            len(
                [
                    entry
                    for entry in await stored(hf, session)
                    if entry.id.startswith("msg") and hasattr(entry, "delivery")
                ]
            )
            == 1
        )

    assert any(line.startswith("Request: ") for line in lines)
    assert any("+ one" in line for line in lines)
