"""What a process leaves behind when it is killed or shut down, and what the next one makes of it."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider, Server, finish, frame

from holdfast import ApiError, AsyncClient, Holdfast, Location, PromptInput, asgi, connect
from holdfast.schema.session_message import AssistantMessage, ToolCompleted, ToolError, ToolPart

pytestmark = pytest.mark.anyio

PATIENCE = 40.0
Serve = Callable[..., Server]
Behaviour = Callable[[BaseHTTPRequestHandler], None]
SIGNALS = [signal.SIGTERM, signal.SIGKILL]
HOSTS = ["serve", "embedded", "mounted"]


def calling(tool: str, given: dict[str, Any], id: str = "call_1") -> Behaviour:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        function = {"name": tool, "arguments": json.dumps(given)}
        call = {"index": 0, "id": id, "type": "function", "function": function}
        handler.wfile.write(frame({"tool_calls": [call]}) + frame({}, "tool_calls") + b"data: [DONE]\n\n")

    return behave


def in_turn(provider: Provider, *behaviours: Behaviour) -> None:
    """The last one stays. Titles are asked for by requests without tools, and answered apart."""
    left = list(behaviours)

    def behave(handler: BaseHTTPRequestHandler) -> None:
        if not provider.bodies[-1].get("tools"):
            return Provider.answer(handler)
        return (left.pop(0) if len(left) > 1 else left[0])(handler)

    provider.behave = behave


def asked(provider: Provider) -> list[dict[str, Any]]:
    """The requests of turns."""
    return [body for body in provider.bodies if body.get("tools")]


@asynccontextmanager
async def client_of(server: Server, machine: Machine) -> AsyncIterator[AsyncClient]:
    async with asyncio.timeout(PATIENCE), connect(server.url, environment=machine.environment) as client:
        yield client


async def until(met: Callable[[], Any]) -> Any:
    while not (found := await met()):  # noqa: ASYNC110 - only looking tells
        await asyncio.sleep(0.02)
    return found


def end(server: Server, number: signal.Signals) -> str:
    server.process.send_signal(number)
    return finish(server.process).err


async def new_session(client: AsyncClient, machine: Machine) -> str:
    return (await client.sessions.create(location=Location(directory=str(machine.project)))).id


async def answers(client: AsyncClient, session_id: str) -> list[AssistantMessage]:
    return [item for item in await client.sessions.context(session_id) if isinstance(item, AssistantMessage)]


def parts(answer: AssistantMessage) -> list[ToolPart]:
    return [part for part in answer.content if isinstance(part, ToolPart)]


# -- shut down in the middle -------------------------------------------------------------------------------------------


async def test_an_answer_that_a_shutdown_cut_short_is_asked_for_again(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-250, SES-251: the next server goes on by itself; the model is not shown the half answer, and the record says
    what happened."""
    holdfast.use_provider(provider.url)
    in_turn(provider, provider.stall, Provider.answer)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        await until(lambda: client.sessions.messages(session_id, limit=1))
        await asyncio.to_thread(provider.asked.acquire)
    end(server, signal.SIGTERM)
    async with client_of(serve(), holdfast) as client:
        outcome = await client.sessions.outcome(session_id)
        assert outcome.type == "completed"
        history = await answers(client, session_id)
        assert [answer.finish for answer in history] == ["error", "stop"]
        assert history[0].error is not None
        assert "shut down" in history[0].error.message
        assert await client.sessions.interrupted() == []
    again = asked(provider)[-1]["messages"]
    assert [message["role"] for message in again] == [message["role"] for message in asked(provider)[0]["messages"]]


