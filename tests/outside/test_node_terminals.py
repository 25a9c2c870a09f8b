"""Terminals of one server, used through another one on the same database."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import aclosing

import pytest
from tests.cli.conftest import Machine, Server
from tests.outside.test_left_behind import client_of, end, until

from holdfast import ApiError, Location
from holdfast.client.errors import ClientError
from holdfast.client.http import HttpTransport
from holdfast.client.terminal import PtySocket
from holdfast.client.transport import Request, SocketRefused
from holdfast.schema.exceptions import ServiceUnavailable
from holdfast.schema.pty import PtySize

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]


async def read_until(socket: PtySocket, text: str) -> str:
    seen = ""
    async for output in socket:
        seen += output
        if text in seen:
            return seen
    raise AssertionError(f"{text!r} was not shown: {seen!r}")


async def test_a_terminal_is_used_through_another_server(holdfast: Machine, serve: Serve) -> None:
    """STO-110, STO-210: it is found, listed, resized, written to, read and removed there as where it runs."""
    first, second = serve("--node-name", "left"), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        made = (
            await here.ptys.create(command="/bin/sh", args=["-c", "read line; stty size; echo got $line; cat"])
        ).data
        assert (await there.ptys.get(made.id)).data == made
        assert [pty.id for pty in (await there.ptys.list()).data] == [made.id]
        assert [pty.id for pty in (await here.ptys.list()).data] == [made.id]
        renamed = (await there.ptys.update(made.id, title="mine", size=PtySize(rows=12, cols=34))).data
        assert renamed.title == "mine"
        assert (await here.ptys.get(made.id)).data.title == "mine"
        async with await there.ptys.connect(made.id) as socket:
            await socket.write("hello\n")
            assert "12 34" in await read_until(socket, "got hello")
            cursor = socket.cursor
        async with await there.ptys.connect(made.id, cursor=cursor) as socket:  # the terminal runs on
            await socket.write("again\n")
            assert "hello" not in await read_until(socket, "again")
        await there.ptys.remove(made.id)
        for client in (here, there):
            assert (await client.ptys.list()).data == []
            with pytest.raises(ApiError) as refused:
                await client.ptys.get(made.id)
            assert (refused.value.status, refused.value.code) == (404, "PtyNotFoundError")


async def test_the_end_of_a_terminal_reaches_clients_of_another_server(holdfast: Machine, serve: Serve) -> None:
    """STO-210: the socket ends as on its own server, and the event stream of every server tells it."""
    first, second = serve(), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        connected = asyncio.Event()

        async def exited() -> str:
            async with aclosing(aiter(there.events.subscribe())) as events:
                async for event in events:
                    connected.set()
                    if event.type == "pty.exited":
                        return str(event.data.id)  # type: ignore[union-attr]
            raise AssertionError

        told = asyncio.create_task(exited())
        await connected.wait()
        made = (await here.ptys.create(command="/bin/cat")).data
        async with await there.ptys.connect(made.id) as socket:
            await socket.write("\x04")
            async for _ in socket:
                pass
        assert await told == made.id
        assert (await there.ptys.get(made.id)).data.exit_code == 0


async def test_a_ticket_of_one_server_is_good_at_another(holdfast: Machine, serve: Serve) -> None:
    """STO-211: once, for its terminal, without any other credential."""
    servers = [serve() for _ in range(3)]
    async with client_of(servers[0], holdfast) as first, client_of(servers[1], holdfast) as second:
        made = (await first.ptys.create(command="/bin/cat")).data
        other = (await first.ptys.create(command="/bin/cat")).data
        ticket = (await second.ptys.connect_token(made.id)).data.ticket
        transport = HttpTransport(servers[2].url)
        try:
            target = f"/api/pty/{{}}/connect?ticket={ticket}"
            with pytest.raises(SocketRefused) as refused:
                await transport.open_socket(Request("GET", target.format(other.id), {}))
            assert refused.value.status == 403
            socket = await transport.open_socket(Request("GET", target.format(made.id), {}))
            await socket.close()
            with pytest.raises(SocketRefused) as refused:
                await transport.open_socket(Request("GET", target.format(made.id), {}))
            assert refused.value.status == 403
            with pytest.raises(SocketRefused) as refused:
                await transport.open_socket(Request("GET", f"/api/pty/{made.id}/connect?ticket=1.{'0' * 64}", {}))
            assert refused.value.status == 403
        finally:
            await transport.close()


async def test_a_signature_of_a_node_is_not_guessed(holdfast: Machine, serve: Serve) -> None:
    """STO-211: a request with a wrong one is a request without credentials."""
    server = serve()
    transport = HttpTransport(server.url)
    try:
        for signature in ("", "0", f"sec_1 100 {'0' * 24} {'0' * 64}"):
            headers = {"x-holdfast-signature": signature}
            response = await transport.send(Request("GET", "/api/pty", headers, timeout=10))
            assert response.status == 401
            await response.read()
    finally:
        await transport.close()


async def test_a_terminal_ends_with_the_server_that_has_it(holdfast: Machine, serve: Serve) -> None:
    """STO-212: the socket at the other server is closed at once, and the terminal is not found any more."""
    first, second = serve(), serve()
    async with client_of(second, holdfast) as there:
        async with client_of(first, holdfast) as here:
            made = (await here.ptys.create(command="/bin/cat")).data
        async with await there.ptys.connect(made.id) as socket:
            await socket.write("there?\n")
            await read_until(socket, "there?")
            end(first, signal.SIGKILL)
            with pytest.raises(ClientError, match="1014"):
                await read_until(socket, "never")

        async def gone() -> bool:
            return (await there.ptys.list()).data == []

        await until(gone)
        with pytest.raises(ApiError) as refused:
            await there.ptys.get(made.id)
        assert refused.value.code == "PtyNotFoundError"


async def test_a_stopping_server_closes_the_sockets_that_it_passes_on(holdfast: Machine, serve: Serve) -> None:
    """STO-212: the terminal runs on where it is."""
    first, second = serve(), serve()
    async with client_of(first, holdfast) as here:
        made = (await here.ptys.create(command="/bin/cat")).data
        async with client_of(second, holdfast) as there, await there.ptys.connect(made.id) as socket:
            await socket.write("there?\n")
            await read_until(socket, "there?")
            second.process.send_signal(signal.SIGTERM)
            with pytest.raises(ClientError, match="1001"):
                await read_until(socket, "never")
        assert (await here.ptys.get(made.id)).data.status == "running"


async def test_a_server_that_cannot_be_reached_is_named(holdfast: Machine, serve: Serve) -> None:
    """STO-110: with its address, so that the mistake is found; lists go without it."""
    first, second = serve("--node-name", "left", "--node-address", "http://127.0.0.1:1"), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        made = (await here.ptys.create(command="/bin/cat")).data
        for call in (there.ptys.get(made.id), there.ptys.remove(made.id), there.ptys.connect(made.id)):
            with pytest.raises(ServiceUnavailable, match=r"the server left at http://127\.0\.0\.1:1"):
                await call
        assert (await there.ptys.list()).data == []
        assert [pty.id for pty in (await here.ptys.list()).data] == [made.id]


async def test_a_directory_that_no_server_has_is_refused(holdfast: Machine, serve: Serve) -> None:
    """STO-213: with the answer of a single server, after all were asked."""
    first, _ = serve(), serve()
    nowhere = Location(directory=str(holdfast.home / "nowhere"))
    async with client_of(first, holdfast) as here:
        for call in (here.ptys.create(location=nowhere), here.ptys.list(location=nowhere)):
            with pytest.raises(ApiError) as refused:
                await call
            assert (refused.value.status, refused.value.code) == (400, "InvalidRequestError")


async def test_much_output_passes_a_slow_reader_of_another_server(holdfast: Machine, serve: Serve) -> None:
    """STO-212: nothing is lost or reordered between the two."""
    first, second = serve(), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        script = "read go; seq 1 60000; echo the-end; cat"
        made = (await here.ptys.create(command="/bin/sh", args=["-c", script])).data
        async with await there.ptys.connect(made.id) as socket:
            await socket.write("go\n")
            seen = await read_until(socket, "the-end")
        numbers = [int(line) for line in seen.split() if line.isdecimal()]
        assert numbers == list(range(1, 60001))


# -- secrets -----------------------------------------------------------------------------------------------------------


async def test_the_secret_of_servers_is_replaced_while_they_run(holdfast: Machine, serve: Serve) -> None:
    """STO-214: added, moved to the front, removed. A server without it cannot use terminals of the others."""
    old, new = "the old secret of all", "the new secret of all"
    files = [holdfast.home / name for name in ("left.secret", "right.secret")]
    for file in files:
        file.write_text(f"{old}\n", encoding="utf-8")
    servers = [serve(HOLDFAST_NODE_SECRET_FILE=str(file)) for file in files]
    third = serve()
    async with client_of(servers[0], holdfast) as here, client_of(servers[1], holdfast) as there:
        made = (await here.ptys.create(command="/bin/cat")).data
        assert (await there.ptys.get(made.id)).data == made
        for lines in (f"{old}\n{new}\n", f"{new}\n{old}\n", f"{new}\n"):
            for file, server in zip(files, servers, strict=True):
                file.write_text(lines, encoding="utf-8")
                server.process.send_signal(signal.SIGHUP)
                await asyncio.to_thread(_until_reloaded, server)
                assert (await there.ptys.get(made.id)).data == made
    async with client_of(third, holdfast) as stranger:
        with pytest.raises(ServiceUnavailable, match="does not accept the signature of this server"):
            await stranger.ptys.get(made.id)
        assert (await stranger.ptys.list()).data == []


def _until_reloaded(server: Server) -> None:
    assert server.process.stderr is not None
    while "configuration reloaded" not in (line := server.process.stderr.readline()):
        assert line


def test_a_secret_that_cannot_be_used_ends_the_start(holdfast: Machine) -> None:
    """STO-214: a missing file, an empty one, a short secret; the secret is not shown."""
    file = holdfast.home / "secret"
    for content, reason in ((None, "No such file"), ("\n", "it is empty"), ("tooshort", "shorter than 16")):
        if content is not None:
            file.write_text(content, encoding="utf-8")
        ran = holdfast("serve", "--port", "0", HOLDFAST_NODE_SECRET_FILE=str(file))
        assert ran.code == 1
        assert reason in ran.complaint
        assert "tooshort" not in ran.err
