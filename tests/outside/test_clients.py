"""The generated clients, whole: files, terminals and typed events, over a real server and in one process."""

from __future__ import annotations

import asyncio
import importlib.resources
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from tests.cli.conftest import Machine, Server

from holdfast import (
    ApiError,
    AsyncClient,
    Client,
    ClientError,
    DurableEvent,
    Holdfast,
    HoldfastSync,
    LiveEvent,
    Location,
    ModelRef,
    PromptInput,
    connect,
    connect_sync,
    follow,
    follow_sync,
)
from holdfast.client.terminal import PtySocket, SyncPtySocket
from holdfast.schema.live_event import SessionStatus, TextDelta
from holdfast.schema.session_event import PromptAdmitted, StepEnded, TextEnded

pytestmark = pytest.mark.anyio

ECHO = ModelRef(id="echo", provider_id="demo")
SCRIPT = "printf 'ready\\n'; read word; printf 'got %s €\\n' \"$word\""
Serve = Callable[..., Server]
Opened = Callable[[], "AsyncIterator[AsyncClient]"]


@asynccontextmanager
async def network(machine: Machine, serve: Serve) -> AsyncIterator[AsyncClient]:
    async with connect(serve().url, environment=machine.environment) as client:
        yield client


@asynccontextmanager
async def embedded(machine: Machine, serve: Serve) -> AsyncIterator[AsyncClient]:
    async with Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment) as host:
        yield host


@pytest.fixture(params=[network, embedded], ids=["network", "embedded"])
async def client(request: pytest.FixtureRequest, holdfast: Machine, serve: Serve) -> AsyncIterator[AsyncClient]:
    async with request.param(holdfast, serve) as client, asyncio.timeout(30):
        yield client


@contextmanager
def network_sync(machine: Machine, serve: Serve) -> Iterator[Client]:
    with connect_sync(serve().url, environment=machine.environment) as client:
        yield client


@contextmanager
def embedded_sync(machine: Machine, serve: Serve) -> Iterator[Client]:
    with HoldfastSync(machine.project, data=machine.data, environment=machine.environment) as host:
        yield host


@pytest.fixture(params=[network_sync, embedded_sync], ids=["network", "embedded"])
def blocking(request: pytest.FixtureRequest, holdfast: Machine, serve: Serve) -> Iterator[Client]:
    with request.param(holdfast, serve) as client:
        yield client


def files_of(machine: Machine) -> bytes:
    data = bytes(range(256)) * 10
    (machine.project / "a dir").mkdir()
    (machine.project / "a dir" / "ü#?.bin").write_bytes(data)
    return data


async def test_a_file_is_read_as_bytes(client: AsyncClient, holdfast: Machine) -> None:
    """API-430: whatever its bytes and its name; a missing one is a declared failure, a path out of the project is sent
    nowhere."""
    data = files_of(holdfast)
    here = Location(directory=str(holdfast.project))
    assert await client.files.read("a dir/ü#?.bin", location=here) == data
    with pytest.raises(ApiError) as missing:
        await client.files.read("nothing/here", location=here)
    assert missing.value.code == "NotFoundError"
    for path in ("", "/etc/passwd", "../secret", "a/./b", "a//b"):
        with pytest.raises(ValueError, match="path"):
            await client.files.read(path, location=here)


async def test_a_terminal_is_worked_in(client: AsyncClient, holdfast: Machine) -> None:
    """API-430, API-165: output, typing, the end, and the position to go on from, counted as the server does."""
    here = Location(directory=str(holdfast.project))
    terminal = (await client.ptys.create(command="/bin/sh", args=["-c", SCRIPT], location=here)).data
    async with await client.ptys.connect(terminal.id, location=here) as socket:
        assert isinstance(socket, PtySocket)
        output = ""
        async for piece in socket:
            output += piece
            if "ready" in piece:
                await socket.write("typed\n")
        cursor = socket.cursor
    assert "got typed €" in output
    assert cursor == len(output)
    async with await client.ptys.connect(terminal.id, location=here, cursor=cursor - 4) as late:
        assert "".join([piece async for piece in late]) == output[-4:]


