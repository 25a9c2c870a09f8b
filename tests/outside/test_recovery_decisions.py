"""What is decided after a process died, seen by those who use the API and the command line."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, Provider, Server
from tests.outside.test_left_behind import (
    answers,
    asked,
    calling,
    client_of,
    end,
    in_turn,
    new_session,
    parts,
    until,
    waiting_for_a_person,
)
from tests.prove.going_on import kill_one_of_two

from holdfast import ApiError, AsyncClient, Holdfast, Location, PromptInput, connect
from holdfast.schema.session_message import ToolCompleted, ToolError

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]
SIGNALS = [signal.SIGTERM, signal.SIGKILL]
COMMAND = "echo once >> ran.txt; sleep 60"


async def broken(
    machine: Machine, serve: Serve, provider: Provider, policy: str | None = None, *, delivery: str | None = None
) -> str:
    """A Session whose server was killed in the middle of an answer, with another prompt pending, if any."""
    machine.use_provider(provider.url, settings={"titles": False, **({"recovery": policy} if policy else {})})
    in_turn(provider, provider.stall, Provider.answer)
    server = serve()
    async with client_of(server, machine) as client:
        session_id = await new_session(client, machine)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="first"))
        await asyncio.to_thread(provider.asked.acquire)
        await until(lambda: answers(client, session_id))
        if delivery is not None:
            await client.sessions.prompt(session_id, prompt=PromptInput(text="second"), delivery=delivery)  # type: ignore[arg-type]
    end(server, signal.SIGKILL)
    return session_id


async def running_command(machine: Machine, serve: Serve, provider: Provider, policy: str | None = None) -> str:
    """A Session whose server was killed while its command ran."""
    machine.use_provider(provider.url, settings={"titles": False, **({"recovery": policy} if policy else {})})
    in_turn(provider, calling("bash", {"command": COMMAND, "description": "d"}), Provider.answer)
    server = serve()
    async with client_of(server, machine) as client:
        session_id = await new_session(client, machine)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="run it"))

        async def ran() -> bool:
            return (machine.project / "ran.txt").exists()

        await until(ran)
    end(server, signal.SIGKILL)
    return session_id


async def test_an_answer_that_was_cut_off_is_asked_for_again_by_default(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-139, SES-450: nobody is asked, the record says why, and the half answer is not sent to the model."""
    session_id = await broken(holdfast, serve, provider)
    server = serve()
    async with client_of(server, holdfast) as client:
        assert (await client.sessions.outcome(session_id)).type == "completed"
        assert await client.sessions.interrupted() == []
        assert [answer.finish for answer in await answers(client, session_id)] == ["error", "stop"]
    assert len(asked(provider)) == 2
    assert "so far" not in json.dumps(asked(provider)[-1])
    assert "it is continued (holdfast.recovery: safe)" in end(server, signal.SIGTERM)


@pytest.mark.parametrize("policy", [None, "ask"])
async def test_the_card_names_the_command_whose_outcome_is_unknown(
    holdfast: Machine, serve: Serve, provider: Provider, policy: str | None
) -> None:
    """SES-451: in the list of unfinished work, in the waits and in what only a person can decide."""
    session_id = await running_command(holdfast, serve, provider, policy)
    async with client_of(serve(), holdfast) as client:
        (left,) = await client.sessions.interrupted()
        assert (left.decision, left.safe) == (True, False)
        assert [(call.tool, call.command) for call in left.calls] == [("bash", COMMAND)]
        assert COMMAND in left.what
        (wait,) = await client.sessions.waits(session_id)
        assert (wait.kind, [call.command for call in wait.calls]) == ("recovery", [COMMAND])
        assert COMMAND in wait.what
        (request,) = [one for one in await client.sessions.open_requests() if one.kind == "recovery"]
        assert request.activity is not None
        assert [call.command for call in request.activity.calls] == [COMMAND]
        await client.sessions.recover(session_id, decision="continue")
        assert (await client.sessions.outcome(session_id)).type == "completed"
    assert (holdfast.project / "ran.txt").read_text(encoding="utf-8") == "once\n"
    assert "interrupted" in json.dumps(asked(provider)[-1]["messages"][-1])


