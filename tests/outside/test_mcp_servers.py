"""MCP servers of a project: started, known, connected, failing, added, removed, over the API of an embedded host."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.oauth.authorization_server import authorization_world, browse
from tests.mcp_servers.support import PATIENCE, alive, scripted, server_of, text_of_call, until, until_gone
from tests.outside.mcp_world import SCRIPT, Peer, tool
from tests.outside.scripted_provider import Turn
from tests.outside.world import World, answer, called, result_of, text_of

from holdfast import ClientError, Holdfast, InvalidRequest, McpServerNotFound, ServiceUnavailable
from holdfast.core.location.service_map import ServiceMap
from holdfast.schema.location import Location
from holdfast.schema.mcp import (
    McpConnected,
    McpDisabled,
    McpFailed,
    McpLocalConfig,
    McpNeedsAuth,
    McpPending,
    McpRemoteConfig,
    McpResourcesChanged,
    McpStatusChanged,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown servers are started as soon as the Location is open, and stubborn ones are closed soon."""
    monkeypatch.setattr("holdfast.core.mcp.servers.UNASKED_SECONDS", 0.0)
    monkeypatch.setattr("holdfast.core.process.piped.INPUT_END_SECONDS", 0.1)
    monkeypatch.setattr("holdfast.core.process.piped.TERM_SECONDS", 0.1)


def configure(world: World, **servers: dict[str, Any]) -> None:
    world.configure(mcp=servers)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def test_the_servers_are_listed_with_their_states(world: World) -> None:
    """API-590, MCP-154: what the contract has, and more exactly; one that fails harms no other."""
    configure(
        world, good=scripted(), bad=scripted("die"), off=scripted(disabled=True), missing=local("no-such-program")
    )
    async with world.host() as hf:
        good = await until(hf, "good", "connected")
        bad = await until(hf, "bad", "failed")
        missing = await until(hf, "missing", "failed")
        off = await server_of(hf, "off")
        assert [found.name for found in (await hf.mcp.list()).data] == ["bad", "good", "missing", "off"]
    assert (good.status, good.tools, good.version, good.problems) == (McpConnected(), 5, "2025-11-25", None)
    assert good.since
    assert good.error is None
    assert isinstance(bad.status, McpFailed)
    assert bad.status.error == bad.error
    assert "exit status 3; its last line on stderr: it cannot be configured" in str(bad.error)
    assert "no-such-program" in str(missing.error)
    assert (off.status, off.state, off.integration_id) == (McpDisabled(), "disabled", None)


async def test_a_new_process_knows_a_server_without_starting_it(world: World, tmp_path: Path) -> None:
    """MCP-155, MCP-165, API-591: the stored manifest is there at once; the first call starts the server, once."""
    starts = tmp_path / "starts"
    configure(world, s=scripted(f"count={starts}"))
    async with world.host() as hf:
        await until(hf, "s", "connected")
        offered = (await hf.mcp.resources()).data
        assert [(found.server, found.uri) for found in offered.resources] == [("s", "note://one")]
        assert [(found.server, found.uri_template) for found in offered.templates] == [("s", "note://{name}")]
    assert len(lines(starts)) == 1
    async with world.host() as hf:
        known = await server_of(hf, "s")
        assert (known.state, known.status, known.tools) == ("known", McpPending(), 5)
        assert (await hf.mcp.resources()).data == offered
        assert len(lines(starts)) == 1
        calls = [text_of_call(hf, "s", "echo", text=str(number)) for number in range(5)]
        assert await asyncio.gather(*calls) == ["0", "1", "2", "3", "4"]
        assert (await until(hf, "s", "connected")).tools == 5
    assert len(lines(starts)) == 2


async def test_an_eager_server_is_connected_although_it_is_known(world: World) -> None:
    """MCP-155."""
    configure(world, s=scripted(eager=True))
    for _ in range(2):
        async with world.host() as hf:
            await until(hf, "s", "connected")


