"""Variables that a host or a plugin adds to terminals, in every way of hosting; and none of the runtime's secrets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import uvicorn
from tests.cli.conftest import PATIENCE, Machine
from tests.outside.test_clients import Serve
from tests.plain_http import loopback_listener

from holdfast import AsyncClient, Client, Holdfast, HoldfastSync, Location, asgi, connect, connect_sync

pytestmark = pytest.mark.anyio

SECRETS = {"ANTHROPIC_API_KEY": "sk-canary-1", "MY_SERVICE_TOKEN": "sk-canary-2"}
PLUGIN = """
class Variables:
    id = "{id}"

    async def setup(self, host):
        host.terminal.transform(self.add)

    async def add(self, draft):
        {body}

plugin = Variables()
"""
ADDS = PLUGIN.format(
    id="adds",
    body='draft.variables |= {"FROM_PLUGIN": draft.cwd, "PLACE": draft.directory, "BOTH": "plugin", "TERM": "dumb"}',
)
FAILS = PLUGIN.format(id="fails", body='draft.variables["LOST"] = "1"; raise RuntimeError("broken")')
MALFORMED = PLUGIN.format(id="malformed", body='draft.variables["A=B"] = "1"')


async def variables(client: AsyncClient, place: Path, cwd: str | None = None, **env: str) -> dict[str, str]:
    """Those that a terminal of this project has."""
    here = Location(directory=str(place))
    made = await client.ptys.create(command="/usr/bin/env", args=["-0"], cwd=cwd, env=env or None, location=here)
    async with await client.ptys.connect(made.data.id, location=here) as terminal:
        return parse("".join([piece async for piece in terminal]))


def variables_sync(client: Client, place: Path) -> dict[str, str]:
    here = Location(directory=str(place))
    made = client.ptys.create(command="/bin/sh", args=["-c", "env -0; read wait"], location=here)
    output = ""
    with client.ptys.connect(made.data.id, location=here) as terminal:
        for piece in terminal:
            output += piece
            if "TERM=" in output and output.endswith("\0"):
                break
    client.ptys.remove(made.data.id, location=here)
    return parse(output)


def parse(output: str) -> dict[str, str]:
    return dict(item.split("=", 1) for item in output.split("\0") if "=" in item)


def write_plugin(machine: Machine, name: str, text: str) -> None:
    folder = machine.home / "config" / "opencode" / "plugin"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(text, encoding="utf-8")


def host(machine: Machine, **options: object) -> Holdfast:
    environment = {**machine.environment, **SECRETS}
    return Holdfast(machine.project, preset="allow", data=machine.data, environment=environment, **options)  # type: ignore[arg-type]


def has_no_secret(found: Mapping[str, str]) -> bool:
    return not set(SECRETS) & set(found) and not set(SECRETS.values()) & set(found.values())


@contextlib.asynccontextmanager
async def mounted(hf: Holdfast) -> AsyncIterator[AsyncClient]:
    server = uvicorn.Server(uvicorn.Config(asgi(hf), lifespan="on", log_level="critical", ws="websockets-sansio"))
    with loopback_listener() as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with connect(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
                yield client
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, PATIENCE)


async def test_fixed_variables_of_an_embedded_host(holdfast: Machine) -> None:
    """API-453, API-161: over the caller's values, under the forced ones."""
    given = {"FROM_HOST": "yes", "BOTH": "host", "TERM": "dumb"}
    async with host(holdfast, pty_environment=given) as hf:
        found = await variables(hf, holdfast.project, BOTH="caller", MINE="caller")

    assert (found["FROM_HOST"], found["BOTH"], found["MINE"]) == ("yes", "host", "caller")
    assert (found["TERM"], found["OPENCODE_TERMINAL"]) == ("xterm-256color", "1")
    assert has_no_secret(found)


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
async def test_a_function_of_the_host_gets_both_directories(holdfast: Machine, kind: str) -> None:
    """API-453: the Location's and the one that the terminal starts in, resolved."""
    (holdfast.project / "sub").mkdir()

    def plain(directory: str, cwd: str) -> dict[str, str]:
        return {"SEEN": f"{directory}|{cwd}"}

    async def asynchronous(directory: str, cwd: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return plain(directory, cwd)

    async with host(holdfast, pty_environment=plain if kind == "plain" else asynchronous) as hf:
        found = await variables(hf, holdfast.project, cwd="sub")

    assert found["SEEN"] == f"{holdfast.project}|{holdfast.project / 'sub'}"


@pytest.mark.parametrize("given", [{"A=B": "1"}, {"": "1"}, {"A": "x\0y"}, {"A": 1}])
def test_variables_that_no_process_can_have_are_refused_when_the_host_is_made(
    holdfast: Machine, given: dict[str, str]
) -> None:
    """API-453."""
    with pytest.raises(ValueError):
        host(holdfast, pty_environment=given)


async def test_a_failing_function_costs_its_variables_only(holdfast: Machine) -> None:
    """API-453, TOL-291: the terminal starts without them."""

    def broken(directory: str, cwd: str) -> dict[str, str]:
        raise RuntimeError("broken")

    async with host(holdfast, pty_environment=broken) as hf:
        assert "PATH" in await variables(hf, holdfast.project)


def test_the_blocking_host_adds_variables(holdfast: Machine) -> None:
    """API-453."""
    environment = {**holdfast.environment, **SECRETS}
    with HoldfastSync(
        holdfast.project, data=holdfast.data, environment=environment, pty_environment={"FROM_HOST": "yes"}
    ) as hf:
        found = variables_sync(hf, holdfast.project)

    assert found["FROM_HOST"] == "yes"
    assert has_no_secret(found)


async def test_a_mounted_application_adds_the_variables_of_its_host(holdfast: Machine) -> None:
    """API-453: `asgi(Holdfast(pty_environment=…))`."""
    async with mounted(host(holdfast, pty_environment={"FROM_HOST": "yes"})) as client:
        found = await variables(client, holdfast.project)

    assert found["FROM_HOST"] == "yes"
    assert has_no_secret(found)


def test_a_server_adds_the_variables_of_its_command_line(holdfast: Machine, serve: Serve) -> None:
    """API-453: with a value, or the value of the server's own variable of that name."""
    options = ("--pty-env", "FROM_HOST=a=b", "--pty-env", "PASSED_ON")
    server = serve(*options, PASSED_ON="mine", **SECRETS)
    with connect_sync(server.url, environment=holdfast.environment) as client:
        found = variables_sync(client, holdfast.project)

    assert (found["FROM_HOST"], found["PASSED_ON"]) == ("a=b", "mine")
    assert has_no_secret(found)


@pytest.mark.parametrize("text", ["=x", "NOT_SET_ANYWHERE", ""])
def test_a_malformed_variable_on_the_command_line_is_refused(holdfast: Machine, text: str) -> None:
    """API-453."""
    ran = holdfast("serve", "--port", "0", "--pty-env", text)

    assert ran.code == 2
    assert "--pty-env" in ran.err


async def test_plugins_add_variables_under_those_of_the_host(holdfast: Machine) -> None:
    """API-454, CAT-151: caller, plugins, host, forced. A plugin of the request's Location is asked with the resolved
    directory, also right after the Location was opened; it sees no secret of the runtime."""
    write_plugin(holdfast, "adds", ADDS)
    (holdfast.project / "sub").mkdir()
    async with host(holdfast, pty_environment={"BOTH": "host"}) as hf:
        found = await variables(hf, holdfast.project, cwd="sub", BOTH="caller", FROM_PLUGIN="caller")

    assert (found["FROM_PLUGIN"], found["PLACE"]) == (str(holdfast.project / "sub"), str(holdfast.project))
    assert (found["BOTH"], found["TERM"]) == ("host", "xterm-256color")
    assert has_no_secret(found)


def test_plugins_add_variables_to_terminals_of_a_server(holdfast: Machine, serve: Serve) -> None:
    """API-454."""
    write_plugin(holdfast, "adds", ADDS)
    with connect_sync(serve(**SECRETS).url, environment=holdfast.environment) as client:
        found = variables_sync(client, holdfast.project)

    assert found["FROM_PLUGIN"] == str(holdfast.project)
    assert has_no_secret(found)


@pytest.mark.parametrize("text", [FAILS, MALFORMED], ids=["raises", "malformed"])
async def test_a_plugin_whose_hook_fails_adds_nothing(holdfast: Machine, text: str) -> None:
    """API-454: another plugin's variables are there, and the terminal starts."""
    write_plugin(holdfast, "a_first", text)
    write_plugin(holdfast, "b_second", ADDS)
    async with host(holdfast) as hf:
        found = await variables(hf, holdfast.project)

    assert found["FROM_PLUGIN"] == str(holdfast.project)
    assert not {"LOST", "A"} & set(found)