async def test_a_terminal_that_is_not_there_is_a_declared_failure(client: AsyncClient, holdfast: Machine) -> None:
    """API-430, API-164: and a ticket lets in exactly once."""
    here = Location(directory=str(holdfast.project))
    with pytest.raises(ApiError) as missing:
        await client.ptys.connect("pty_unknown", location=here)
    terminal = (await client.ptys.create(command="/bin/sh", args=["-c", "exec cat"], location=here)).data
    ticket = (await client.ptys.connect_token(terminal.id, location=here)).data.ticket
    async with await client.ptys.connect(terminal.id, location=here, ticket=ticket) as socket:
        await socket.write("x\n")
        assert await anext(socket)
    with pytest.raises(ApiError) as used:
        await client.ptys.connect(terminal.id, location=here, ticket=ticket)
    await client.ptys.remove(terminal.id, location=here)

    assert (missing.value.code, used.value.code) == ("PtyNotFoundError", "ForbiddenError")


async def test_the_document_of_the_api_is_an_operation(client: AsyncClient) -> None:
    """API-430."""
    document = await client.openapi.document()
    assert document["openapi"] == "3.1.0"
    assert "/api/pty/{ptyID}/connect" in document["paths"]


async def test_clients_receive_decoded_events(client: AsyncClient) -> None:
    """API-439: what a user writes to show an answer as it comes."""
    session = await client.sessions.create(model=ECHO)
    text, whole, kinds = "", "", set()
    following = follow(client, session.id, live=True)
    await client.sessions.prompt(session.id, prompt=PromptInput(text="one two three"))
    async for event in following:
        kinds.add(type(event))
        match event.data:
            case PromptAdmitted(prompt=prompt):
                assert prompt.text == "one two three"
            case TextDelta(delta=delta):
                text += delta
            case TextEnded(text=ended):
                whole = ended
            case SessionStatus(status=status):
                assert type(status).__name__ in ("Busy", "Idle")
            case StepEnded():
                break
    await following.aclose()
    history = await client.sessions.history(session.id)

    assert whole.endswith(text)
    assert DurableEvent in kinds
    assert kinds <= {DurableEvent, LiveEvent}
    assert isinstance(history.events[0].data, PromptAdmitted)


def test_blocking_clients_have_files_terminals_and_typed_events(blocking: Client, holdfast: Machine) -> None:
    """API-430, API-439: files, terminals and typed events without a loop."""
    data = files_of(holdfast)
    here = Location(directory=str(holdfast.project))
    assert blocking.files.read("a dir/ü#?.bin", location=here) == data
    terminal = blocking.ptys.create(command="/bin/sh", args=["-c", SCRIPT], location=here).data
    with blocking.ptys.connect(terminal.id, location=here) as socket:
        assert isinstance(socket, SyncPtySocket)
        output = ""
        for piece in socket:
            output += piece
            if "ready" in piece:
                socket.write("typed\n")
    assert "got typed €" in output
    with pytest.raises(ApiError):
        blocking.ptys.connect("pty_unknown", location=here)
    session = blocking.sessions.create(model=ECHO)
    blocking.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
    for event in follow_sync(blocking, session.id):
        if isinstance(event.data, StepEnded):
            break


async def test_a_terminal_whose_server_ends_says_so(holdfast: Machine, serve: Serve) -> None:
    """API-430: no silent end: the terminal did not finish."""
    server = serve()
    here = Location(directory=str(holdfast.project))
    async with connect(server.url, environment=holdfast.environment) as client, asyncio.timeout(30):
        terminal = (
            await client.ptys.create(command="/bin/sh", args=["-c", "echo ready; exec cat"], location=here)
        ).data
        async with await client.ptys.connect(terminal.id, location=here) as socket:
            assert "ready" in await anext(socket)
            server.process.kill()
            with pytest.raises(ClientError) as broken:
                async for _ in socket:
                    pass
    assert broken.value.reason == "Transport"


def test_the_package_says_that_it_is_typed() -> None:
    """API-440: type checkers read the annotations of an installed package only then."""
    assert importlib.resources.files("holdfast").joinpath("py.typed").is_file()
