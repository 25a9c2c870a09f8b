"""An embedded host asks before its coding tools change anything, unless the program says otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, PermissionDecision, PermissionPiece, PermissionRequest, asgi
from holdfast.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio
TOUCH = ToolCall("bash", command="touch made")
WRITE = ToolCall("write", path="made", content="x")


async def play(home: Path, *calls: ToolCall, answer: PermissionDecision = None, **settings: Any) -> ScriptedModel:
    model = ScriptedModel(*calls, "done")
    async with model.host(home, **settings) as host:
        if answer is not None:
            host.on_permission(lambda request: answer)
        async with asyncio.timeout(20):
            await host.run("Do it.")
    return model


def made(home: Path) -> bool:
    return (home / "project" / "made").exists()


@pytest.mark.parametrize("call", [TOUCH, WRITE])
async def test_a_program_that_answers_nothing_gets_a_denial_that_says_what_to_do(
    tmp_path: Path, call: ToolCall, caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-526, TOL-525: never a hang. The model reads it, and the log of the program too."""
    model = await play(tmp_path, call)
    assert not made(tmp_path)
    result = str(model.requests[-1].messages[-1])
    for way_out in ("on_permission", 'unattended="wait"', 'preset="allow"'):
        assert way_out in result.replace("\\", "")
        assert way_out in caplog.text


@pytest.mark.parametrize("call", [TOUCH, WRITE])
@pytest.mark.parametrize(
    ("settings", "changed"),
    [
        ({"preset": "allow"}, True),
        ({"config": {"permission": "allow"}}, True),
        ({"config": {"permission": {"bash": "allow", "edit": "allow"}}}, True),
        ({"unattended": "allow"}, True),
        ({"unattended": "deny"}, False),
        ({"answer": "once"}, True),
        ({"answer": "once", "config": {"permission": {"bash": "deny", "edit": "deny"}}}, False),
        ({"preset": "allow", "unattended": "deny", "config": {"permission": {"bash": "ask", "edit": "ask"}}}, False),
    ],
)
async def test_the_program_decides(tmp_path: Path, call: ToolCall, settings: dict[str, Any], changed: bool) -> None:
    """TOL-525: the preset yields to what the program or the user configured, in either direction."""
    await play(tmp_path, call, **settings)
    assert made(tmp_path) == changed


async def test_commands_that_only_read_run_unasked(tmp_path: Path) -> None:
    """TOL-523."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "notes.txt").write_text("b\na\n")
    model = await play(tmp_path, ToolCall("bash", command="cat notes.txt | sort && ls -l"))
    assert "a\\nb" in str(model.requests[-1].messages[-1]) or "a\nb" in str(model.requests[-1].messages[-1])


@pytest.mark.parametrize(
    "command",
    [
        "cat .env",
        "cat ../outside",
        "cat /etc/hostname",
        "cat link",
        "cd sub && cat ../../outside",
        "sort -o made notes.txt",
    ],
)
async def test_a_reading_command_asks_where_reading_would(tmp_path: Path, command: str) -> None:
    """TOL-523: protected files, and everything outside of the project, links included."""
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / ".env").write_text("secret")
    (tmp_path / "outside").write_text("secret")
    (project / "link").symlink_to(tmp_path / "outside")
    model = await play(tmp_path, ToolCall("bash", command=command))
    result = str(model.requests[-1].messages[-1])
    assert "Permission denied" in result
    assert "secret" not in result


async def test_a_denied_file_is_not_read_by_a_command(tmp_path: Path) -> None:
    """TOL-523."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "key.txt").write_text("secret")
    deny = {"permission": {"read": {"key.txt": "deny"}}}
    model = await play(tmp_path, ToolCall("bash", command="cat key.txt"), config=deny)
    assert "secret" not in str(model.requests[-1].messages[-1])


async def test_a_saved_approval_and_a_function_of_another_session(tmp_path: Path) -> None:
    """TOL-526, TOL-525: `always` holds for the next call; a function of one Session answers for no other."""
    model = ScriptedModel(TOUCH, "done", TOUCH, "done", WRITE, "done")
    async with model.host(tmp_path) as host:
        first = await host.sessions.create()
        host.on_permission(lambda request: "always", session=first)
        await host.run("Do it.", session=first)
        assert made(tmp_path)
        (tmp_path / "project" / "made").unlink()
        await host.run("Again.")
        assert made(tmp_path)
        (tmp_path / "project" / "made").unlink()
        await host.run("And write.")
        assert not made(tmp_path)