async def test_a_tool_that_a_shutdown_stopped_is_told_to_the_model(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-250, SES-252: it is settled as interrupted, never run again, and the model goes on by itself after that."""
    holdfast.use_provider(provider.url)
    command = "echo once >> ran.txt; sleep 60"
    in_turn(provider, calling("bash", {"command": command, "description": "d"}), Provider.answer)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="run it"))

        async def ran() -> bool:
            return (holdfast.project / "ran.txt").exists()

        await until(ran)
    end(server, signal.SIGTERM)
    async with client_of(serve(), holdfast) as client:
        assert (await client.sessions.outcome(session_id)).type == "completed"
        (part,) = parts((await answers(client, session_id))[0])
        assert isinstance(part.state, ToolError)
        assert "interrupted" in part.state.error.message
    assert (holdfast.project / "ran.txt").read_text(encoding="utf-8") == "once\n"
    assert "interrupted" in json.dumps(asked(provider)[-1]["messages"][-1])


# -- waiting for a person ----------------------------------------------------------------------------------------------


async def waiting_for_a_person(machine: Machine, serve: Serve, provider: Provider, number: signal.Signals) -> str:
    """A Session whose call waited for an approval when its server ended."""
    machine.use_provider(provider.url)
    config = machine.home / "config" / "opencode" / "opencode.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**document, "permission": {"bash": "ask"}}), encoding="utf-8")
    command = {"command": "echo once >> ran.txt", "description": "d"}
    in_turn(provider, calling("bash", command), Provider.answer)
    server = serve()
    async with client_of(server, machine) as client:
        session_id = await new_session(client, machine)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="run it"))
        await until(lambda: client.permissions.list(session_id))
    end(server, number)
    return session_id


@pytest.mark.parametrize("number", SIGNALS)
async def test_an_approval_after_a_restart_executes_the_call_once(
    holdfast: Machine, serve: Serve, provider: Provider, number: signal.Signals
) -> None:
    """TOL-100, TOL-101: the request stays listed, and the answer runs the call."""
    session_id = await waiting_for_a_person(holdfast, serve, provider, number)
    async with client_of(serve(), holdfast) as client:
        (request,) = await client.permissions.list(session_id)
        assert len(asked(provider)) == 1
        await client.permissions.reply(session_id, request_id=request.id, reply="once")
        await client.sessions.wait(session_id)
        (part,) = parts((await answers(client, session_id))[0])
        assert isinstance(part.state, ToolCompleted)
        assert (await client.sessions.outcome(session_id)).type == "completed"
        assert await client.permissions.list(session_id) == []
    assert (holdfast.project / "ran.txt").read_text(encoding="utf-8") == "once\n"
    assert len(asked(provider)) == 2
    assert await asyncio.to_thread(holdfast.healthy)


async def test_an_approved_call_is_judged_as_the_agent_that_made_it(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """TOL-101, SES-023: the agent was changed while the call waited over a restart; the new one is denied the tool from
    its own turns on."""
    session_id = await waiting_for_a_person(holdfast, serve, provider, signal.SIGKILL)
    config = holdfast.home / "config" / "opencode" / "opencode.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    careful = {"mode": "primary", "permission": {"bash": "deny"}}
    config.write_text(json.dumps({**document, "agent": {"careful": careful}}), encoding="utf-8")
    async with client_of(serve(), holdfast) as client:
        await client.sessions.switch_agent(session_id, agent="careful")
        (request,) = await client.permissions.list(session_id)
        await client.permissions.reply(session_id, request_id=request.id, reply="once")
        await client.sessions.wait(session_id)
        (part,) = parts((await answers(client, session_id))[0])
        assert isinstance(part.state, ToolCompleted), part.state
        assert [answer.agent for answer in await answers(client, session_id)] == ["build", "careful"]
    assert (holdfast.project / "ran.txt").read_text(encoding="utf-8") == "once\n"
    offered = [{tool["function"]["name"] for tool in body["tools"]} for body in asked(provider)]
    assert ["bash" in tools for tools in offered] == [True, False]


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_call_that_waits_for_a_person_says_so_after_a_restart(
    holdfast: Machine, serve: Serve, provider: Provider, number: signal.Signals
) -> None:
    """TOL-100, SES-253: in the list of waits, in the outcome, and among what an earlier process did not finish."""
    session_id = await waiting_for_a_person(holdfast, serve, provider, number)
    async with client_of(serve(), holdfast) as client:
        assert [wait.kind for wait in await client.sessions.waits(session_id)] == ["permission"]
        assert (await client.sessions.outcome(session_id)).type == "waiting"
        (left,) = await client.sessions.interrupted()
        assert (left.stage, left.safe) == ("waiting", True)


async def test_a_refusal_after_a_restart_declines_the_call(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """TOL-101: it never runs, and the turn stops as it would have."""
    session_id = await waiting_for_a_person(holdfast, serve, provider, signal.SIGKILL)
    async with client_of(serve(), holdfast) as client:
        (request,) = await client.permissions.list(session_id)
        await client.permissions.reply(session_id, request_id=request.id, reply="reject")
        assert (await client.sessions.outcome(session_id)).type == "interrupted"
        assert await client.sessions.interrupted() == []
    assert not (holdfast.project / "ran.txt").exists()
    assert len(asked(provider)) == 1


async def test_a_new_prompt_ends_what_waited_for_a_person(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """TOL-101: writing on without an answer fails the call as interrupted, and the request can not be answered."""
    session_id = await waiting_for_a_person(holdfast, serve, provider, signal.SIGKILL)
    async with client_of(serve(), holdfast) as client:
        (request,) = await client.permissions.list(session_id)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="never mind"))
        assert (await client.sessions.outcome(session_id)).type == "completed"
        (part,) = parts((await answers(client, session_id))[0])
        assert isinstance(part.state, ToolError)
        assert await client.permissions.list(session_id) == []
        with pytest.raises(ApiError) as refused:
            await client.permissions.reply(session_id, request_id=request.id, reply="once")
        assert refused.value.status == 404
    assert not (holdfast.project / "ran.txt").exists()


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_question_can_be_answered_after_a_restart(
    holdfast: Machine, serve: Serve, provider: Provider, number: signal.Signals
) -> None:
    """TOL-100: the answer reaches the model, although the process that asked is gone."""
    holdfast.use_provider(provider.url)
    options = [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]
    question = {"question": "Which colour?", "header": "colour", "options": options}
    in_turn(provider, calling("question", {"questions": [question]}), Provider.answer)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="ask me"))
        await until(lambda: client.questions.list(session_id))
    end(server, number)
    async with client_of(serve(), holdfast) as client:
        (request,) = await client.questions.list(session_id)
        await client.questions.reply(session_id, request_id=request.id, answers=(("blue",),))
        assert (await client.sessions.outcome(session_id)).type == "completed"
    assert "blue" in json.dumps(asked(provider)[-1]["messages"][-1])


# -- killed ------------------------------------------------------------------------------------------------------------


async def test_queued_input_waits_behind_the_decision_about_a_broken_turn(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-253, SES-254: with the policy `ask` a broken turn is listed with what may be done; a queued prompt is not
    answered in its place; `run` goes on with it and says how it ended; then the queue follows."""
    holdfast.use_provider(provider.url, settings={"recovery": "ask"})
    in_turn(provider, provider.stall, Provider.answer)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="first"))
        await asyncio.to_thread(provider.asked.acquire)
        await until(lambda: answers(client, session_id))
        await client.sessions.prompt(session_id, prompt=PromptInput(text="second"), delivery="queue")
    end(server, signal.SIGKILL)
    server = serve()
    async with client_of(server, holdfast) as client:
        (left,) = await client.sessions.interrupted()
        assert (left.session_id, left.stage, left.safe) == (session_id, "answering", True)
        assert left.decision
        assert "recover" in left.next
        assert [wait.kind for wait in await client.sessions.waits(session_id)] == ["recovery"]
        assert len(await client.sessions.pending(session_id)) == 1
        assert (await client.sessions.outcome(session_id)).type == "unfinished"
        assert len(asked(provider)) == 1
        assert (await client.sessions.run(session_id)).type == "completed"
        assert await client.sessions.pending(session_id) == []
    spoken = [json.dumps(body["messages"]) for body in asked(provider)]
    assert ["second" in text for text in spoken] == [False, False, True]
    assert "recover" in end(server, signal.SIGTERM)


