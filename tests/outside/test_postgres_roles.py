"""Roles with few rights, as the documentation has them."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Server, finish
from tests.stores.private import PASSWORD, PrivateServer, private_server
from tests.stores.server import NoPostgres

from holdfast import ForkThrough
from holdfast.schema.exceptions import HoldfastError
from holdfast.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="roles are those of servers")]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "postgres-role.md"
STATEMENTS = re.findall(r"^```text\n(create role .*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    try:
        with private_server() as server:
            server.sql("drop role holdfast")
            yield server
    except NoPostgres as error:
        pytest.skip(str(error))


@pytest.fixture
def roles(server: PrivateServer, request: pytest.FixtureRequest) -> Iterator[None]:
    """The roles of one of the blocks of the page, whose index is the parameter."""
    server.sql("create database shared")
    script = STATEMENTS[request.param].replace("choose one", PASSWORD).replace("choose another", PASSWORD)
    for statement in filter(str.strip, script.split(";\n")):
        server.sql(statement, database="shared")
    yield
    server.sql("drop database if exists shared with (force)", "drop database if exists holdfast with (force)")
    for (name,) in server.sql("select rolname from pg_roles where rolname like 'holdfast%'"):
        server.sql(f"drop role {name}")


async def works(home: Path, address: str) -> None:
    """Sessions are used, forked, removed and rebuilt, and everything agrees with the event log."""
    model = ScriptedModel("one", "two")
    async with model.host(home, database=address) as hf:
        first = await hf.run("go")
        again = await hf.run("go on", session=first.session.id)
        assert (first.text, again.text) == ("one", "two")
        copied = await hf.sessions.fork(first.session.id, boundary=ForkThrough())
        await hf.sessions.delete(first.session.id)
        assert len(await hf.sessions.context(copied.id)) == 4
        assert await hf.verify() == []
        assert await hf.rebuild() > 0


@pytest.mark.parametrize("roles", [0], indirect=True)
async def test_the_owner_of_a_database_needs_nothing_else(tmp_path: Path, server: PrivateServer, roles: None) -> None:
    """STO-068, STO-198."""
    await works(tmp_path, server.address("holdfast"))


@pytest.mark.parametrize("roles", [1], indirect=True)
async def test_the_owner_of_a_schema_needs_nothing_else(tmp_path: Path, server: PrivateServer, roles: None) -> None:
    """STO-068, STO-198: it may create no schema, and nothing in others."""
    await works(tmp_path, server.address("shared", schema="holdfast"))
    assert server.sql("select count(*) from pg_tables where schemaname = 'public'", database="shared") == [(0,)]


@pytest.mark.parametrize("roles", [2], indirect=True)
async def test_nodes_need_no_right_to_change_tables(
    tmp_path: Path, server: PrivateServer, roles: None, holdfast: Machine
) -> None:
    """STO-198: the owner creates the tables, and nodes only use them."""
    node = server.address("shared", user="holdfast_node", schema="holdfast")
    with pytest.raises(HoldfastError, match="permission denied for schema holdfast"):
        await works(tmp_path, node)
    owner = server.address("shared", user="holdfast_owner", schema="holdfast")
    assert finish(holdfast.start("doctor", HOLDFAST_DATABASE=owner)).code == 0
    await works(tmp_path, node)


def test_a_superuser_is_warned_about(server: PrivateServer, holdfast: Machine, serve: Callable[..., Server]) -> None:
    """OPS-475: at the start of a server and by the doctor."""
    server.sql("create database risky", f"create role root_of_all login superuser password '{PASSWORD}'")
    address = server.address("risky", user="root_of_all")
    ran = finish(holdfast.start("doctor", HOLDFAST_DATABASE=address))
    assert (ran.code, "the role root_of_all is a superuser of its server" in ran.err) == (0, True)
    process = serve(HOLDFAST_DATABASE=address).process
    process.send_signal(signal.SIGTERM)
    assert "the role root_of_all is a superuser of its server" in finish(process).err
    server.sql("drop database risky with (force)", "drop role root_of_all")