async def test_a_stream_that_answers_nothing_ends(tmp_path: Path) -> None:
    """TOL-526: a loop that prints text does not know requests."""
    model = ScriptedModel(TOUCH, "done")
    async with asyncio.timeout(20), model.host(tmp_path) as host:
        session = await host.sessions.create()
        assert "".join([piece.text async for piece in host.stream(session, "Do it.")]) == "done"
    assert not made(tmp_path)


async def test_a_stream_that_answers_says_so(tmp_path: Path) -> None:
    """TOL-526."""
    model = ScriptedModel(TOUCH, "done")
    async with model.host(tmp_path, unattended="wait") as host:
        session = await host.sessions.create()
        requests: list[PermissionRequest] = []
        async for piece in host.stream(session, "Do it."):
            if isinstance(piece, PermissionPiece):
                requests.append(piece.request)
                await host.permissions.reply(session.id, request_id=piece.request.id, reply="once")
        assert [request.action for request in requests] == ["bash"]
    assert made(tmp_path)


@pytest.mark.parametrize("settings", [{"unattended": "wait"}, {"preset": "ask"}])
async def test_a_program_with_its_own_page_of_requests_waits(tmp_path: Path, settings: Any) -> None:
    """TOL-526: it lists and answers them by itself."""
    model = ScriptedModel(TOUCH, "done")
    async with model.host(tmp_path, **settings) as host, asyncio.TaskGroup() as tasks:
        session = await host.sessions.create()
        running = tasks.create_task(host.run("Do it.", session=session))
        request = await the_request(host, session.id)
        await host.permissions.reply(session.id, request_id=request.id, reply="once")
        await running
    assert made(tmp_path)


async def test_a_rule_that_says_ask_waits_whoever_answers(tmp_path: Path) -> None:
    """TOL-526: somebody wrote it and means to answer, whatever else the preset says."""
    model = ScriptedModel(TOUCH, "done")
    async with model.host(tmp_path, config={"permission": {"bash": "ask"}}) as host, asyncio.TaskGroup() as tasks:
        session = await host.sessions.create()
        running = tasks.create_task(host.run("Do it.", session=session))
        request = await the_request(host, session.id)
        await host.permissions.reply(session.id, request_id=request.id, reply="once")
        await running
    assert made(tmp_path)


async def test_a_preset_only_narrows(tmp_path: Path) -> None:
    """TOL-525: an agent that may not edit still may not, instead of being asked about."""
    model = ScriptedModel("done")
    async with model.host(tmp_path) as host:
        explore = next(agent for agent in (await host.agents.list()).data if agent.id == "explore")
        host.on_permission(lambda request: "once")
        await host.run("Look.", agent="build")
        assert not any(rule.effect == "ask-changes" for rule in explore.permissions)
        assert any(rule.effect == "ask-changes" for fence in explore.fences for rule in fence)


def test_the_blocking_host_asks_too(tmp_path: Path) -> None:
    """TOL-525."""
    model = ScriptedModel(TOUCH, "done", TOUCH, "done")
    with model.host_sync(tmp_path) as host:
        host.run("Do it.")
        assert not made(tmp_path)
        host.on_permission(lambda request: "once")
        host.run("Again.")
        assert made(tmp_path)


async def test_a_mounted_application_waits_for_its_clients(tmp_path: Path) -> None:
    """TOL-525, TOL-526: it asks, and whoever opens the page later can answer."""
    model = ScriptedModel(TOUCH, "done")
    host = model.host(tmp_path)
    application = asgi(host)
    async with application.lifespan(), asyncio.TaskGroup() as tasks:
        session = await host.sessions.create()
        running = tasks.create_task(host.run("Do it.", session=session))
        request = await the_request(host, session.id)
        assert not made(tmp_path)
        await host.permissions.reply(session.id, request_id=request.id, reply="once")
        await running
    assert made(tmp_path)


async def the_request(host: Holdfast, session_id: str) -> PermissionRequest:
    for _ in range(2_000):
        if found := await host.permissions.list(session_id):
            return found[0]
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was asked")
