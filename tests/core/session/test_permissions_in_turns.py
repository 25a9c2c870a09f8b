"""Tool calls inside a running turn: recorded before they start, judged under the turn's own agent, asked about, denied,
declined, corrected or broken, and settled once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import HeldTool, NoInput, event_types, tables
from tests.core.session.support_day import (
    Place,
    begin,
    calling,
    heard,
    history,
    play,
    say,
    tools_of,
)
from tests.core.session.support_day_desk import Desk, call, desk_of, rules
from tests.llm.support import sse
from tests.stores.stores import STORES

from holdfast.core.permission.errors import FEEDBACK_CHARACTERS, PermissionNotFound
from holdfast.core.runner.publish import TOOL_INTERRUPTED
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.scope import Scope
from holdfast.core.session.errors import Interrupted
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.llm.offline import ScriptedTransport
from holdfast.llm.route.transport import HttpRequest
from holdfast.schema.codec import decode_any
from holdfast.schema.model import ModelRef
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_message import AssistantMessage, ToolCompleted, ToolError, ToolRunning

pytestmark = pytest.mark.anyio

ASKS_BASH = {"mode": "all", "permissions": rules("allow * *", "ask bash *")}
FREE = {"mode": "all", "permissions": rules("allow * *")}
NOTHING = {"mode": "all", "permissions": rules("deny * *")}
AGENTS = {"asking": ASKS_BASH, "free": FREE, "nothing": NOTHING}
TOUCH = ("bash", {"command": "touch done"})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, agents=AGENTS)


@pytest.fixture
async def runtime(place: Place, model: ScriptedTransport) -> AsyncIterator[Runtime]:
    async with place.runtime(model) as runtime:
        yield runtime


@pytest.fixture
async def desk(runtime: Runtime) -> AsyncIterator[Desk]:
    async with desk_of(runtime) as desk:
        yield desk


@pytest.fixture
async def session(runtime: Runtime) -> Session:
    return await begin(runtime, agent="asking")


def made(execute: Any, output: Any = str) -> Tool[Any, Any]:
    return Tool(description="", input=NoInput, output=output, execute=execute)


async def outcomes(runtime: Runtime, session_id: str) -> list[str]:
    """How each call of the Session ended, in order: `ok`, or its error."""
    return [
        "ok" if isinstance(part.state, ToolCompleted) else part.state.error.message
        for part in await tools_of(runtime, session_id)
        if isinstance(part.state, ToolCompleted | ToolError)
    ]


# -- under which agent -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("switched", ["free", "nothing"])
async def test_a_waiting_call_keeps_the_agent_of_its_turn(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place, switched: str
) -> None:
    """TOL-037, SES-119, TOL-347, CAT-068: no agent that was switched to meanwhile counts, freer or stricter."""
    await call(runtime, model, session.id, TOUCH, ("read", {"path": "opencode.txt"}))
    [request] = await desk.asked()
    await runtime.sessions.switch_agent(session.id, switched)
    assert await desk.services.permissions.list() == (request,)
    with tables(runtime) as sql:
        assert sql("select agent from session_request where id = ?", request.id) == [("asking",)]
    assert not (place.project / "done").exists()
    await desk.answer(request, "once")
    await runtime.sessions.wait(session.id)
    assert (place.project / "done").exists()
    assert (await outcomes(runtime, session.id))[0] == "ok"


async def test_a_rule_that_denies_meanwhile_beats_the_approval(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place
) -> None:
    """TOL-347, TOL-076, TOL-095: rules are read when the answer comes; the model is told, and goes on."""
    await call(runtime, model, session.id, TOUCH)
    [request] = await desk.asked()
    strict = {"mode": "all", "permissions": rules("allow * *", "deny bash touch *")}
    place.configure(agents={**AGENTS, "asking": strict})
    await desk.services.config.reload()
    await desk.answer(request, "once")
    await runtime.sessions.wait(session.id)
    assert not (place.project / "done").exists()
    assert await outcomes(runtime, session.id) == ["Permission denied: bash touch done"]
    assert len(model.requests) == 2


# -- how a person answers ----------------------------------------------------------------------------------------


async def test_a_plain_no_stops_the_turn(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, held: HeldTool
) -> None:
    """TOL-092, TOL-334, SES-123, SES-129, SES-136: it is no result; siblings are cut, every call is settled as
    interrupted, the step has one end, no further request is made, and whoever waits hears of an interruption."""
    with Scope() as scope:
        desk.services.tools.register({"held": held.tool}, scope)
        play(model, calling(TOUCH, ("held", {}), ("bash", {"command": "sleep 60 # asked too"})))
        await runtime.sessions.prompt(session.id, Prompt(text="go"), resume=False)
        running = asyncio.create_task(runtime.sessions.run(session.id))
        requests = await desk.asked(2)
        await held.started.wait()
        await desk.answer(requests[0], "reject")
        with pytest.raises(Interrupted):
            await running
    assert held.cut.is_set()
    assert await outcomes(runtime, session.id) == [TOOL_INTERRUPTED] * 3
    assert len(model.requests) == 1
    assert await desk.services.permissions.list() == ()
    assert [reply["reply"] for reply in desk.replies] == ["reject", "reject"]
    ends = [kind for kind in await event_types(runtime, session.id) if kind in ("step.ended", "step.failed")]
    assert len(ends) == 1


async def test_a_no_with_a_reason_is_a_result_and_the_turn_goes_on(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk
) -> None:
    """TOL-092, TOL-094, TOL-334: the model reads what the person said, bounded, and answers."""
    await call(runtime, model, session.id, TOUCH)
    [request] = await desk.asked()
    await desk.answer(request, "reject", message="Use write. " + "x" * 5_000)
    await runtime.sessions.wait(session.id)
    [said] = await outcomes(runtime, session.id)
    assert said.startswith("The user rejected this action and said: Use write. xxx")
    assert len(said) < FEEDBACK_CHARACTERS + 100
    assert "Use write." in heard(model.requests[1])


@pytest.mark.parametrize("message", [None, "Not like this."])
async def test_either_no_declines_what_else_the_session_asked_and_nothing_of_another(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, message: str | None
) -> None:
    """TOL-093: each gets a reject of its own; another Session's request goes on waiting."""
    other = await begin(runtime, agent="asking")
    await call(runtime, model, other.id, ("bash", {"command": "echo other"}))
    await desk.asked(1)
    await call(runtime, model, session.id, TOUCH, ("bash", {"command": "echo two"}), ("bash", {"command": "echo 3"}))
    waiting = await desk.asked(4)
    mine = [request for request in waiting if request.session_id == session.id]
    await desk.answer(mine[0], "reject", message=message)
    await runtime.sessions.wait(session.id)
    assert {reply["requestID"]: reply["reply"] for reply in desk.replies} == {request.id: "reject" for request in mine}
    assert [request.session_id for request in await desk.services.permissions.list()] == [other.id]
    assert len(await outcomes(runtime, session.id)) == 3
    [theirs] = await desk.services.permissions.list()
    await desk.answer(theirs, "once")
    await runtime.sessions.wait(other.id)
    assert await outcomes(runtime, other.id) == ["ok"]


