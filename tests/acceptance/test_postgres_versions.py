"""Two nodes on each supported version of PostgreSQL, with an ordinary role: a story from an empty database to a
takeover. Two nodes behind PgBouncer, which is killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.pgbouncer import Pooler
from tests.cli.conftest import Machine, Provider, Server, finish
from tests.cli.conftest import holdfast as holdfast
from tests.cli.conftest import provider as provider
from tests.cli.conftest import serve as serve
from tests.outside.test_left_behind import answers, asked, client_of, in_turn, new_session, until
from tests.stores.private import PASSWORD, PrivateServer, private_server
from tests.stores.server import NoPostgres

from holdfast import ApiError, AsyncClient, PromptInput

pytestmark = [pytest.mark.anyio, pytest.mark.acceptance]

Serve = Callable[..., Server]
SUPPORTED = ("14", "15", "16", "17", "18")
KILLS = 8


@contextmanager
def server_of(version: str | None = None) -> Iterator[PrivateServer]:
    """With a database in which the role has a schema and no other right."""
    try:
        with private_server(version=version) as server:
            server.sql("create database shared")
            server.sql("revoke create on schema public from public", database="shared")
            server.sql("create schema ours authorization holdfast", database="shared")
            yield server
    except NoPostgres as error:
        pytest.skip(str(error))


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the users of PostgreSQL and PgBouncer can reach."""
    with tempfile.TemporaryDirectory(prefix="holdfast-pooler-") as made:
        Path(made).chmod(0o711)
        yield Path(made)


@pytest.mark.parametrize("version", SUPPORTED)
async def test_two_nodes_work_on_every_supported_version(
    version: str, holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-068, STO-102, STO-200: tables are created, a prompt is admitted once and followed from the other node, what a
    killed node left is finished, and everything agrees with the event log."""
    with server_of(version) as server:
        address = server.address("shared", schema="ours")
        await tell_story(address, holdfast, serve, provider)
        doctor = await asyncio.to_thread(holdfast, "doctor", HOLDFAST_DATABASE=address)
        assert doctor.code == 0
        assert f"PostgreSQL {version}." in doctor.out
        assert "schema ours, role holdfast" in doctor.out
        assert PASSWORD not in doctor.out + doctor.err
        assert not [line for line in server.log().splitlines() if "ERROR" in line and "division by zero" not in line]


async def test_an_older_server_is_refused(holdfast: Machine) -> None:
    """STO-017, STO-200: a real one."""
    with server_of("13") as server:
        ran = await asyncio.to_thread(holdfast, "doctor", HOLDFAST_DATABASE=server.address("shared", schema="ours"))
        assert ran.code == 1
        assert "it runs PostgreSQL 13; Holdfast needs 14 or newer" in ran.complaint


async def tell_story(address: str, holdfast: Machine, serve: Serve, provider: Provider) -> None:
    holdfast.use_provider(provider.url, settings={"recovery": "continue"})
    in_turn(provider, Provider.answer, provider.hang, Provider.answer)
    first, second = serve(HOLDFAST_DATABASE=address), serve(HOLDFAST_DATABASE=address)
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        session_id = await new_session(here, holdfast)
        prompt: dict[str, Any] = {"id": "msg_one", "prompt": PromptInput(text="what is it?")}
        admitted = await here.sessions.prompt(session_id, **prompt)
        assert (await there.sessions.prompt(session_id, **prompt)).id == admitted.id
        with pytest.raises(ApiError) as refused:
            await there.sessions.prompt(session_id, id="msg_one", prompt=PromptInput(text="another"))
        assert refused.value.status == 409
        assert (await there.sessions.outcome(session_id)).type == "completed"
        await here.sessions.prompt(session_id, prompt=PromptInput(text="and now?"))
        await until(lambda: asyncio.to_thread(lambda: len(asked(provider)) == 2))
        first.process.send_signal(signal.SIGKILL)
        await until(lambda: asyncio.to_thread(lambda: len(asked(provider)) == 3))
        assert (await there.sessions.outcome(session_id)).type == "completed"
        assert [answer.finish for answer in await answers(there, session_id)][-1] == "stop"
    second.process.send_signal(signal.SIGTERM)
    assert (await asyncio.to_thread(finish, second.process)).code == 0


async def test_nodes_outlive_kills_of_the_pooler(
    folder: Path, holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-005, STO-019, STO-068, STO-201: listening and locks go to the server itself, everything else through
    PgBouncer; each prompt that was acknowledged is answered once."""
    with server_of() as server, pooler_of(folder, server) as pooler:
        address = server.address("shared", port=pooler.port, schema="ours", direct=f"127.0.0.1:{server.port}")
        holdfast.use_provider(provider.url)
        nodes = [serve(HOLDFAST_DATABASE=address) for _ in range(2)]
        over = asyncio.Event()

        async def kill() -> None:
            for _ in range(KILLS):
                pooler.kill()
                await asyncio.sleep(0.1)
                pooler.start()
                await asyncio.sleep(0.4)
            over.set()

        async def talk(client: AsyncClient, number: int) -> int:
            session_id = await new_session(client, holdfast)
            count = 0
            while not over.is_set() or not count:
                count += 1
                await client.sessions.prompt(session_id, prompt=PromptInput(text=f"question {number}.{count}"))
                assert (await client.sessions.outcome(session_id)).type == "completed"
            finishes = [answer.finish for answer in await answers(client, session_id)]
            assert finishes == ["stop"] * count
            return count

        async with client_of(nodes[0], holdfast) as here, client_of(nodes[1], holdfast) as there:
            *counts, _ = await asyncio.gather(talk(here, 1), talk(here, 2), talk(there, 3), kill())
        texts = [json.dumps(body["messages"][-1]) for body in asked(provider)]
        assert len(set(texts)) == len(texts) == sum(counts)
        for node in nodes:
            node.process.send_signal(signal.SIGTERM)
            ended = await asyncio.to_thread(finish, node.process)
            assert ended.code == 0
            assert PASSWORD not in ended.err
        doctor = await asyncio.to_thread(holdfast, "doctor", HOLDFAST_DATABASE=address)
        assert doctor.code == 0, doctor.err


@pytest.mark.parametrize("more", ["", "ignore_startup_parameters = options"])
async def test_a_pooler_without_the_address_of_the_server_is_refused(
    folder: Path, holdfast: Machine, more: str
) -> None:
    """STO-201: also if the pooler ignores what it cannot do."""
    with server_of() as server, pooler_of(folder, server, more) as pooler:
        address = server.address("shared", port=pooler.port, schema="ours")
        process = holdfast.start("serve", "--port", "0", HOLDFAST_DATABASE=address)
        ran = await asyncio.to_thread(finish, process)
        assert ran.code == 1
        assert "it leads to a pooler" in ran.err
        assert "add direct=HOST:PORT" in ran.err
        assert PASSWORD not in ran.err


@contextmanager
def pooler_of(folder: Path, server: PrivateServer, more: str = "") -> Iterator[Pooler]:
    try:
        pooler = Pooler(folder / "pooler", server, more)
    except NoPostgres as error:
        pytest.skip(str(error))
    try:
        yield pooler
    finally:
        pooler.kill()
