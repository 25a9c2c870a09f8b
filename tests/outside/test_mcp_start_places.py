"""Where local MCP servers of the user start: not in a project that nobody has trusted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, Ran
from tests.mcp_servers.support import SCRIPT, scripted, server_of, text_of_call, until
from tests.outside.world import World

from holdfast import Holdfast
from holdfast.embedded.trust import ProjectTrust
from holdfast.schema.mcp import McpLocalConfig

pytestmark = pytest.mark.anyio
Invoke = Callable[..., Ran]
REASON = "this project is not trusted"


@pytest.fixture(autouse=True)
def closed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.process.piped.INPUT_END_SECONDS", 0.1)


async def started_in(hf: Holdfast, name: str) -> Path:
    return Path(json.loads(await text_of_call(hf, name, "environment"))["cwd"])


async def test_servers_start_in_an_empty_directory_until_the_project_is_trusted(world: World) -> None:
    """MCP-360, MCP-361, MCP-365, API-640: those of the user's file and those added over the API; a decision counts at
    once, and can be taken back."""
    world.configure(mcp={"mine": scripted(), "named": scripted(cwd="~")})
    added = McpLocalConfig(command=(sys.executable, "-S", "-E", str(SCRIPT)))
    trust = ProjectTrust(world.environment)
    async with world.host() as hf:
        await hf.mcp.add("added", config=added)
        for name in ("mine", "added"):
            place = await started_in(hf, name)
            assert place.parent == world.data / "mcp-start"
            assert list(place.iterdir()) == []
            told = await server_of(hf, name)
            assert (told.directory, told.directory_reason) == (None, REASON)
            line = f"state: starts in the empty directory {place}, because {REASON}"
            assert line in (await hf.mcp.log(name)).data.text
        assert await started_in(hf, "named") == world.home
        assert (await server_of(hf, "named")).directory == str(world.home)

        (source,) = (await hf.config.report()).sources
        assert (source.path, source.directory, source.trusted) == (str(world.project), True, False)
        assert source.wants == ("starts your MCP servers in this directory: mine",)
        trust.grant([source])
        for name in ("mine", "added"):
            assert (await server_of(hf, name)).directory == str(world.project)
            assert await started_in(hf, name) == world.project
        trust.revoke(world.project)
        assert (await server_of(hf, "mine")).directory_reason == REASON
    assert list((world.data / "mcp-start").iterdir()) == []


async def test_a_host_that_vouches_starts_servers_in_the_project(world: World) -> None:
    """MCP-360."""
    world.configure(mcp={"mine": scripted()})
    async with world.host(trust=True) as hf:
        assert await started_in(hf, "mine") == world.project


async def test_programs_and_settings_of_an_untrusted_project_are_not_found(world: World) -> None:
    """MCP-360, MCP-364: neither in its directory nor by search paths that lead there, absolute or relative."""
    planted = world.write("node_modules/.bin/tool", "#!/bin/sh\ntouch ran\n")
    planted.chmod(0o755)
    world.environment["PATH"] += f":.:node_modules/.bin:{planted.parent}"
    world.configure(mcp={"a": {"type": "local", "command": ["tool"]}, "b": scripted(cwd=".")})
    async with world.host() as hf:
        await hf.mcp.connect("a")
        assert (await until(hf, "a", "failed")).error == "tool: cannot be started: No such file or directory"
        found = json.loads(await text_of_call(hf, "b", "environment"))
        assert found["variables"]["PATH"] == "/usr/bin:/bin"
        assert Path(found["cwd"]).parent == world.data / "mcp-start"
        reason = "its cwd is relative to this project, which is not trusted"
        assert (await server_of(hf, "b")).directory_reason == reason
    assert not (world.project / "ran").exists()


async def test_without_neutral_ground_a_server_does_not_start(world: World) -> None:
    """MCP-363: the data directory is inside the project."""
    world.configure(mcp={"mine": scripted()})
    async with world.host(data=world.project / "data") as hf:
        await hf.mcp.connect("mine")
        assert "is inside this project, which is not trusted" in str((await server_of(hf, "mine")).error)


def test_the_list_says_where_a_server_starts(holdfast: Machine, here: Invoke) -> None:
    """API-640, MCP-365: `holdfast trust` decides; a run does not ask about the directory alone."""
    holdfast.configure_user(mcp={"mine": scripted(), "named": scripted(cwd="/")})
    assert holdfast("trust", "--json").out.count('"directory"') == 1
    told = here("mcp", "list").out.splitlines()
    assert [f"starts in an empty directory: {REASON} (`holdfast trust`)" in line for line in told] == [
        False,
        True,
        False,
    ]
    assert "not trusted" not in here("run", "--model", "demo/echo", "hello").err
    shown = here("trust")
    assert (shown.code, "starts your MCP servers in this directory: mine" in shown.out) == (1, True)
    assert here("trust", "--yes").code == 0
    assert here("trust", "--list").out.split() == [str(holdfast.project)]
    assert "empty directory" not in here("mcp", "list").out
    cwd = json.loads(here("mcp", "call", "mine", "environment").out)["cwd"]
    assert cwd == str(holdfast.project)