async def test_a_hung_server_delays_nothing(world: World) -> None:
    """MCP-155: with twenty servers of which one never answers, the first turn is over while that one still starts."""
    configure(world, **{f"s{n}": scripted() for n in range(19)}, hung=scripted("hang"))
    world.model.plays(Turn(text="done"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert text_of(await answer(hf, session)) == "done"
        assert (await until(hf, "hung", "starting")).status == McpPending()
        await until(hf, "s0", "connected")
        began = time.monotonic()
    assert time.monotonic() - began < 5


async def test_only_a_few_servers_start_at_once_and_a_call_goes_ahead(world: World, tmp_path: Path) -> None:
    """MCP-366: of thirty servers eight are started in the background at a time."""
    starts = tmp_path / "starts"
    configure(world, **{f"s{n:02}": scripted("hang", f"count={starts}") for n in range(29)}, z=scripted())
    async with world.host() as hf:
        async with asyncio.timeout(PATIENCE):
            await hf.mcp.list()  # opens the Location
            while len(lines(starts)) < 8:  # noqa: ASYNC110 - other processes write it
                await asyncio.sleep(0.005)
        assert (await server_of(hf, "z")).state == "configured"
        assert await text_of_call(hf, "z", "echo", text="now") == "now"
        states = [found.state for found in (await hf.mcp.list()).data]
        assert (states.count("starting"), states.count("configured"), states.count("connected")) == (8, 21, 1)
        assert len(lines(starts)) == 8


async def test_one_who_gives_up_waiting_leaves_the_others_waiting(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MCP-156, MCP-322: also while the lists of a server are read."""
    gate = tmp_path / "gate"
    gate.touch()
    monkeypatch.setattr("holdfast.core.mcp.servers.LEARN_SECONDS", 0.05)
    configure(world, s=scripted(f"slow_list={gate}"))
    async with world.host() as hf:
        waits = asyncio.create_task(hf.mcp.connect("s"))
        async with asyncio.timeout(PATIENCE):
            while (await server_of(hf, "s")).version is None:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)
        await called(world, hf, await hf.sessions.create(), "mcp_call", tool="s_echo")
        assert "not known yet what these MCP servers offer: s." in result_of(world)
        assert not waits.done()
        gate.unlink()
        await waits
        assert (await server_of(hf, "s")).state == "connected"


async def test_calls_share_a_start_and_its_failure(world: World, tmp_path: Path) -> None:
    """MCP-156: one process for all that wait; if it fails, each is told why."""
    starts = tmp_path / "starts"
    configure(world, bad=scripted("die", f"count={starts}", disabled=True))
    async with world.host() as hf:
        await hf.mcp.add("bad", config=McpLocalConfig(command=tuple(scripted("die", f"count={starts}")["command"])))
        calls = (hf.mcp.call("bad", tool="echo") for _ in range(4))
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, ServiceUnavailable)
            assert "it cannot be configured" in str(outcome)
    assert len(lines(starts)) <= 2 * 2  # asked in the newer way and in the older one, each by one start


async def test_a_server_that_dies_in_a_call_tells_why_and_is_started_again(world: World, tmp_path: Path) -> None:
    """MCP-157, MCP-158, API-596: the call fails with the reason and is not repeated; the next call starts it anew."""
    starts = tmp_path / "starts"
    configure(world, s=scripted(f"count={starts}"))
    async with world.host() as hf:
        await until(hf, "s", "connected")
        with pytest.raises(ServiceUnavailable, match="exit status 7; its last line on stderr: giving up"):
            await hf.mcp.call("s", tool="die")
        failed = await server_of(hf, "s")
        assert failed.state == "failed"
        assert "giving up" in str(failed.error)
        assert await text_of_call(hf, "s", "echo", text="again") == "again"
    assert len(lines(starts)) == 2


async def test_a_call_does_not_wait_as_long_as_the_background(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP-157: the next start without a call would come after a minute."""
    monkeypatch.setattr("holdfast.core.mcp.start_delay.FIRST_DELAY", 120.0)
    monkeypatch.setattr("holdfast.core.mcp.start_delay.LONGEST_CALL_DELAY", 0.05)
    broken = world.home / "broken"
    broken.touch()
    configure(world, s=scripted(f"die={broken}"))
    async with world.host() as hf:
        await until(hf, "s", "failed")
        broken.unlink()
        assert await text_of_call(hf, "s", "echo", text="hi") == "hi"


async def test_an_eager_server_that_ends_is_connected_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP-157: also if nobody calls it."""
    monkeypatch.setattr("holdfast.core.mcp.start_delay.FIRST_DELAY", 0.01)
    configure(world, s=scripted(eager=True))
    async with world.host() as hf:
        before = await until(hf, "s", "connected")
        with pytest.raises(ServiceUnavailable):
            await hf.mcp.call("s", tool="die")
        await until(hf, "s", "failed", "starting", "connected")
        assert (await until(hf, "s", "connected")).since != before.since


async def test_a_tool_that_fails_is_a_result(world: World) -> None:
    """API-596."""
    configure(world, s=scripted())
    async with world.host() as hf:
        result = (await hf.mcp.call("s", tool="fail")).data
        assert (result.is_error, result.content) == (True, ({"type": "text", "text": "it did not work"},))


async def test_arguments_that_do_not_fit_are_not_sent(world: World) -> None:
    """API-641: the reason names what is wrong; what the server offers now counts, not what is stored."""
    peer = Peer(world.home / "peer", "s", tool("add", a={"type": "integer"}))
    configure(world, s=peer.config)
    async with world.host() as hf:
        for wrong in ({"a": "one"}, {}):
            with pytest.raises(InvalidRequest, match=r"Invalid tool input: .*\ba\b") as refused:
                await hf.mcp.call("s", tool="add", arguments=wrong)
            assert refused.value.field == "arguments"
        assert peer.heard() == []
        assert await text_of_call(hf, "s", "add", a=1) == 'add {"a": 1}'
    peer.says(tools=[tool("add", a={"type": "string"})])
    async with world.host() as hf:
        assert await text_of_call(hf, "s", "add", a="one") == 'add {"a": "one"}'


async def test_a_call_outside_of_a_session_asks_nobody(world: World) -> None:
    """MCP-159: a question is cancelled; the roots are the Location."""
    configure(world, s=scripted())
    async with world.host() as hf:
        assert json.loads(await text_of_call(hf, "s", "ask")) == {"action": "cancel"}
        roots = [{"uri": world.project.as_uri(), "name": "project"}]
        assert json.loads(await text_of_call(hf, "s", "roots")) == {"roots": roots}


async def test_servers_are_added_and_removed_until_the_process_ends(world: World) -> None:
    """API-592, API-593, API-594, API-595, MCP-153."""
    heard: list[tuple[str, str]] = []
    configure(world, s=scripted())
    async with world.host() as hf:
        await until(hf, "s", "connected")
        listening = asyncio.create_task(_listen(hf, heard))
        await hf.mcp.add("more", config=McpLocalConfig(command=tuple(scripted()["command"])))
        await until(hf, "more", "connected")
        await hf.mcp.disconnect("s")
        assert (await server_of(hf, "s")).status == McpDisabled()
        with pytest.raises(ServiceUnavailable, match="disabled"):
            await hf.mcp.call("s", tool="echo")
        await hf.mcp.remove("more")
        await hf.mcp.connect("s")
        assert (await server_of(hf, "s")).status == McpConnected()
        await hf.mcp.remove("s")
        world.configure(mcp={"s": scripted()}, username="edited")
        await hf.config.reload()
        assert (await hf.mcp.list()).data == []
        for operation in (hf.mcp.remove, hf.mcp.connect, hf.mcp.disconnect):
            with pytest.raises(McpServerNotFound) as refused:
                await operation("s")
            assert refused.value.server == "s"
        with pytest.raises(McpServerNotFound):
            await hf.mcp.call("s", tool="echo")
        async with asyncio.timeout(PATIENCE):
            while not {("mcp.status.changed", "more"), ("mcp.status.changed", "s")} <= {*heard}:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        listening.cancel()
    async with world.host() as hf:
        assert [found.name for found in (await hf.mcp.list()).data] == ["s"]


async def test_what_a_person_disconnects_stays_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP-153: through an edit of the server, and however long nobody uses the Location."""
    monkeypatch.setattr(ServiceMap.__init__, "__kwdefaults__", {"idle": 0.01, "most": 100})
    configure(world, s=scripted(), off=scripted(disabled=True))
    async with world.host() as hf:
        await hf.mcp.connect("s")  # an idle Location closes before a server that nobody waits for has started
        await hf.mcp.disconnect("s")
        await hf.mcp.connect("off")
        await asyncio.sleep(0.05)
        assert (await server_of(hf, "s")).state == "disabled"
        assert (await server_of(hf, "off")).state == "connected"
        configure(world, s=scripted("stderr=other"), off=scripted(disabled=True, timeout=9000))
        await hf.config.reload()
        assert (await server_of(hf, "s")).state == "disabled"
        with pytest.raises(ServiceUnavailable, match="disabled"):
            await hf.mcp.call("s", tool="echo")
        assert (await hf.mcp.call("off", tool="echo")).data.is_error is False


async def test_what_a_server_offers_in_another_directory_is_not_taken_over(world: World, tmp_path: Path) -> None:
    """MCP-320: the tools of a local server may depend on the directory that it runs in."""
    configure(world, s={"type": "local", "command": [sys.executable, "-S", "-E", str(SCRIPT), "."]})
    places = {name: Location(directory=str(tmp_path / name)) for name in ("one", "two")}
    for number, (name, place) in enumerate(places.items(), 1):
        Peer(tmp_path / name, name, *(tool(f"t{n}") for n in range(number)))
        async with world.host(trust=True) as hf:
            await hf.mcp.connect("s", location=place)
    async with world.host() as hf:
        found = {name: (await hf.mcp.list(location=place)).data for name, place in places.items()}
    assert {name: (one.state, one.tools) for name, (one,) in found.items()} == {
        "one": ("known", 1),
        "two": ("known", 2),
    }


async def _listen(hf: Holdfast, heard: list[tuple[str, str]]) -> None:
    async for event in hf.events.subscribe():
        if isinstance(event.data, McpStatusChanged | McpResourcesChanged):
            heard.append((event.type, event.data.server))


@pytest.mark.parametrize("name", [" ", "x" * 201, "a\tb"])
async def test_a_name_that_no_server_can_have_is_refused(world: World, name: str) -> None:
    """API-592."""
    async with world.host() as hf:
        with pytest.raises(InvalidRequest) as refused:
            await hf.mcp.add(name, config=McpLocalConfig(command=("x",)))
        assert refused.value.field == "server"


async def test_the_path_of_the_catalogue_is_no_server(world: World) -> None:
    """API-592."""
    async with world.host() as hf:
        with pytest.raises(ClientError, match="takes GET, not PUT"):
            await hf.mcp.add("resource", config=McpLocalConfig(command=("x",)))


async def test_an_address_that_is_not_http_is_refused(world: World) -> None:
    """API-592."""
    async with world.host() as hf:
        with pytest.raises(InvalidRequest) as refused:
            await hf.mcp.add("x", config=McpRemoteConfig(url="file:///etc/passwd"))
        assert refused.value.field == "config.url"


async def test_a_server_called_resource_is_a_warning(world: World) -> None:
    """MCP-150, CAT-162: it is not started; `codemode` is told to have no effect."""
    configure(world, resource=scripted(), s=scripted(codemode=True, disabled=True))
    async with world.host() as hf:
        assert [found.name for found in (await hf.mcp.list()).data] == ["s"]
        messages = [problem.message for problem in (await hf.config.report()).problems]
    assert len(messages) == 2
    assert messages[0].startswith("mcp.resource: no MCP server can have this name")
    assert messages[1].startswith("mcp.s.codemode: has no effect")


async def test_an_edit_of_the_configuration_leaves_the_others_connected(world: World, tmp_path: Path) -> None:
    """MCP-152: the changed server begins anew, a new one begins, one that is gone is closed, the other stays."""
    starts = tmp_path / "starts"
    configure(world, stays=scripted(f"count={starts}"), changes=scripted(), goes=scripted(f"child={tmp_path / 'pid'}"))
    async with world.host() as hf:
        for name in ("stays", "changes", "goes"):
            await until(hf, name, "connected")
        before = await server_of(hf, "changes")
        slow = asyncio.create_task(hf.mcp.call("stays", tool="slow"))
        configure(world, stays=scripted(f"count={starts}"), changes=scripted("stderr=other"), comes=scripted())
        await hf.config.reload()
        await until(hf, "comes", "connected")
        changed = await until(hf, "changes", "connected")
        assert (changed.since or 0) > (before.since or 0)
        assert [found.name for found in (await hf.mcp.list()).data] == ["changes", "comes", "stays"]
        assert not slow.done()
        slow.cancel()
        await until_gone(int((tmp_path / "pid").read_text(encoding="utf-8")))
    assert len(lines(starts)) == 1


async def test_a_local_server_gets_the_declared_environment_only(world: World) -> None:
    """MCP-160, TOL-283, TOL-319: allow-list and declared variables, in the directory that is configured."""
    (world.project / "sub").mkdir()
    world.environment |= {"CANARY_TOKEN": "tweet", "OPENAI_API_KEY": "sk-secret", "LANG": "C.UTF-8"}
    configure(world, s=scripted(environment={"DECLARED": "yes"}, cwd="sub"))
    async with world.host(trust=True) as hf:
        found = json.loads(await text_of_call(hf, "s", "environment"))
    variables = found["variables"]
    assert (variables["DECLARED"], variables["LANG"], variables["HOME"]) == ("yes", "C.UTF-8", str(world.home))
    assert not {"CANARY_TOKEN", "OPENAI_API_KEY"} & variables.keys()
    assert found["cwd"] == str(world.project / "sub")


async def test_everything_that_a_server_started_ends_with_the_location(world: World, tmp_path: Path) -> None:
    """MCP-161: a server that ignores the end of its input and SIGTERM, and what left its process group."""
    configure(world, s=scripted("stubborn", f"child={tmp_path / 'child'}", f"count={tmp_path / 'server'}"))
    async with world.host() as hf:
        await until(hf, "s", "connected")
        pids = [int((tmp_path / name).read_text(encoding="utf-8")) for name in ("child", "server")]
        assert all(map(alive, pids))
    assert not any(map(alive, pids))


async def test_a_killed_runtime_leaves_no_server_behind(world: World, tmp_path: Path) -> None:
    """MCP-162: also not what the server started in a group of its own."""
    configure(world, s=scripted("stubborn", f"child={tmp_path / 'child'}", f"count={tmp_path / 'server'}"))
    program = (
        "import asyncio, holdfast\n"
        "async def main():\n"
        "    async with holdfast.Holdfast() as hf:\n"
        "        await hf.mcp.connect('s')\n"
        "        print('ready', flush=True)\n"
        "        await asyncio.sleep(1000)\n"
        "asyncio.run(main())\n"
    )
    environment = {**world.environment, "HOLDFAST_DATA": str(world.data)}
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", program], cwd=world.project, env=environment, stdout=subprocess.PIPE
    ) as runtime:
        assert runtime.stdout is not None
        assert await asyncio.to_thread(runtime.stdout.readline) == b"ready\n"
        pids = [int((tmp_path / name).read_text(encoding="utf-8")) for name in ("child", "server")]
        runtime.send_signal(signal.SIGKILL)
    await until_gone(*pids)


async def test_what_a_server_writes_is_in_its_log_without_secrets(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """MCP-163, MCP-164, API-597: stderr, log messages, garbage and states; what was added since a position."""
    caplog.set_level(logging.DEBUG)
    secret = "s3cret-value"
    world.environment["CONFIGURED"] = "from-the-environment"
    options = (f"stderr=key {secret} and from-the-environment and \x1b[31m red", "garbage")
    configure(world, s=scripted(*options, environment={"API_KEY": secret, "OTHER": "{env:CONFIGURED}"}))
    async with world.host() as hf:
        await until(hf, "s", "connected")
        part = (await hf.mcp.log("s")).data
        for expected in (
            "state: starting",
            "stderr: key *** and *** and \ufffd[31m red",
            "stdout: not a message: Starting up…",
            "log: info: at your service",
            "state: connected",
        ):
            assert expected in part.text
        assert (await hf.mcp.log("s", position=part.position)).data.text == ""
        with pytest.raises(ServiceUnavailable, match=r"the key \*\*\* is wrong"):
            await hf.mcp.call("s", tool="leak")
        with pytest.raises(ServiceUnavailable):
            await hf.mcp.call("s", tool="die")
        await until(hf, "s", "failed")
        added = (await hf.mcp.log("s", position=part.position)).data.text
        assert "stderr: giving up" in added
        assert "state: starting" not in added
        with pytest.raises(McpServerNotFound):
            await hf.mcp.log("other")
    (file,) = (world.data / "mcp").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert secret not in file.read_text(encoding="utf-8") + caplog.text


async def test_logs_of_servers_that_are_gone_are_removed(world: World) -> None:
    """MCP-367: after thirty days without a line."""
    configure(world, gone=scripted(), s=scripted())
    async with world.host() as hf:
        await until(hf, "gone", "connected")
        await until(hf, "s", "connected")
    files = {file.name.partition("-")[0]: file for file in (world.data / "mcp").iterdir()}
    before = time.time() - 31 * 24 * 3600
    os.utime(files["gone"], (before, before))
    configure(world, s=scripted())
    async with world.host() as hf:
        async with asyncio.timeout(PATIENCE):
            while files["gone"].exists():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)
        assert (await hf.mcp.log("s")).data.text


async def test_ten_thousand_tools_are_cut_at_a_named_limit(world: World) -> None:
    """MCP-167."""
    configure(world, s=scripted("flood=10000"))
    async with world.host() as hf:
        found = await until(hf, "s", "connected")
        assert (found.tools, found.problems) == (
            1000,
            (
                "the list of tools is not complete: there are more than 2000 entries",
                "the list of tools is cut after 1000",
            ),
        )
        assert "catalogue: the list of tools is cut after 1000" in (await hf.mcp.log("s")).data.text


async def test_tools_with_unusable_schemas_are_left_out_and_named(world: World) -> None:
    """MCP-168: the others stay."""
    loop = {"type": "object", "$ref": "#"}
    outside = {"type": "object", "properties": {"x": {"$ref": "https://x.example/schema"}}}
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"x": deep}}
    schemas = {
        "loop": loop,
        "outside": outside,
        "deep": deep,
        "text": {"type": "string"},
        "places": {"type": "object", "properties": []},
        "huge": {"type": "object", "description": "x" * 70_000},
        "tree": {"type": "object", "properties": {"below": {"$ref": "#"}}},
        "fine": {"type": "object", "unevaluatedProperties": False},
    }
    tools = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
    path = world.home / "tools.json"
    path.write_text(json.dumps([*tools, {"name": "fine", "inputSchema": {}}, {"name": "a\nb", "inputSchema": {}}, 7]))
    configure(world, s=scripted(f"tools={path}"))
    async with world.host() as hf:
        found = await until(hf, "s", "connected")
    assert found.tools == 2
    named = "\n".join(found.problems or ())
    assert all(
        f"the tool {name} is left out" in named for name in ("loop", "outside", "deep", "text", "places", "huge")
    )
    assert "the tool fine is left out: another entry before it has the same name" in named
    assert "the tool a b is left out" in named
    assert "the tool without a name is left out" in named