async def test_a_no_with_a_reason_lets_the_model_go_on_though_others_were_asked_too(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk
) -> None:
    """TOL-093, TOL-094, TOL-334: the others are declined, and what the person said still reaches the model."""
    await call(runtime, model, session.id, TOUCH, ("bash", {"command": "echo two"}))
    first, _ = await desk.asked(2)
    await desk.answer(first, "reject", message="Use write.")
    await runtime.sessions.wait(session.id)
    assert len(model.requests) == 2
    assert "Use write." in heard(model.requests[1])


async def test_always_releases_what_it_covers_each_under_its_own_agent(
    runtime: Runtime, place: Place, session: Session, model: ScriptedTransport, desk: Desk
) -> None:
    """TOL-096, TOL-322, TOL-076: other calls and other Sessions of the Location; not what is different, and not what
    the agent of that Session would have to ask about all the same."""
    narrow = {"mode": "all", "permissions": rules("allow * *", "ask bash *", "deny bash touch *")}
    place.configure(agents={**AGENTS, "narrow": narrow})
    await desk.services.config.reload()
    same, strict = await begin(runtime, agent="asking"), await begin(runtime, agent="narrow")
    gates = [model.hold(index) for index in range(3)]
    for number, (target, command) in enumerate(
        ((session, "touch done"), (same, "touch done"), (strict, "echo hello")), start=1
    ):
        await call(runtime, model, target.id, ("bash", {"command": command}), ("bash", {"command": "echo hello"}))
        gates[number - 1].set()
        await desk.asked(2 * number)
    first = next(item for item in await desk.services.permissions.list() if item.session_id == session.id)
    assert first.resources == ("touch done",)
    await desk.answer(first, "always")
    left = {(request.session_id, request.resources[0]) for request in await desk.services.permissions.list()}
    assert left == {(target.id, "echo hello") for target in (session, same, strict)}
    replied = [reply for reply in desk.replies if reply["reply"] == "always"]
    assert {reply["sessionID"] for reply in replied} == {session.id, same.id}
    assert [saved.resource for saved in await desk.services.permissions.saved.here()] == ["touch done"]

    await call_denied(runtime, model, strict, desk)


