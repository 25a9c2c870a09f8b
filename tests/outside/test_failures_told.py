"""No failure is silent: whoever waits hears how it ended, whoever looks finds the cause, and mending it is enough."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler

import pytest
from tests.cli.conftest import Machine, Provider, Server, finish
from tests.outside.test_left_behind import answers, asked, calling, client_of, in_turn, new_session, until

from holdfast import (
    ActivityFailed,
    ApiError,
    AsyncClient,
    Holdfast,
    HoldfastSync,
    Location,
    ModelRef,
    Options,
    PromptInput,
    check_outcome,
)

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]
NOWHERE = ModelRef(id="none", provider_id="mock")
HERE = ModelRef(id="m", provider_id="mock")
UNCHECKED = Options(headers={"x-holdfast-checked": "0"})
"""As a client that knows only the contract."""


async def test_blocked_input_is_told_with_its_cause_and_starts_when_it_is_mended(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-255, SES-256: a model that does not exist: the input stays pending, the wait has its cause and the outcome
    says it; choosing another model is all that is needed."""
    holdfast.use_provider(provider.url)
    async with blocked(holdfast, serve()) as (client, session_id):
        waits = await client.sessions.waits(session_id)
        assert [wait.kind for wait in waits] == ["blocked"]
        assert "none" in waits[0].what
        assert asked(provider) == []
        outcome = await client.sessions.outcome(session_id)
        assert (outcome.type, outcome.pending) == ("blocked", 1)
        assert outcome.error is not None
        assert outcome.error in waits[0].what

        await client.sessions.switch_model(session_id, model=HERE)
        assert check_outcome(await client.sessions.outcome(session_id)).pending == 0
        assert await client.sessions.waits(session_id) == []