async def test_a_server_that_announces_changes_all_the_time_costs_little(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MCP-166: it is read after it was connected and soon after the first announcement, then less and less often."""
    monkeypatch.setattr("holdfast.core.mcp.refreshing.FIRST_PAUSE", 0.1)
    lists = tmp_path / "lists"
    configure(world, s=scripted("changing=0.01", f"lists={lists}"))
    async with world.host() as hf:
        await until(hf, "s", "connected")
        async with asyncio.timeout(PATIENCE):
            while (await server_of(hf, "s")).tools != 6:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.4)
        assert 2 <= len(lines(lists)) <= 4
        assert (await server_of(hf, "s")).state == "connected"


async def test_a_server_that_cannot_list_its_tools_has_failed(world: World) -> None:
    """MCP-169: but what was known before stays known."""
    broken = world.home / "broken"
    configure(world, s=scripted(f"no_tools={broken}"))
    broken.touch()
    async with world.host() as hf:
        assert "out of order" in str((await until(hf, "s", "failed")).error)
        broken.unlink()
        await hf.mcp.connect("s")
        assert (await server_of(hf, "s")).tools == 5
    broken.touch()
    async with world.host() as hf:
        await hf.mcp.connect("s")
        found = await server_of(hf, "s")
        assert (found.state, found.tools) == ("connected", 5)
        assert "out of order" in str(found.problems)


async def test_a_server_of_an_untrusted_project_is_not_started(world: World, tmp_path: Path) -> None:
    """MCP-171."""
    starts = tmp_path / "starts"
    world.write("opencode.json", json.dumps({"mcp": {"s": scripted(f"count={starts}")}}))
    async with world.host(trust=False) as hf:
        assert (await hf.mcp.list()).data == []
        await asyncio.sleep(0.1)
    async with world.host(trust=True) as hf:
        await until(hf, "s", "connected")
    assert len(lines(starts)) == 1


@pytest.fixture
async def signed() -> AsyncIterator[Any]:
    async with authorization_world() as servers:
        yield servers


async def test_a_server_that_wants_a_credential_is_tried_again_after_the_sign_in(world: World, signed: Any) -> None:
    """MCP-170, API-590."""
    configure(world, docs={"type": "remote", "url": signed.url})
    async with world.host() as hf:
        found = await until(hf, "docs", "needs_auth")
        assert found.status == McpNeedsAuth()
        assert found.integration_id is not None
        with pytest.raises(ServiceUnavailable, match="needs authorization"):
            await hf.mcp.call("docs", tool="echo")
        attempt = await hf.integrations.connect_oauth(found.integration_id, method_id=found.integration_id, inputs={})
        await browse(attempt.data.url)
        assert "needs authorization" not in str((await until(hf, "docs", "failed", "connected")).error)


def local(*command: str) -> dict[str, Any]:
    return {"type": "local", "command": list(command)}
