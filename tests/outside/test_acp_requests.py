"""What a Session asks a person, in an editor: permissions, questions; cancellation; an editor that disappears."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from acp.exceptions import RequestError
from acp.schema import EnvVariable, HttpMcpServer, McpServerStdio, SseMcpServer
from tests.outside.acp_editor import editor
from tests.outside.scripted_provider import Call, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"permission": {"edit": "ask", "bash": "ask"}}
WRITE = calling("write", path="new.txt", content="one\ntwo\n")
COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "red", "description": "Red"}, {"label": "blue", "description": "Blue"}],
}
FORMS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}


async def test_a_permission_shows_the_change_and_the_patterns(world: World) -> None:
    """ACP-070, ACP-031: the diff before and after, once and always; nothing is asked again."""
    world.configure(**ASK)
    world.write("new.txt", "zero\n")
    world.model.plays(WRITE, calling("write", path="new.txt", content="three\n"), Turn(text="Done."))
    async with editor(world) as ed:
        ed.choose = lambda request: next(one["optionId"] for one in request["options"] if one["kind"] == "allow_always")
        session = await ed.open(world)
        assert await ed.prompt(session, "Write") == "end_turn"
        [asked] = ed.asked
        assert asked["sessionId"] == session
        kinds = [option["kind"] for option in asked["options"]]
        assert kinds[0] == "allow_once"
        assert {"allow_always", "reject_once"} <= set(kinds)
        path = str(world.project.resolve() / "new.txt")
        [diff] = asked["toolCall"]["content"]
        assert diff == {"type": "diff", "path": path, "oldText": "zero\n", "newText": "one\ntwo\n"}
        first = next(iter(ed.calls().values()))
        assert (first["status"], first["kind"]) == ("completed", "edit")
        assert first["content"] == [{"type": "diff", "path": path, "oldText": "zero\n", "newText": "one\ntwo\n"}]
        assert first["locations"] == [{"path": path}]
    assert (world.project / "new.txt").read_text() == "three\n"


@pytest.mark.parametrize(
    ("option", "goes_on"), [("reject", False), ("reject-continue", True), ("never-offered", False), (None, False)]
)
async def test_a_rejected_call_does_nothing(world: World, option: str | None, goes_on: bool) -> None:
    """ACP-071"""
    world.configure(**ASK)
    world.model.plays(WRITE, Turn(text="Without it."))
    async with editor(world) as ed:
        ed.choose = lambda request: option
        session = await ed.open(world)
        await ed.prompt(session, "Write")
        [call] = ed.calls().values()
        assert call["status"] == "failed"
        assert ("Without it." in ed.text()) is goes_on
        assert len(ed.asked) == 1
    assert not (world.project / "new.txt").exists()


async def test_calls_and_permissions_of_a_subagent_are_forwarded(world: World) -> None:
    """ACP-044, ACP-072: shown in the session of the editor, with the name of the agent; also after load."""
    world.configure(**ASK)
    world.model.always = Cast(root=[delegating("child")], child=[WRITE])
    async with editor(world) as ed:
        session = await ed.open(world)
        assert await ed.prompt(session, "root") == "end_turn"
        [asked] = ed.asked
        assert asked["sessionId"] == session
        assert asked["toolCall"]["title"].startswith("general: write")
        shown = ed.calls()
        assert asked["toolCall"]["toolCallId"] in shown
        titles = {call.get("title"): call["status"] for call in shown.values()}
        assert titles == {"subagent a task": "completed", "general: write new.txt": "completed"}
        assert "child done" not in ed.text()
        parent = next(call for call in shown.values() if call["title"] == "subagent a task")
        assert "child done" in json.dumps(parent["content"])
        ed.forget()
        await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        assert {call["title"] for call in ed.calls().values()} == set(titles)
    assert (world.project / "new.txt").read_text() == "one\ntwo\n"


async def test_a_subagent_that_reads_outside_of_the_project_does_not_hang(world: World) -> None:
    """ACP-072: the request names what is needed beside the call."""
    outside = world.home / "outside.txt"
    outside.write_text("far away\n")
    world.model.always = Cast(root=[delegating("child")], child=[calling("read", path=str(outside))])
    async with editor(world) as ed:
        session = await ed.open(world)
        assert await ed.prompt(session, "root") == "end_turn"
        [asked] = ed.asked
        assert asked["toolCall"]["title"].startswith("general: read")
        assert "Needs external_directory" in json.dumps(asked["toolCall"]["content"])
        assert any("far away" in result for request in world.model.requests for result in request.results)


async def test_an_editor_that_disappears_leaves_the_request_open_for_the_next_one(world: World) -> None:
    """ACP-073: the process ends by itself, nothing is denied; the next editor allows the call."""
    world.configure(**ASK)
    world.model.plays(WRITE, Turn(text="Written at last."))
    async with editor(world) as ed:
        ed.answering.clear()
        session = await ed.open(world)
        prompted = asyncio.create_task(ed.prompt(session, "Write"))
        await ed.until(lambda: ed.asked)
    assert ed.process.returncode == 0
    with pytest.raises(ConnectionError):
        await prompted
    assert not (world.project / "new.txt").exists()
    async with editor(world) as ed:
        await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        await ed.until(lambda: ed.asked)
        await ed.until(lambda: "Written at last." in ed.text())
    assert (world.project / "new.txt").read_text() == "one\ntwo\n"


async def test_a_killed_process_leaves_the_request_open_too(world: World) -> None:
    """ACP-073"""
    world.configure(**ASK)
    world.model.plays(WRITE, Turn(text="Written at last."))
    async with editor(world) as ed:
        ed.answering.clear()
        session = await ed.open(world)
        prompted = asyncio.create_task(ed.prompt(session, "Write"))
        await ed.until(lambda: ed.asked)
        ed.process.kill()
        with pytest.raises(ConnectionError):
            await prompted
    async with editor(world) as ed:
        await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        await ed.until(lambda: ed.asked)
        await ed.until(lambda: "Written at last." in ed.text())


async def test_cancel_ends_the_turn_while_the_model_answers(world: World) -> None:
    """ACP-023"""
    held = asyncio.Event()
    world.model.plays(Turn(text="Never", begin=held), Turn(text="Later."))
    async with editor(world) as ed:
        session = await ed.open(world)
        running = asyncio.create_task(ed.prompt(session, "Work"))
        await world.model.asked(1)
        await ed.connection.cancel(session_id=session)
        assert await running == "cancelled"
        held.set()
        assert await ed.prompt(session, "Again") == "end_turn"
        assert ed.text() == "Later."


async def test_cancel_while_a_permission_is_asked_takes_the_request_back(world: World) -> None:
    """ACP-023, ACP-074"""
    world.configure(**ASK)
    world.model.plays(WRITE, Turn(text="Never."))
    async with editor(world) as ed:
        ed.answering.clear()
        session = await ed.open(world)
        running = asyncio.create_task(ed.prompt(session, "Work"))
        await ed.until(lambda: ed.asked)
        await ed.connection.cancel(session_id=session)
        ed.choose = lambda request: None
        ed.answering.set()
        assert await running == "cancelled"
        async with world.host(recover=False) as host:
            assert await host.permissions.list(session) == []
    assert not (world.project / "new.txt").exists()


async def test_a_prompt_while_a_turn_runs_steers_it(world: World) -> None:
    """ACP-025"""
    held = asyncio.Event()
    world.model.plays(Turn(calls=(Call("read", {"path": "hello.txt"}),), begin=held), Turn(text="Both."))
    async with editor(world) as ed:
        session = await ed.open(world)
        first = asyncio.create_task(ed.prompt(session, "One"))
        await world.model.asked(1)
        second = asyncio.create_task(ed.prompt(session, "Two"))
        async with world.host(recover=False) as host:
            while not await host.sessions.pending(session):  # noqa: ASYNC110 - another process admits it
                await asyncio.sleep(0.02)
        held.set()
        assert [await first, await second] == ["end_turn", "end_turn"]
        assert ed.text() == "Both."
        assert "Two" in json.dumps(world.model.last.said)


async def test_a_question_is_elicited_or_becomes_a_choice(world: World) -> None:
    """ACP-075"""
    world.model.plays(calling("question", questions=[COLOUR]), Turn(text="Painted."))
    async with editor(world, FORMS) as ed:
        ed.fill_in = lambda request: {"action": "accept", "content": {"answer1": "blue"}}
        session = await ed.open(world)
        assert await ed.prompt(session, "Paint") == "end_turn"
        [asked] = ed.elicited
        assert asked["message"] == "Which colour?"
        choices = asked["requestedSchema"]["properties"]["answer1"]["oneOf"]
        assert [one["const"] for one in choices] == ["red", "blue"]
        assert "blue" in world.model.last.results[-1]
    world.model.plays(calling("question", questions=[COLOUR]), Turn(text="Painted."))
    async with editor(world) as ed:
        ed.choose = lambda request: "0"
        session = await ed.open(world)
        assert await ed.prompt(session, "Paint") == "end_turn"
        [asked] = ed.asked
        assert asked["toolCall"]["title"] == "Which colour?"
        assert [one["name"] for one in asked["options"]][:2] == ["red: Red", "blue: Blue"]
        assert "red" in world.model.last.results[-1]


async def test_a_question_without_options_is_told_to_the_model_where_an_editor_cannot_ask_it(world: World) -> None:
    """ACP-075"""
    asked = {"question": "What is your name?", "header": "Name", "options": []}
    world.model.plays(calling("question", questions=[asked]), Turn(text="What is your name?"))
    async with editor(world) as ed:
        session = await ed.open(world)
        assert await ed.prompt(session, "Greet") == "end_turn"
        assert "cannot show a question with a free answer" in world.model.last.results[-1]


async def test_a_to_do_list_becomes_the_plan(world: World) -> None:
    """ACP-032: also after load."""
    todos = [
        {"content": "Dig", "status": "completed", "priority": "high"},
        {"content": "Plant", "status": "in_progress", "priority": "low"},
        {"content": "Fly", "status": "cancelled", "priority": "low"},
    ]
    world.model.plays(calling("todowrite", todos=todos), Turn(text="Planned."))
    async with editor(world) as ed:
        session = await ed.open(world)
        await ed.prompt(session, "Plan")
        entries = [
            {"content": "Dig", "status": "completed", "priority": "high"},
            {"content": "Plant", "status": "in_progress", "priority": "low"},
        ]
        assert ed.of("plan") == [{"sessionUpdate": "plan", "entries": entries}]
        ed.forget()
        await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        assert ed.of("plan")[-1]["entries"] == entries


@pytest.mark.parametrize("terminals", [False, True])
async def test_output_of_a_command_is_shown_without_what_a_terminal_would_execute(
    world: World, terminals: bool
) -> None:
    """ACP-033, ACP-034: as text, or in a terminal of the editor; colours only."""
    command = r"printf 'a\033[31mred\033[0m\033]0;title\007b\n'"
    world.model.plays(calling("bash", command=command), Turn(text="Ran\x1b[2J."))
    offered = {"_meta": {"terminal_output": True}} if terminals else {}
    async with editor(world, offered) as ed:
        session = await ed.open(world)
        await ed.prompt(session, "Run")
        assert ed.text() == "Ran\\u001b[2J."
        [key] = ed.calls()
        updates = [update for _, update in ed.updates if update.get("toolCallId") == key]
        assert updates[-1]["status"] == "completed"
        if terminals:
            shown = "".join(one.get("_meta", {}).get("terminal_output", {}).get("data", "") for one in updates)
            assert shown.startswith("aredb\r\n")
            assert any(one.get("content") == [{"type": "terminal", "terminalId": key}] for one in updates)
            assert updates[-1]["_meta"]["terminal_exit"] == {"terminal_id": key, "exit_code": 0, "signal": None}
        else:
            assert "red" in updates[-1]["content"][0]["content"]["text"]
        assert "\x1b]" not in json.dumps(updates, ensure_ascii=False)
        assert ed.calls()[key]["kind"] == "execute"


async def test_mcp_servers_of_the_editor_serve_its_session_and_are_stored_nowhere(world: World) -> None:
    """ACP-053: their tools are called; secrets are in no file; another process does not know them."""
    given = McpServerStdio(
        name="given",
        command=sys.executable,
        args=["-c", MCP_SERVER],
        env=[EnvVariable(name="SECRET_TOKEN", value="s3cret-value-of-the-editor")],
    )
    async with editor(world) as ed:
        made = await ed.connection.new_session(cwd=str(world.project), mcp_servers=[given])
        world.model.plays(calling("given_whisper", to="Ada"), Turn(text="Said."))
        assert await ed.prompt(made.session_id, "Whisper") == "end_turn"
        assert any("psst Ada" in result for result in world.model.last.results), world.model.last.results
        broken = McpServerStdio(name="broken", command="/bin/false", args=[], env=[])
        another = await ed.connection.new_session(cwd=str(world.project), mcp_servers=[broken])
        await ed.prompt(another.session_id, "Hello")
        told = ed.text("agent_thought_chunk", another.session_id)
        assert "The MCP server broken of the editor is not connected" in told
        for other, complaint in (
            (SseMcpServer(type="sse", name="old", url="https://example.org/sse", headers=[]), "sse"),
            (HttpMcpServer(type="http", name="bad", url="ftp://example.org", headers=[]), "https://"),
            (McpServerStdio(name="near", command="relative", args=[], env=[]), "absolute"),
        ):
            with pytest.raises(RequestError, match=complaint):
                await ed.connection.new_session(cwd=str(world.project), mcp_servers=[other])
        await ed.connection.close_session(session_id=made.session_id)
    stored = [path for path in world.data.rglob("*") if path.is_file() and b"s3cret-value" in path.read_bytes()]
    assert stored == []
    async with world.host(recover=False) as host:
        assert [one.name for one in (await host.mcp.list()).data] == []


async def test_a_form_of_an_mcp_server_is_filled_in_or_refused_with_a_reason(world: World) -> None:
    """ACP-076"""
    given = McpServerStdio(name="given", command=sys.executable, args=["-c", MCP_SERVER], env=[])
    for offered, expected in ((FORMS, "psst Grace"), ({}, "psst nobody")):
        async with editor(world, offered) as ed:
            ed.fill_in = lambda request: {"action": "accept", "content": {"name": "Grace"}}
            made = await ed.connection.new_session(cwd=str(world.project), mcp_servers=[given])
            world.model.plays(calling("given_whisper"), Turn(text="Said."))
            assert await ed.prompt(made.session_id, "Whisper") == "end_turn"
            assert expected in world.model.last.results[-1]
            assert [one["requestedSchema"]["required"] for one in ed.elicited] == ([["name"]] if offered else [])
            assert ("this editor cannot show forms" in ed.text("agent_thought_chunk")) is (offered == {})


MCP_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method = asked["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "given", "version": "1"}}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"to": {"type": "string"}}}
        result = {"tools": [{"name": "whisper", "description": "Whispers", "inputSchema": schema}]}
    elif method == "tools/call":
        to = asked["params"]["arguments"].get("to")
        if to is None:
            schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
            params = {"message": "Who?", "requestedSchema": schema}
            print(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": params}), flush=True)
            answer = json.loads(sys.stdin.readline()).get("result", {})
            to = (answer.get("content") or {}).get("name", "nobody")
        result = {"content": [{"type": "text", "text": "psst " + to}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_a_prompt_whose_request_is_cancelled_is_interrupted(world: World) -> None:
    """ACP-026: `$/cancel_request` for `session/prompt` is answered with -32800, and ends the turn."""
    held = asyncio.Event()
    world.model.plays(Turn(text="Never", begin=held), Turn(text="Later."))
    async with editor(world) as ed:
        session = await ed.open(world)
        running = asyncio.create_task(ed.prompt(session, "Work"))
        await world.model.asked(1)
        id = ed.connection._conn._next_request_id - 1
        await ed.connection._conn.send_notification("$/cancel_request", {"requestId": id})
        with pytest.raises(RequestError, match="cancelled"):
            await running
        held.set()
        assert await ed.prompt(session, "Again") == "end_turn"
        assert ed.text() == "Later."


async def test_a_session_that_is_loaded_again_during_a_prompt_shows_its_end(world: World) -> None:
    """ACP-045: the prompt is answered with an error, and the work goes on."""
    held = asyncio.Event()
    world.model.plays(Turn(text="Slowly.", begin=held))
    async with editor(world) as ed:
        session = await ed.open(world)
        running = asyncio.create_task(ed.prompt(session, "Work"))
        await world.model.asked(1)
        await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        with pytest.raises(RequestError, match="goes on"):
            await running
        held.set()
        await ed.until(lambda: "Slowly." in ed.text())


async def test_an_editor_that_cannot_ask_is_told_to_the_model(world: World) -> None:
    """ACP-071: not a silent denial, and no hang."""
    world.configure(**ASK)
    world.model.plays(WRITE, Turn(text="Then not."))

    def cannot(request: Any) -> str | None:
        raise RequestError.method_not_found("session/request_permission")

    async with editor(world) as ed:
        ed.choose = cannot
        session = await ed.open(world)
        assert await ed.prompt(session, "Write") == "end_turn"
        assert "The editor could not ask the user" in world.model.last.results[-1]
    assert not (world.project / "new.txt").exists()