async def test_choosing_another_model_starts_the_waiting_prompt(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-256."""
    holdfast.use_provider(provider.url)
    async with blocked(holdfast, serve()) as (client, session_id):
        await client.sessions.switch_model(session_id, model=HERE)
        await client.sessions.wait(session_id)
        assert [answer.error for answer in await answers(client, session_id)] == [None]
        assert await client.sessions.pending(session_id) == []


async def test_the_server_s_log_names_what_keeps_input_from_starting(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-255: in one line, with the Session and the cause."""
    holdfast.use_provider(provider.url)
    server = serve()
    async with blocked(holdfast, server) as (_, session_id):
        pass
    server.process.send_signal(signal.SIGTERM)
    lines = [line for line in finish(server.process).err.splitlines() if session_id in line]
    assert [" warning holdfast." in line and "none" in line for line in lines] == [True], lines


@asynccontextmanager
async def blocked(machine: Machine, server: Server) -> AsyncIterator[tuple[AsyncClient, str]]:
    """A Session with a prompt whose model does not exist, once the server has tried."""
    async with client_of(server, machine) as client:
        where = Location(directory=str(machine.project))
        session_id = (await client.sessions.create(location=where, model=NOWHERE, options=UNCHECKED)).id
        await client.sessions.prompt(session_id, prompt=PromptInput(text="hello"))
        await client.sessions.wait(session_id)
        yield client, session_id


async def test_an_agent_that_does_not_exist_is_told_in_the_same_way(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-255, SES-256: also after a restart, which tries again and says it again."""
    holdfast.use_provider(provider.url)
    server = serve()
    async with client_of(server, holdfast) as client:
        where = Location(directory=str(holdfast.project))
        session_id = (await client.sessions.create(location=where, agent="nobody", options=UNCHECKED)).id
        await client.sessions.prompt(session_id, prompt=PromptInput(text="hello"))
        assert (await client.sessions.outcome(session_id)).type == "blocked"
    server.process.kill()
    finish(server.process)
    async with client_of(serve(), holdfast) as client:
        assert (await client.sessions.outcome(session_id)).type == "blocked"
        assert [wait.kind for wait in await client.sessions.waits(session_id)] == ["blocked"]
        await client.sessions.switch_agent(session_id, agent="build")
        assert (await client.sessions.outcome(session_id)).type == "completed"


async def test_a_failure_after_promotion_is_a_failed_step_and_the_next_prompt_works(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-257: the cap on turns: the cause is part of the conversation, and nothing is left open."""
    holdfast.use_provider(provider.url)
    config = holdfast.home / "config" / "opencode" / "opencode.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**document, "holdfast": {"turns": 1}}), encoding="utf-8")
    in_turn(provider, calling("read", {"filePath": "hello.txt"}), Provider.answer)
    async with client_of(serve(), holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="read it"))
        await client.sessions.wait(session_id)
        newest = (await answers(client, session_id))[-1]
        assert newest.error is not None
        outcome = await client.sessions.outcome(session_id)
        assert outcome.type == "failed"
        assert newest.error.message == outcome.error
        assert newest.id == outcome.message_id
        assert await client.sessions.interrupted() == []
        await client.sessions.prompt(session_id, prompt=PromptInput(text="go on"))
        assert (await client.sessions.outcome(session_id)).type == "completed"


async def test_the_outcome_of_an_activity_is_told_to_those_who_wait(holdfast: Machine, provider: Provider) -> None:
    """SES-258: completed, failed by the provider, interrupted; in Python a failure can be raised."""
    holdfast.use_provider(provider.url)
    machine = holdfast
    async with Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment) as host:
        session = await host.sessions.create()
        assert (await host.sessions.outcome(session.id)).type == "idle"
        await host.sessions.prompt(session.id, prompt=PromptInput(text="hello"))
        assert (await host.sessions.outcome(session.id)).type == "completed"

        def refuse(handler: BaseHTTPRequestHandler) -> None:
            Provider.head(handler, 400, "application/json")
            handler.wfile.write(b'{"error": {"message": "no such thing"}}')

        provider.behave = refuse
        await host.sessions.prompt(session.id, prompt=PromptInput(text="again"))
        with pytest.raises(ActivityFailed, match="no such thing") as failed:
            check_outcome(await host.sessions.outcome(session.id))
        assert failed.value.outcome.type == "failed"

        provider.behave = provider.stall
        await host.sessions.prompt(session.id, prompt=PromptInput(text="and again"))
        await until(lambda: host.sessions.waits(session.id))
        waiting = asyncio.create_task(host.sessions.outcome(session.id))
        await host.sessions.interrupt(session.id)
        assert (await waiting).type == "interrupted"
        provider.behave = Provider.answer
        assert (await host.sessions.run(session.id)).type == "completed"


def test_a_script_hears_it_too(holdfast: Machine, provider: Provider) -> None:
    """SES-258: the synchronous client, and what `run` gives when nothing can be sent."""
    holdfast.use_provider(provider.url)
    machine = holdfast
    with HoldfastSync(machine.project, data=machine.data, environment=machine.environment) as host:
        session = host.sessions.create(model=NOWHERE, options=UNCHECKED)
        outcome = host.sessions.run(session.id)
        assert (outcome.type, outcome.pending) == ("failed", 0)
        with pytest.raises(ActivityFailed, match="none"):
            check_outcome(outcome)


async def test_a_session_with_an_unknown_agent_model_or_directory_is_refused(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-259: by the clients, by the host, and by the command line; nothing is left of it."""
    holdfast.use_provider(provider.url)
    machine = holdfast
    async with Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment) as host:
        for wrong in ({"agent": "nobody"}, {"model": NOWHERE}, {"location": Location(directory="/no/such/place")}):
            with pytest.raises(ApiError) as refused:
                await host.sessions.create(**wrong)
            assert refused.value.status == 400
            assert next(iter(wrong)) == refused.value.body["field"]
        assert (await host.sessions.list()).items == []
    for option, wrong_ in (("--agent", "nobody"), ("--model", "mock/none")):
        ran = await asyncio.to_thread(holdfast, "run", option, wrong_, "hello")
        assert ran.code == 1
        assert wrong_ in ran.complaint
    assert asked(provider) == []