async def call_denied(runtime: Runtime, model: ScriptedTransport, strict: Session, desk: Desk) -> None:
    """The saved approval does not beat the configured deny of another agent."""
    for request in await desk.services.permissions.for_session(strict.id):
        await desk.answer(request, "once")
    await runtime.sessions.wait(strict.id)
    await call(runtime, model, strict.id, TOUCH)
    await runtime.sessions.wait(strict.id)
    assert (await outcomes(runtime, strict.id))[-1] == "Permission denied: bash touch done"


async def test_a_denied_call_says_so_and_nothing_of_its_target(
    runtime: Runtime, model: ScriptedTransport, place: Place
) -> None:
    """TOL-095, TOL-329: the same words whether the file is there or not, and whether the text in it matches or not."""
    sealed = {"mode": "all", "permissions": rules("allow * *", "deny edit *.md")}
    place.configure(agents={"sealed": sealed})
    place.write("there.md", "harbour lights\n")
    session = await begin(runtime, agent="sealed")
    change = {"oldString": "harbour", "newString": "x"}
    play(
        model,
        calling(
            ("edit", {"path": "there.md", **change}),
            ("edit", {"path": "there.md", **change, "oldString": "no such text"}),
            ("edit", {"path": "gone.md", **change}),
            ("write", {"path": "there.md", "content": "x"}),
        ),
    )
    await say(runtime, session.id, "go")
    told = await outcomes(runtime, session.id)
    assert [text.replace("gone.md", "there.md") for text in told] == ["Permission denied: edit there.md"] * 4
    assert (place.project / "there.md").read_text() == "harbour lights\n"


# -- restart and limits ------------------------------------------------------------------------------------------


async def test_a_request_made_before_a_crash_is_never_approved_by_itself(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place, tmp_path: Path
) -> None:
    """TOL-101, TOL-034, SES-137: never approved by itself, never run again; request and answer are in the log."""
    await call(runtime, model, session.id, TOUCH)
    [request] = await desk.asked()
    later = ScriptedTransport()
    async with crashed(place, tmp_path, later) as after, desk_of(after) as again:
        await say(after, session.id, "go on")
        with pytest.raises(PermissionNotFound):
            await again.answer(request, "once")
        assert await outcomes(after, session.id) == [TOOL_INTERRUPTED]
        kinds = await event_types(after, session.id)
        assert {"permission.asked", "permission.replied"} <= set(kinds)
        assert not (place.project / "done").exists()
        assert len(later.requests) == 1
        assert TOOL_INTERRUPTED in heard(later.requests[0])


def crashed(place: Place, tmp_path: Path, model: ScriptedTransport) -> Runtime:
    """Another process on what this one would leave if it died now."""
    data = tmp_path / "after"
    STORES.copy(place.data, data)
    return Runtime(
        paths=Paths(data),
        directory=place.project,
        environment=dict(place.environment),
        transport=model,
        options=HostOptions(titles=False),
    )


async def test_a_running_call_of_a_dead_process_is_settled_and_not_repeated(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, place: Place, tmp_path: Path
) -> None:
    """TOL-034, SES-137: its side effect happened once, and the model learns that the outcome is unknown."""
    gate = asyncio.Event()

    async def append(given: NoInput, context: ToolContext) -> str:
        with (place.project / "effects").open("a", encoding="utf-8") as file:
            file.write("effect\n")
        ran.set()
        await gate.wait()
        return "done"

    ran = asyncio.Event()
    with Scope() as scope:
        desk.services.tools.register({"append": made(append)}, scope)
        await call(runtime, model, session.id, ("append", {}))
        await ran.wait()
        later = ScriptedTransport()
        async with crashed(place, tmp_path, later) as after:
            await say(after, session.id, "go on")
            assert await outcomes(after, session.id) == [TOOL_INTERRUPTED]
        gate.set()
        await runtime.sessions.wait(session.id)
    assert (place.project / "effects").read_text() == "effect\n"


