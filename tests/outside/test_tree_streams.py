"""The stream of a tree: events of a Session and of everything below it, in one connection that can be resumed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask, events, position
from tests.stores.stores import on_postgres

from holdfast import (
    ApiError,
    AsyncClient,
    Event,
    Holdfast,
    ModelRef,
    Patience,
    PromptInput,
    Reconnected,
    connect,
    connect_sync,
    follow_tree,
    follow_tree_sync,
)
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.session_event import StepEnded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.cli.conftest import Machine, Server

pytestmark = pytest.mark.anyio

CONNECTED = "session.tree.connected"


def session_of(event: Event) -> str:
    return str(decode_any(encode(event.data))["sessionID"])


class Reader:
    """Collects the events of a stream."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._more = asyncio.Event()

    async def read(self, stream: AsyncIterator[Event]) -> None:
        async for event in stream:
            self.events.append(event)
            self._more.set()

    async def until(self, met: Callable[[], bool]) -> list[Event]:
        async with asyncio.timeout(PATIENCE):
            while not met():
                self._more.clear()
                await self._more.wait()
        return self.events

    def durable(self) -> list[tuple[str, int]]:
        return [(event.durable.aggregate_id, event.durable.seq) for event in self.events if event.durable is not None]

    @property
    def cursor(self) -> str:
        return next(event.cursor for event in reversed(self.events) if event.cursor is not None)

    def has(self, type: str) -> bool:
        return any(event.type.removeprefix("session.next.") == type for event in self.events)


@asynccontextmanager
async def reading(hf: Holdfast, session_id: str, **options: object) -> AsyncIterator[Reader]:
    reader = Reader()
    async with aclosing(aiter(hf.sessions.tree_events(session_id, **options))) as stream:  # type: ignore[arg-type]
        task = asyncio.get_running_loop().create_task(reader.read(stream))
        try:
            yield reader
        finally:
            task.cancel()
            await asyncio.wait({task})


def idle(reader: Reader, session_id: str) -> Callable[[], bool]:
    return lambda: any(event.type == "session.idle" and session_of(event) == session_id for event in reader.events)


async def test_one_stream_carries_children_that_are_created_later(world: World) -> None:
    """API-567, EVT-090: durable and live events of every Session, each in its order."""
    world.model.always = Cast(root=[delegating("a")], a=[delegating("b")], b=[calling("read", path="hello.txt")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        async with reading(hf, session.id, replay=False) as reader:
            await reader.until(lambda: reader.has(CONNECTED))
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
            await reader.until(idle(reader, session.id))
        tree = await hf.sessions.tree(session.id)
        for node in tree.nodes:
            told = [seq for id, seq in reader.durable() if id == node.id]
            assert told == sorted(set(told))
            known = [position(event) for event in await events(hf, node.id)]
            assert set(known) <= set(told)
        assert {session_of(event) for event in reader.events if event.type.endswith("text.delta")} == {
            node.id for node in tree.nodes
        }
        created = [
            event.durable.aggregate_id for event in reader.events if event.type == "session.created" and event.durable
        ]
        assert created == [node.id for node in tree.nodes[1:]]


async def test_a_stream_replays_the_tree_and_goes_on_after_a_cursor(world: World) -> None:
    """API-567, EVT-091: nothing is lost between two connections, also of children that were created meanwhile."""
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[delegating("a"), delegating("b")], a=[Turn(text="one")], b=[Turn(text="x", begin=gate)]
    )
    async with world.host() as hf:
        session, other = await hf.sessions.create(), await hf.sessions.create()
        async with reading(hf, session.id) as first:
            await first.until(lambda: first.has(CONNECTED))
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
            await first.until(lambda: sum(event.type.endswith("text.ended") for event in first.events) == 1)
        await ask(hf, other, "noise")
        gate.set()
        await hf.sessions.wait(session.id)
        async with reading(hf, session.id, after=first.cursor) as second:
            await second.until(lambda: second.has(CONNECTED))
        async with reading(hf, session.id) as whole:
            await whole.until(lambda: whole.has(CONNECTED))
        assert len(whole.durable()) == len(set(whole.durable()))
        assert {*first.durable(), *second.durable()} == set(whole.durable())
        assert other.id not in {id for id, _ in whole.durable()}
        assert [id for id, _ in second.durable()].count(session.id) < [id for id, _ in whole.durable()].count(
            session.id
        )
        assert len(second.durable()) < len(whole.durable())


OTHER_STORE = "57" if on_postgres() else "730:735:731"


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "", "9" * 30, OTHER_STORE, "1' or '1"])
async def test_what_is_not_a_cursor_is_refused(world: World, cursor: str) -> None:
    """API-567, EVT-091: also a cursor of another kind of database."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(ApiError) as refused:
            async for _ in hf.sessions.tree_events(session.id, after=cursor):
                pass
        assert (refused.value.status, refused.value.code) == (400, "InvalidCursorError")


async def test_events_of_other_processes_arrive_too(world: World) -> None:
    """EVT-092: a child that another process creates and works on is followed like any other."""
    world.model.always = Cast(root=[delegating("a")])
    async with world.host() as hf, world.host() as elsewhere:
        session = await hf.sessions.create()
        async with reading(hf, session.id, replay=False) as reader:
            await reader.until(lambda: reader.has(CONNECTED))
            await ask(elsewhere, session, "root")
            tree = await hf.sessions.tree(session.id)
            child = tree.nodes[1].id
            known = [(child, position(event)) for event in await events(hf, child)]
            await reader.until(lambda: set(known) <= set(reader.durable()))
            assert reader.cursor


async def test_the_stream_of_a_part_of_a_tree_leaves_out_what_is_above(world: World) -> None:
    """API-567: only the Session and what is below it."""
    world.model.always = Cast(root=[delegating("a")], a=[delegating("b")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        _, child, below = (await hf.sessions.tree(session.id)).nodes
        async with reading(hf, child.id) as reader:
            await reader.until(lambda: reader.has(CONNECTED))
            assert {id for id, _ in reader.durable()} == {child.id, below.id}


class Proxy:
    """A way to a server whose connections can be cut."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._server = (host, int(port))
        self._open: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self.url = ""

    async def __aenter__(self) -> Proxy:
        self._listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listening.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._listening.close()
        self.cut()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._server)
        for source, target in ((reader, back), (there, writer)):
            self._open.add(target)
            task = asyncio.get_running_loop().create_task(self._carry(source, target))
            self._carrying.add(task)
            task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        self._open.discard(writer)
        writer.transport.abort()


