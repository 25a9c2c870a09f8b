"""How often a server goes on by itself with what another one left, and when it leaves the decision to a person."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, Provider, Server
from tests.outside.test_left_behind import (
    asked,
    client_of,
    end,
    in_turn,
    new_session,
    until_answered,
    waiting_for_a_person,
)

from holdfast import ApiError, AsyncClient, PromptInput

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]
TRIES = 3


async def one_request(provider: Provider) -> None:
    assert await asyncio.to_thread(provider.asked.acquire, timeout=30)


async def test_work_that_ends_its_process_is_left_to_a_person_after_three_tries(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-260: also where the policy is to continue. A person's word starts the count anew."""
    holdfast.use_provider(provider.url, settings={"recovery": "continue", "retry": {"total_seconds": 0}})
    in_turn(provider, provider.hang)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        await one_request(provider)
    end(server, signal.SIGKILL)
    for _ in range(TRIES):
        server = serve()
        await one_request(provider)
        end(server, signal.SIGKILL)
    server = serve()
    async with client_of(server, holdfast) as client:
        (left,) = await client.sessions.interrupted()
        assert f"tried {TRIES} times" in left.next
        assert await idle(client)
        assert len(asked(provider)) == 1 + TRIES
        in_turn(provider, Provider.answer)
        await client.sessions.recover(session_id, decision="continue")
        await until_answered(client, session_id)


async def test_orderly_shutdowns_do_not_use_up_the_tries(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """SES-250, SES-260: a long answer that is cut short by more shutdowns than there are tries is still asked for."""
    holdfast.use_provider(provider.url)
    in_turn(provider, provider.stall)
    server = serve()
    async with client_of(server, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        await one_request(provider)
    for _ in range(TRIES + 1):
        end(server, signal.SIGTERM)
        server = serve()
        await one_request(provider)
    end(server, signal.SIGTERM)
    in_turn(provider, Provider.answer)
    async with client_of(serve(), holdfast) as client:
        await until_answered(client, session_id)


async def test_a_session_whose_call_waits_for_a_person_is_not_compacted(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-261: compacting by hand is refused with what is unfinished, and the request stays open."""
    session_id = await waiting_for_a_person(holdfast, serve, provider, signal.SIGKILL)
    async with client_of(serve(), holdfast) as client:
        with pytest.raises(ApiError) as refused:
            await client.sessions.compact(session_id)
        assert refused.value.status == 409
        assert "waits for a person" in str(refused.value)
        (request,) = await client.permissions.list(session_id)
        await client.permissions.reply(session_id, request_id=request.id, reply="once")
        assert (await client.sessions.outcome(session_id)).type == "completed"


async def idle(client: AsyncClient) -> bool:
    return not await client.sessions.active()