async def test_no_more_requests_wait_than_may(tmp_path: Path, model: ScriptedTransport) -> None:
    """TOL-101, TOL-324: the hundred and first of a Session is denied and says why; the others go on waiting."""
    place = Place(tmp_path, agents=AGENTS, holdfast={"running_calls": 200})
    async with place.runtime(model) as runtime, desk_of(runtime) as desk:
        session = await begin(runtime, agent="asking")
        await call(runtime, model, session.id, *(("bash", {"command": f"echo {n}"}) for n in range(102)))
        waiting = await desk.asked(100)
        async with asyncio.timeout(10):
            while len(told := await outcomes(runtime, session.id)) < 2:  # noqa: ASYNC110 - rows call nobody
                await asyncio.sleep(0.01)
        assert len(waiting) == 100
        assert ["too many requests" in text for text in told] == [True, True]
        await runtime.sessions.interrupt(session.id)
        assert await desk.services.permissions.list() == ()
        settled = await outcomes(runtime, session.id)
        assert (len(settled), settled.count(TOOL_INTERRUPTED)) == (102, 100)


# -- defects -----------------------------------------------------------------------------------------------------


async def test_a_defect_fails_its_own_call_and_no_other(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-030, TOL-031, SES-121, SES-122, SES-120: the class and a reference for the model, all else in the log."""
    broke = asyncio.Event()

    async def defect(given: NoInput, context: ToolContext) -> str:
        broke.set()
        raise KeyError("canary-in-a-traceback")

    async def sibling(given: NoInput, context: ToolContext) -> str:
        await broke.wait()
        await asyncio.sleep(0)
        return "fine"

    async def known(given: NoInput, context: ToolContext) -> str:
        raise ToolFailure("No such thing.")

    with Scope() as scope:
        tools = {"defect": made(defect), "sibling": made(sibling), "known": made(known)}
        desk.services.tools.register(tools, scope)
        play(model, calling(("sibling", {}), ("defect", {}), ("known", {}), ("absent", {})))
        await say(runtime, session.id, "go")
    fine, defective, failed, unknown = await outcomes(runtime, session.id)
    assert (fine, failed, unknown) == ("ok", "No such thing.", "Unknown tool: absent")
    assert defective.startswith("Tool execution failed: KeyError (")
    reference = defective.partition("(")[2].rstrip(")")
    assert "canary" not in heard(model.requests[1])
    assert defective in heard(model.requests[1])
    [logged] = [record for record in caplog.records if reference in record.getMessage()]
    assert logged.exc_info is not None
    assert "canary-in-a-traceback" in str(logged.exc_info[1])


async def test_a_tool_failure_inside_a_task_group_reaches_the_model(
    runtime: Runtime, session: Session, model: ScriptedTransport, desk: Desk
) -> None:
    """TOL-339, TOL-029: a failure that the tool meant for the model reaches it also out of a task group."""

    async def fail() -> None:
        raise ToolFailure("Both are gone.")

    async def group(given: NoInput, context: ToolContext) -> str:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
        return "fine"

    with Scope() as scope:
        desk.services.tools.register({"group": made(group)}, scope)
        play(model, calling(("group", {})))
        await say(runtime, session.id, "go")
    assert await outcomes(runtime, session.id) == ["Both are gone."]


# -- the record --------------------------------------------------------------------------------------------------


async def test_a_call_is_on_disk_before_it_starts_and_runs_while_the_model_still_speaks(
    runtime: Runtime, session: Session, desk: Desk, held: HeldTool, model: ScriptedTransport
) -> None:
    """TOL-033, SES-113, SES-114: seen through a connection of its own at the moment it starts; the next turn waits for
    the last settlement, and sees it."""
    recorded: list[int] = []

    async def look(given: NoInput, context: ToolContext) -> str:
        with tables(runtime) as sql:
            [(count,)] = sql(
                "select count(*) from event where aggregate_id = ? and type like 'session.next.tool.called%'"
                " and json_extract(data, '$.callID') = ?",
                session.id,
                context.tool_call_id,
            )
        recorded.append(count)
        return "looked"

    with Scope() as scope:
        desk.services.tools.register({"look": made(look), "held": held.tool}, scope)
        play(model, calling(("look", {}), ("held", {}), ("look", {})))
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        await held.started.wait()
        assert len(model.requests) == 1
        states = [part.state for part in await tools_of(runtime, session.id)]
        assert isinstance(states[1], ToolRunning)
        held.go.set()
        await runtime.sessions.wait(session.id)
    assert recorded == [1, 1]
    results = [message for message in model.requests[1]["messages"] if message["role"] == "tool"]
    assert len(results) == 3


async def test_a_call_id_that_comes_again_is_another_call(
    runtime: Runtime, session: Session, desk: Desk, model: ScriptedTransport
) -> None:
    """TOL-033, TOL-035, SES-117: every event names the message that owns the call; each settles its own."""
    count = 0

    async def counting(given: NoInput, context: ToolContext) -> str:
        nonlocal count
        count += 1
        if count == 2:
            raise ToolFailure("Second.")
        return f"number {count}"

    with Scope() as scope:
        desk.services.tools.register({"counting": made(counting)}, scope)
        play(model, *[calling(("counting", {}))] * 3)
        await say(runtime, session.id, "go")
    assert await outcomes(runtime, session.id) == ["ok", "Second.", "ok"]
    stored = await runtime.log.serialized(session.id, limit=1_000)
    named = [(event.type, decode_any(bytes(event.data))) for event in stored if ".tool." in event.type]
    assert [(kind.removeprefix("session.next.tool.").rpartition(".")[0]) for kind, _ in named] == [
        kind for end in ("success", "failed", "success") for kind in ("input.started", "input.ended", "called", end)
    ]
    assert {data["callID"] for _, data in named} == {"call_0"}
    assert {data["sessionID"] for _, data in named} == {session.id}
    answers = [item.id for item in await history(runtime, session.id) if isinstance(item, AssistantMessage)]
    assert [data["assistantMessageID"] for _, data in named] == [id for id in answers[:3] for _ in range(4)]


@pytest.mark.parametrize("effect", ["ask", "allow"])
async def test_the_fourth_identical_call_in_a_row_is_judged_as_a_loop(
    tmp_path: Path, model: ScriptedTransport, effect: str
) -> None:
    """TOL-040, TOL-083: from the fourth on, and only where a rule says so; another call in between starts anew."""
    looping = {"mode": "all", "permissions": rules("allow * *", f"{effect} doom_loop *")}
    place = Place(tmp_path, agents={"looping": looping})
    place.write("a.txt", "a\n")
    same, other = ("read", {"path": "a.txt"}), ("glob", {"pattern": "*.txt"})
    turned = ("read", {"path": "a.txt", "offset": 1})
    async with place.runtime(model) as runtime, desk_of(runtime) as desk:
        session = await begin(runtime, agent="looping")
        play(model, *(calling(one) for one in (same, same, same, other, turned, same, same, same, same)))
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        if effect == "ask":
            [request] = await desk.asked()
            assert (request.action, request.resources) == ("doom_loop", ("read",))
            assert len(model.requests) == 9
            await desk.answer(request, "once")
        await runtime.sessions.wait(session.id)
        assert await outcomes(runtime, session.id) == ["ok"] * 9
        assert len(desk.heard) == (effect == "ask")


async def test_a_loop_that_is_denied_stops_the_drain(tmp_path: Path, model: ScriptedTransport) -> None:
    """SES-142, TOL-040: with a durable reason, and no request after it."""
    looping = {"mode": "all", "permissions": rules("allow * *", "deny doom_loop *")}
    place = Place(tmp_path, agents={"looping": looping})
    place.write("a.txt", "a\n")
    async with place.runtime(model) as runtime:
        session = await begin(runtime, agent="looping")
        play(model, *[calling(("read", {"path": "a.txt"}))] * 6)
        await say(runtime, session.id, "go")
        told = await outcomes(runtime, session.id)
        assert told[:3] == ["ok"] * 3
        assert "4 times in a row" in told[3]
        assert len(model.requests) == 4


class Hosted:
    """Anthropic's wire format: a search that the provider runs itself, with a large result."""

    status = 200
    headers = {"content-type": "text/event-stream"}  # noqa: RUF012 - a reply, never changed

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        found = {
            "type": "web_search_result",
            "url": "https://example.test",
            "title": "t",
            "encrypted_content": "x" * 90_000,
        }
        self.result = [found, found]

    async def send(self, request: HttpRequest) -> Hosted:
        self.requests.append(decode_any(b"".join(request.body)))
        return self

    def release(self) -> None:
        pass

    async def chunks(self) -> AsyncIterator[bytes]:
        start = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}}
        yield sse({"type": "message_start", "message": start})
        if len(self.requests) == 1:
            use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
            yield sse({"type": "content_block_start", "index": 0, "content_block": use})
            delta = {"type": "input_json_delta", "partial_json": '{"query":"tides"}'}
            yield sse({"type": "content_block_delta", "index": 0, "delta": delta})
            yield sse({"type": "content_block_stop", "index": 0})
            result = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": self.result}
            yield sse({"type": "content_block_start", "index": 1, "content_block": result})
            yield sse({"type": "content_block_stop", "index": 1})
        yield sse({"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}})
        yield sse({"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "done"}})
        yield sse({"type": "content_block_stop", "index": 2})
        yield sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}})
        yield sse({"type": "message_stop"})

    async def close(self) -> None:
        pass


async def test_a_hosted_result_is_kept_unbounded_and_sent_back(tmp_path: Path) -> None:
    """TOL-038, SES-089, SES-124: not bounded, not rewritten, sent back as it was, and no reason for another turn."""
    place, hosted = Place(tmp_path), Hosted()
    place.configure(
        providers={
            "claude": {
                "api": {"type": "aisdk", "package": "@ai-sdk/anthropic", "url": "http://claude.invalid/v1"},
                "request": {"body": {"apiKey": "sk-test"}},
                "models": {"claude-haiku-4-5": {}},
            }
        }
    )
    async with place.runtime(hosted) as runtime:
        session = await begin(runtime, model=ModelRef(id="claude-haiku-4-5", provider_id="claude"))
        await say(runtime, session.id, "search")
        assert len(hosted.requests) == 1
        [part] = await tools_of(runtime, session.id)
        assert isinstance(part.state, ToolCompleted)
        assert (part.state.output_paths or None, part.state.content) == (None, ())
        await say(runtime, session.id, "again")
    sent = [block for message in hosted.requests[1]["messages"] for block in _blocks(message)]
    [back] = [block for block in sent if block["type"] == "web_search_tool_result"]
    assert back["content"] == hosted.result
    assert not list((tmp_path / "data").glob("tool-output/*"))


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


# -- what the model reads ----------------------------------------------------------------------------------------


async def test_every_tool_names_what_it_wants(tmp_path: Path, model: ScriptedTransport) -> None:
    """TOL-078, TOL-079, TOL-104: whatever it asks for, there is at least one resource, and the external directory
    comes first."""
    place = Place(tmp_path, agents={"asking": {"mode": "all", "permissions": rules("ask * *")}})
    place.write("a.txt", "a\n")
    place.skill("tides", "When water moves")
    outside = tmp_path / "outside"
    outside.mkdir()
    patch = "*** Begin Patch\n*** Add File: c.txt\n+c\n*** End Patch"
    wanted: list[tuple[str, dict[str, Any], list[str]]] = [
        ("read", {"path": "a.txt"}, ["read"]),
        ("read", {"path": str(outside / "x")}, ["external_directory", "read"]),
        ("write", {"path": "b.txt", "content": "b"}, ["edit"]),
        ("edit", {"path": "a.txt", "oldString": "a", "newString": "b"}, ["edit"]),
        ("apply_patch", {"patchText": patch}, ["edit"]),
        ("bash", {"command": "true"}, ["bash"]),
        ("glob", {"pattern": "*"}, ["glob"]),
        ("grep", {"pattern": "a"}, ["grep"]),
        ("skill", {"name": "tides"}, ["skill"]),
        ("todowrite", {"todos": []}, ["todowrite"]),
        ("webfetch", {"url": "https://example.test/"}, ["webfetch"]),
    ]
    async with place.runtime(model) as runtime, desk_of(runtime) as desk:
        session = await begin(runtime, agent="asking")
        count = 0
        for tool, given, actions in wanted:
            await call(runtime, model, session.id, (tool, given))
            asked: list[PermissionRequest] = []
            for number, _ in enumerate(actions):
                count += 1
                [request] = await desk.asked(count)
                asked.append(request)
                last = number == len(actions) - 1
                await desk.answer(request, "reject" if last else "once", message="No.")
            await runtime.sessions.wait(session.id)
            assert [request.action for request in asked] == actions, tool
            assert all(request.resources for request in asked), tool
        assert len(desk.heard) == count