async def test_a_follower_of_a_tree_goes_on_after_lost_connections(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """API-580: however often the connection breaks, each durable event of each Session comes once and in order, also
    of children that were created meanwhile; the caller is told where it goes on."""
    work = {"agent": "general", "description": "a task", "model": "demo/echo", "prompt": "Look at hello.txt."}
    calls = [{"tool": "subagent", "input": work}] * 2
    holdfast.script({"calls": calls}, {"calls": calls}, {"text": "done"})
    server = serve("--no-auth")
    told: list[Reconnected] = []
    options = {"patience": Patience(attempts=50, first=0.001, longest=0.01), "on_reconnect": told.append}
    async with (
        asyncio.timeout(PATIENCE),
        Proxy(server.url) as proxy,
        connect(server.url, environment=holdfast.environment) as client,
        connect(proxy.url, environment=holdfast.environment) as through,
    ):
        session = await client.sessions.create(model=ModelRef(provider_id="demo", id="scripted"))
        reader = Reader()
        async with aclosing(follow_tree(through, session.id, **options)) as stream:  # type: ignore[arg-type]
            await client.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            missing: set[tuple[str, int]] | None = None
            async for event in stream:
                reader.events.append(event)
                if len(reader.events) % 7 == 0:
                    proxy.cut()
                if (
                    isinstance(event.data, StepEnded)
                    and event.data.finish == "stop"
                    and session_of(event) == session.id
                ):
                    missing = await _stored(client, session.id)
                # A continued stream tells Session by Session: the end of the root may come before that of a child.
                if missing is not None and missing <= set(reader.durable()):
                    if len(told) >= 3 and told[-1].after is not None:
                        break
                    proxy.cut()  # each new connection begins with an event that has a cursor
        tree = await client.sessions.tree(session.id)
        for node in tree.nodes:
            seen = [seq for id, seq in reader.durable() if id == node.id]
            assert seen == sorted(set(seen))
        assert tree.count == 5
        last = told[-1].after
        assert isinstance(last, str)
        rest = follow_tree(client, session.id, after=last)
        async with aclosing(rest):
            assert len([event async for event in _until_connected(rest)]) < len(reader.events)
        blocking = await asyncio.to_thread(_blocking, server, holdfast, session.id)
    assert set(reader.durable()) <= set(blocking)


async def _stored(client: AsyncClient, session_id: str) -> set[tuple[str, int]]:
    """The public events of a tree that has ended, by Session and sequence."""
    return {
        (node.id, position(event))
        for node in (await client.sessions.tree(session_id)).nodes
        for event in (await client.sessions.history(node.id, limit=100)).events
    }


async def _until_connected(stream: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in stream:
        yield event
        if event.type == CONNECTED:
            return


def _blocking(server: Server, machine: Machine, session_id: str) -> list[tuple[str, int]]:
    """The durable events of the tree, read by blocking code."""
    found = []
    with connect_sync(server.url, environment=machine.environment) as client:
        for event in follow_tree_sync(client, session_id):
            if event.type == CONNECTED:
                break
            assert event.durable is not None
            found.append((event.durable.aggregate_id, event.durable.seq))
    return found