async def test_always_tells_the_model_that_a_call_was_interrupted(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-452: nobody is asked, and the command is not run again."""
    session_id = await running_command(holdfast, serve, provider, "always")
    async with client_of(serve(), holdfast) as client:
        assert (await client.sessions.outcome(session_id)).type == "completed"
        (part,) = parts((await answers(client, session_id))[0])
        assert isinstance(part.state, ToolError)
        assert part.state.error.message == "Tool execution interrupted"
    assert (holdfast.project / "ran.txt").read_text(encoding="utf-8") == "once\n"
    assert "interrupted" in json.dumps(asked(provider)[-1]["messages"][-1])


# -- reading starts nothing --------------------------------------------------------------------------------------------


async def test_a_reader_makes_nothing_run(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """SES-454, API-436: with a steer pending behind a decision, a token of role `read` may wait and read as long as it
    likes."""
    session_id = await broken(holdfast, serve, provider, "ask", delivery="steer")
    token = holdfast("token", "create", "reader", "--role", "read").out.split()[-1]
    server = serve()
    async with connect(server.url, password=token, environment=holdfast.environment) as client:
        for _ in range(2):
            await client.sessions.wait(session_id)
            assert (await client.sessions.outcome(session_id)).type == "unfinished"
        await client.sessions.context(session_id)
        assert [wait.kind for wait in await client.sessions.waits(session_id)] == ["recovery"]
    assert len(asked(provider)) == 1


async def test_a_queued_prompt_does_not_decide_for_a_steer_that_was_pending(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-254: only a steer that came after the death goes on with what was left."""
    session_id = await broken(holdfast, serve, provider, "ask", delivery="steer")
    async with client_of(serve(), holdfast) as client:
        await until(client.sessions.interrupted)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="third"), delivery="queue")
        assert (await client.sessions.outcome(session_id)).type == "unfinished"
        assert len(asked(provider)) == 1
        await client.sessions.prompt(session_id, prompt=PromptInput(text="fourth"))
        assert (await client.sessions.outcome(session_id)).type == "completed"
        assert await client.sessions.pending(session_id) == []


# -- answers after a restart -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("pending", ["steer", "queue", "synthetic"])
async def test_an_answer_after_a_restart_is_carried_out_whatever_is_pending(
    holdfast: Machine, serve: Serve, provider: Provider, number: signal.Signals, pending: str
) -> None:
    """TOL-101: the waiting call runs once, and the pending input is promoted at the next boundary."""
    holdfast.use_provider(provider.url)
    config = holdfast.home / "config" / "opencode" / "opencode.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**document, "permission": {"bash": "ask"}}), encoding="utf-8")
    in_turn(provider, calling("bash", {"command": "echo once >> ran.txt", "description": "d"}), Provider.answer)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="run it"))
        await until(lambda: client.permissions.list(session_id))
        await admit(client, session_id, pending)
    end(server, number)
    async with client_of(serve(), holdfast) as client:
        (request,) = await client.permissions.list(session_id)
        await client.sessions.wait(session_id)
        await client.permissions.reply(session_id, request_id=request.id, reply="once")
        assert (await client.sessions.outcome(session_id)).type == "completed"
        (part,) = parts((await answers(client, session_id))[0])
        assert isinstance(part.state, ToolCompleted)
        assert await client.sessions.pending(session_id) == []
    assert (holdfast.project / "ran.txt").read_text(encoding="utf-8") == "once\n"
    assert "also this" in json.dumps(asked(provider)[-1]["messages"])