async def test_a_safe_broken_turn_goes_on_before_queued_input(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-139, SES-254: with `recovery: continue` a turn of which nothing was received is sent again; the queued prompt
    follows it."""
    holdfast.use_provider(provider.url, settings={"recovery": "continue", "titles": False})
    in_turn(provider, provider.hang, Provider.answer)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="first"))
        await asyncio.to_thread(provider.asked.acquire)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="second"), delivery="queue")
    end(server, signal.SIGKILL)
    async with client_of(serve(), holdfast) as client:

        async def everything_taken() -> bool:
            return await client.sessions.pending(session_id) == []

        await until(everything_taken)
        await client.sessions.wait(session_id)
    spoken = [json.dumps(body["messages"]) for body in asked(provider)]
    assert ["second" in text for text in spoken] == [False, False, True]


@pytest.mark.parametrize("host", HOSTS)
async def test_a_safe_broken_turn_is_sent_again_by_any_host(
    holdfast: Machine, serve: Serve, provider: Provider, host: str
) -> None:
    """SES-139: with `recovery: continue`, by the next server and by a host in another program."""
    holdfast.use_provider(provider.url, settings={"recovery": "continue", "titles": False})
    in_turn(provider, provider.hang, Provider.answer)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="first"))
        await asyncio.to_thread(provider.asked.acquire)
    end(server, signal.SIGKILL)
    async with next_host(host, holdfast, serve) as client:
        await until_answered(client, session_id)


@pytest.mark.parametrize("at", ["the first turn", "a later turn"])
@pytest.mark.parametrize("host", HOSTS)
async def test_work_that_was_never_sent_continues_by_itself(
    holdfast: Machine, serve: Serve, provider: Provider, host: str, at: str
) -> None:
    """SES-253: killed while older history was summarised, for a prompt or between two turns of tools: the next server,
    or a host in another program, goes on without being asked, and the prompt is answered."""
    limits = {"m": {"limit": {"context": 30_000, "output": 1_000}}}
    holdfast.use_provider(provider.url, models=limits)
    large = "\n".join("word " * 12 for _ in range(500))
    (holdfast.project / "large.txt").write_text(large, encoding="utf-8")
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        for number in range(3):
            await client.sessions.prompt(session_id, prompt=PromptInput(text=f"{number} " + "word " * 3_000))
            await client.sessions.wait(session_id)

        turn = calling("read", {"path": "large.txt"}) if at == "a later turn" else Provider.answer

        def hang_in_summary(handler: BaseHTTPRequestHandler) -> None:
            turn(handler) if provider.bodies[-1].get("tools") else provider.hang(handler)

        provider.behave = hang_in_summary
        more = 6_000 if at == "the first turn" else 1
        await client.sessions.prompt(session_id, prompt=PromptInput(text="the last " + "word " * more))

        async def compacts() -> bool:
            return "compaction" in [wait.kind for wait in await client.sessions.waits(session_id)]

        await until(compacts)
    end(server, signal.SIGKILL)
    provider.behave = Provider.answer
    async with next_host(host, holdfast, serve) as client:
        await until_answered(client, session_id)
    assert "the last" in json.dumps(asked(provider)[-1]["messages"])


@asynccontextmanager
async def next_host(kind: str, machine: Machine, serve: Serve) -> AsyncIterator[AsyncClient]:
    """Whatever opens the data of a killed server; nothing is asked of it but reading."""
    if kind == "serve":
        async with client_of(serve(), machine) as client:
            yield client
        return
    host = Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment)
    async with asgi(host).lifespan() if kind == "mounted" else host:
        await host.sessions.list()
        yield host


async def until_answered(client: AsyncClient, session_id: str) -> None:
    async def ended(seconds: float = 15.0) -> bool:
        """Whether an answer without further calls is the newest message, at the latest after so many seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            (newest,) = (await client.sessions.messages(session_id, limit=1)).items
            if isinstance(newest, AssistantMessage) and newest.finish == "stop":
                return True
            await asyncio.sleep(0.02)
        return False

    assert await ended(), await client.sessions.waits(session_id)
    assert (await client.sessions.outcome(session_id)).type == "completed"
    assert await client.sessions.waits(session_id) == []
    assert await client.sessions.interrupted() == []


@pytest.mark.parametrize("number", SIGNALS)
async def test_requests_end_with_the_callers_that_wait_for_them(
    holdfast: Machine, serve: Serve, number: signal.Signals
) -> None:
    """TOL-420, TOL-101: of a mention, a command and a shell message. Nothing was run or admitted; sent again, a person
    is asked again, and each happens once."""
    command = {"note": {"template": "!`echo x >> noted.txt`"}}
    holdfast.configure_user(model="demo/echo", permission={"bash": "ask"}, command=command)
    (holdfast.project / ".env").write_text("TOKEN=1", encoding="utf-8")

    def send(client: AsyncClient, sessions: list[str]) -> list[asyncio.Task[Any]]:
        mention = client.sessions.prompt(sessions[0], prompt=PromptInput(text="@.env"), resolve=True, id="msg_one")
        called = client.sessions.command(sessions[1], command="note", id="msg_two")
        shell = client.sessions.shell(sessions[2], command="echo x >> run.txt", id="msg_three")
        return [asyncio.ensure_future(work) for work in (mention, called, shell)]

    server = serve()
    async with client_of(server, holdfast) as client:
        sessions = [await new_session(client, holdfast) for _ in range(3)]
        sent = send(client, sessions)
        for session_id in sessions:
            await until(partial(client.permissions.list, session_id))
        await asyncio.to_thread(end, server, number)
        assert all(isinstance(failed, Exception) for failed in await asyncio.gather(*sent, return_exceptions=True))
    async with client_of(serve(), holdfast) as client:
        for session_id in sessions:
            assert await client.permissions.list(session_id) == []
            assert await client.sessions.waits(session_id) == []
            assert await client.sessions.pending(session_id) == []
            assert await client.sessions.context(session_id) == []
        assert not {"noted.txt", "run.txt"} & {path.name for path in holdfast.project.iterdir()}
        sent = send(client, sessions)
        for session_id in sessions:
            (request,) = await until(partial(client.permissions.list, session_id))
            await client.permissions.reply(session_id, request_id=request.id, reply="once")
        await asyncio.gather(*sent)
    for name in ("noted.txt", "run.txt"):
        assert (holdfast.project / name).read_text(encoding="utf-8") == "x\n"
