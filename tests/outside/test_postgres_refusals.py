"""Databases that cannot be used: each command ends with one line that says why, without the password. What a server
refuses while a host runs is a wait that can be seen, and the host goes on when the cause is gone."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, NearMachine, Provider, Server, finish
from tests.outside.test_left_behind import client_of, new_session, until
from tests.stores.private import PASSWORD, PrivateServer, private_server
from tests.stores.server import NoPostgres

from holdfast import Holdfast, PromptInput
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request
from holdfast.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="addresses are those of servers")]
MACHINE = NearMachine

TERMINATE = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'holdfast'"
PATIENCE = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    try:
        with private_server(settings={"wal_level": "replica"}) as server:
            yield server
    except NoPostgres as error:
        pytest.skip(str(error))


@pytest.fixture
def database(server: PrivateServer, request: pytest.FixtureRequest) -> str:
    """The name of an empty database of the role."""
    name = f"d{abs(hash(request.node.nodeid)):x}"
    server.sql(f"create database {name} owner holdfast")
    return name


def not_known(server: PrivateServer, database: str) -> str:
    return f"mysql://u:{PASSWORD}@127.0.0.1/{database}"


def unknown_parameter(server: PrivateServer, database: str) -> str:
    return server.address(database, nosuch="1")


def not_a_port(server: PrivateServer, database: str) -> str:
    return f"postgresql://u:{PASSWORD}@127.0.0.1:70000/{database}"


def closed_port(server: PrivateServer, database: str) -> str:
    return server.address(database, port=1)


def wrong_password(server: PrivateServer, database: str) -> str:
    return server.address(database, password=f"{PASSWORD}x")


def missing_database(server: PrivateServer, database: str) -> str:
    return server.address("nothing")


def no_rights(server: PrivateServer, database: str) -> str:
    server.sql("drop role if exists guest")
    server.new_role("guest")
    server.sql("revoke create on schema public from public", database=database)
    return server.address(database, user="guest")


def read_only_role(server: PrivateServer, database: str) -> str:
    server.sql("drop role if exists reader")
    server.new_role("reader")
    server.sql("alter role reader set default_transaction_read_only = on")
    return server.address(database, user="reader")


def no_connection_left(server: PrivateServer, database: str) -> str:
    server.sql("drop role if exists many")
    server.new_role("many")
    server.sql("alter role many connection limit 0")
    return server.address(database, user="many")


def tables_of_others(server: PrivateServer, database: str) -> str:
    server.sql("create table session (id int)", database=database)
    return server.address(database)


def no_encryption(server: PrivateServer, database: str) -> str:
    return server.address(database, sslmode="require")


REFUSALS: dict[Callable[[PrivateServer, str], str], str] = {
    not_known: "only postgresql:// is known",
    unknown_parameter: "invalid URI query parameter",
    not_a_port: "invalid port number",
    closed_port: "Connection refused",
    wrong_password: 'password authentication failed for user "holdfast"',
    missing_database: 'database "nothing" does not exist',
    no_rights: "permission denied for schema public",
    read_only_role: "it is read-only: a standby, or default_transaction_read_only is set",
    no_connection_left: "raise max_connections or the CONNECTION LIMIT of the role",
    tables_of_others: "the schema public has tables of another program",
    no_encryption: "server does not support SSL",
}


@pytest.mark.parametrize("prepare", REFUSALS, ids=lambda prepare: prepare.__name__)
def test_a_database_that_cannot_be_used_is_one_line(
    holdfast: Machine, server: PrivateServer, database: str, prepare: Callable[[PrivateServer, str], str]
) -> None:
    """STO-017, STO-063, STO-190."""
    ran = holdfast("doctor", HOLDFAST_DATABASE=prepare(server, database))
    assert ran.code == 1
    assert REFUSALS[prepare] in ran.complaint
    assert PASSWORD not in ran.out + ran.err


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("run", "--model", "demo/echo", "hi"), ("sessions",)])
def test_every_command_refuses_likewise(
    holdfast: Machine, server: PrivateServer, database: str, command: tuple[str, ...]
) -> None:
    """STO-017, STO-190: before it does anything else."""
    ran = finish(holdfast.start(*command, HOLDFAST_DATABASE=wrong_password(server, database)))
    assert ran.code == 1
    assert REFUSALS[wrong_password] in ran.complaint
    assert PASSWORD not in ran.out + ran.err


def test_a_standby_is_refused(holdfast: Machine, server: PrivateServer, database: str) -> None:
    """STO-017, STO-190: a real one, which answers reads."""
    server.stop()
    signal_file = server.write("standby.signal", "")
    server.start()
    try:
        ran = holdfast("doctor", HOLDFAST_DATABASE=server.address(database))
        assert ran.code == 1
        assert REFUSALS[read_only_role] in ran.complaint
    finally:
        server.stop()
        signal_file.unlink()
        server.start()
    assert holdfast("doctor", HOLDFAST_DATABASE=server.address(database)).code == 0


def test_a_schema_of_a_newer_version_is_refused(holdfast: Machine, server: PrivateServer, database: str) -> None:
    """STO-016, STO-190."""
    address = server.address(database)
    assert holdfast("doctor", HOLDFAST_DATABASE=address).code == 0
    server.sql("insert into holdfast_schema values (999)", database=database)
    assert "has schema 999, this Holdfast knows up to" in holdfast("doctor", HOLDFAST_DATABASE=address).complaint


@asynccontextmanager
async def outage(hf: Holdfast, expected: str) -> AsyncIterator[None]:
    """The host says what it waits for, and that it is over afterwards."""

    async def waits() -> bool:
        storage = (await hf.health.get()).storage
        return storage is not None and expected in storage.reason

    async def over() -> bool:
        return (await hf.health.get()).storage is None

    async with asyncio.timeout(PATIENCE):
        await until(waits)
        storage = (await hf.health.get()).storage
        assert storage is not None
        assert PASSWORD not in storage.reason
        assert 0 <= time.time() * 1000 - storage.since < PATIENCE * 1000
        yield
        await until(over)


@pytest.mark.parametrize(
    ("refuse", "allow", "expected"),
    [
        ("alter role holdfast connection limit 0", "alter role holdfast connection limit -1", "CONNECTION LIMIT"),
        (
            "alter role holdfast password 'other'",
            f"alter role holdfast password '{PASSWORD}'",
            "password authentication failed",
        ),
        (
            "alter role holdfast set default_transaction_read_only = on",
            "alter role holdfast reset default_transaction_read_only",
            "it is read-only",
        ),
        ("alter role holdfast nologin", "alter role holdfast login", "not permitted to log in"),
    ],
    ids=["connections", "password", "read-only", "login"],
)
async def test_a_refusal_while_a_host_runs_is_a_wait(
    tmp_path: Path, server: PrivateServer, database: str, refuse: str, allow: str, expected: str
) -> None:
    """STO-006, STO-191, STO-192: a prompt that is sent meanwhile is stored and answered when the cause is gone."""
    model = ScriptedModel("one", "two")
    async with model.host(tmp_path, database=server.address(database)) as hf:
        first = await hf.run("go")
        try:
            server.sql(refuse, TERMINATE)
            running = asyncio.create_task(hf.run("go on", session=first.session.id))
            async with outage(hf, expected):
                assert not running.done()
                server.sql(allow)
            async with asyncio.timeout(PATIENCE):
                assert (await running).text == "two"
        finally:
            server.sql(allow)
        assert await hf.verify() == []


async def test_limits_of_the_role_do_not_end_commits(tmp_path: Path, server: PrivateServer, database: str) -> None:
    """STO-193: timeouts that are set for the role, or for the database. A commit that another transaction keeps waiting
    takes longer than they allow, and so does the pause between two prompts."""
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
    server.sql(*(f"alter role holdfast set {limit} = '400ms'" for limit in limits))
    try:
        model = ScriptedModel("one", "two")
        async with model.host(tmp_path, database=server.address(database)) as hf:
            assert (await hf.run("go")).text == "one"
            await asyncio.sleep(1)
            keeping = "begin; lock table event in exclusive mode; select pg_sleep(1); commit"
            kept = asyncio.create_task(asyncio.to_thread(server.sql, keeping, database=database))
            assert (await hf.run("go")).text == "two"
            await kept
            assert (await hf.health.get()).storage is None
            assert await hf.verify() == []
    finally:
        server.sql(*(f"alter role holdfast reset {limit}" for limit in limits))


async def test_a_server_that_stops_is_seen_and_waited_for(
    holdfast: Machine, server: PrivateServer, database: str, serve: Callable[..., Server], provider: Provider
) -> None:
    """STO-006, STO-191, STO-192: the health of the server tells since when and why, its log has a line for the
    beginning and one for the end, and a prompt that came meanwhile is answered."""
    holdfast.use_provider(provider.url)
    node = serve(HOLDFAST_DATABASE=server.address(database))
    async with client_of(node, holdfast) as client:
        assert (await client.health.get()).storage is None
        session_id = await new_session(client, holdfast)
        server.stop(signal.SIGQUIT)

        async def waits() -> bool:
            storage = (await client.health.get()).storage
            return storage is not None and "refused" in storage.reason

        await until(waits)
        sending = asyncio.create_task(client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?")))
        await asyncio.sleep(1.0)
        assert not sending.done()
        server.start()
        await sending
        assert (await client.sessions.outcome(session_id)).type == "completed"

        async def over() -> bool:
            return (await client.health.get()).storage is None

        await until(over)
    node.process.send_signal(signal.SIGTERM)
    ended = finish(node.process)
    assert ended.code == 0
    assert PASSWORD not in ended.err
    told = [line for line in ended.err.splitlines() if "database" in line or "is back" in line]
    assert len(told) <= 4, ended.err
    assert "is back after" in told[-1]
    assert "Traceback" not in ended.err


async def test_the_password_is_in_no_answer_and_no_list_of_processes(
    holdfast: Machine, server: PrivateServer, database: str, serve: Callable[..., Server]
) -> None:
    """STO-063: in nothing that can be asked without further knowledge, and in no arguments."""
    holdfast.configure_user(holdfast={"storage": {"url": server.address(database)}})
    node = serve("--no-auth", HOLDFAST_DATABASE=server.address(database))
    transport = HttpTransport(node.url)

    async def get(path: str) -> bytes:
        return await (await transport.send(Request("GET", path, {}, timeout=PATIENCE))).read()

    try:
        described = json.loads(await get("/openapi.json"))
        paths = [path for path, known in described["paths"].items() if "get" in known and "{" not in path]
        streams = ("/api/event", "/event", "/global/event")
        answers = {path: await get(path) for path in paths if path not in streams}
    finally:
        await transport.close()
    assert len(answers) > 10
    assert not [path for path, answer in answers.items() if PASSWORD.encode() in answer]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes()
        except OSError:
            continue
        assert PASSWORD.encode() not in arguments or b"pytest" in arguments
    node.process.send_signal(signal.SIGTERM)
    assert finish(node.process).code == 0