async def admit(client: AsyncClient, session_id: str, kind: str) -> None:
    if kind == "synthetic":
        await client.sessions.synthetic(session_id, text="also this")
    else:
        await client.sessions.prompt(session_id, prompt=PromptInput(text="also this"), delivery=kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("way", ["interrupt", "move"])
async def test_what_waits_for_a_person_is_declined_after_a_restart(
    holdfast: Machine, serve: Serve, provider: Provider, number: signal.Signals, way: str
) -> None:
    """TOL-100, SES-455: by interrupting and by moving the Session; a late answer finds nothing, and the command never
    runs, in no directory."""
    session_id = await waiting_for_a_person(holdfast, serve, provider, number)
    other = holdfast.project / "other"
    other.mkdir()
    async with client_of(serve(), holdfast) as client:
        (request,) = await client.permissions.list(session_id)
        for _ in range(2):  # it may be repeated
            if way == "interrupt":
                await client.sessions.interrupt(session_id)
            else:
                await client.sessions.move(session_id, directory=str(other))
        assert await client.permissions.list(session_id) == []
        assert await client.sessions.waits(session_id) == []
        with pytest.raises(ApiError) as refused:
            await client.permissions.reply(session_id, request_id=request.id, reply="once")
        assert refused.value.status == 404
        assert (await client.sessions.outcome(session_id)).type == "interrupted"
        (part,) = parts((await answers(client, session_id))[0])
        assert isinstance(part.state, ToolError)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="go on"))
        assert (await client.sessions.outcome(session_id)).type == "completed"
    assert not (holdfast.project / "ran.txt").exists()
    assert not (other / "ran.txt").exists()
    assert await asyncio.to_thread(holdfast.healthy)


# -- abandoning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", ["steer", "queue"])
async def test_what_is_pending_follows_when_the_turn_is_abandoned(
    holdfast: Machine, serve: Serve, provider: Provider, delivery: str
) -> None:
    """SES-254: over HTTP."""
    session_id = await broken(holdfast, serve, provider, "ask", delivery=delivery)
    async with client_of(serve(), holdfast) as client:
        await until(client.sessions.interrupted)
        await client.sessions.recover(session_id, decision="abandon")
        assert (await client.sessions.outcome(session_id)).type == "completed"
        assert await client.sessions.pending(session_id) == []
    assert "second" in json.dumps(asked(provider)[-1]["messages"])


@pytest.mark.parametrize("delivery", ["steer", "queue"])
async def test_what_is_pending_follows_when_a_command_abandons_the_turn(
    holdfast: Machine, serve: Serve, provider: Provider, delivery: str
) -> None:
    """SES-254: the command shows the answer, as with `--continue`."""
    session_id = await broken(holdfast, serve, provider, "ask", delivery=delivery)
    ran = await asyncio.to_thread(holdfast, "sessions", "recover", session_id, "--abandon")
    assert ran.code == 0, ran.err
    assert "second" in json.dumps(asked(provider)[-1]["messages"])
    assert len(asked(provider)) == 2


# -- one-shot commands -------------------------------------------------------------------------------------------------


async def test_a_command_touches_no_session_but_its_own(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """SES-453: another Session has unfinished work that a server would continue, and pending input; a command for a new
    Session, and commands that list, leave all of it as it is."""
    session_id = await broken(holdfast, serve, provider, delivery="queue")
    in_turn(provider, Provider.answer)
    for arguments in (("run", "--quiet", "hello"), ("sessions",), ("sessions", "--interrupted")):
        ran = await asyncio.to_thread(holdfast, *arguments)
        assert ran.code == 0, ran.err
    assert len(asked(provider)) == 2
    async with holdfast.host(recover=False) as hf:
        (left,) = await hf.sessions.interrupted()
        assert (left.session_id, left.decision) == (session_id, False)
        assert len(await hf.sessions.pending(session_id)) == 1


async def test_answers_of_a_killed_node_go_on_and_its_commands_are_not_repeated(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-139, SES-453: the other node takes over by itself; `make prove` does it with sixty answers."""
    assert await kill_one_of_two(holdfast, serve, provider, answers=6, commands=4) < 10


async def test_a_host_in_a_program_decides_about_its_own_directories(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-453: its own one and those that it uses. What was left elsewhere stays for others."""
    session_id = await broken(holdfast, serve, provider)
    other = holdfast.home / "other"
    other.mkdir()
    async with Holdfast(other, data=holdfast.data, environment=holdfast.environment) as hf, asyncio.timeout(30):
        await hf.sessions.list()
        await asyncio.sleep(1.2)  # it looks twice a second
        assert [left.session_id for left in await hf.sessions.interrupted()] == [session_id]
        assert len(asked(provider)) == 1
        same = await hf.sessions.create(location=Location(directory=str(holdfast.project)))
        await hf.run("hello", session=same.id)

        async def continued() -> bool:
            return len(asked(provider)) == 3

        await until(continued)
        assert (await hf.sessions.outcome(session_id)).type == "completed"
