"""Two servers on one database: one ends in the middle of its work, the other goes on with it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider, Server
from tests.outside.test_left_behind import (
    Behaviour,
    answers,
    asked,
    calling,
    client_of,
    end,
    in_turn,
    new_session,
    until,
)

from holdfast import AsyncClient, PromptInput

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]
TAKEN_OVER_SECONDS = 5.0
"""Generous: on an idle machine it takes half a second."""


async def until_asked(provider: Provider) -> None:
    assert await asyncio.to_thread(provider.asked.acquire, timeout=30)


async def test_a_running_server_takes_over_from_one_that_was_killed(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-100, STO-102, STO-103: the client of the other server sees the answer; the provider was asked once more."""
    holdfast.use_provider(provider.url, settings={"recovery": "continue"})
    in_turn(provider, provider.hang, Provider.answer)
    first, second = serve(), serve()
    async with client_of(first, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        await until_asked(provider)
    async with client_of(second, holdfast) as client:
        assert session_id in await client.sessions.active()
        end(first, signal.SIGKILL)
        async with asyncio.timeout(TAKEN_OVER_SECONDS):
            await until_asked(provider)
        assert (await client.sessions.outcome(session_id)).type == "completed"
        assert [answer.finish for answer in await answers(client, session_id)] == ["stop"]
    assert len(asked(provider)) == 2


async def test_a_running_server_goes_on_after_an_orderly_end(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-102: what a shutdown cut short is continued at once, not at the next start."""
    holdfast.use_provider(provider.url)
    in_turn(provider, provider.stall, Provider.answer)
    first, second = serve(), serve()
    async with client_of(first, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        await until_asked(provider)
    end(first, signal.SIGTERM)
    async with asyncio.timeout(TAKEN_OVER_SECONDS):
        await until_asked(provider)
    async with client_of(second, holdfast) as client:
        assert (await client.sessions.outcome(session_id)).type == "completed"
        assert [answer.finish for answer in await answers(client, session_id)] == ["error", "stop"]


async def test_a_server_without_recovery_leaves_the_work_alone(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-102"""
    holdfast.use_provider(provider.url)
    in_turn(provider, provider.stall, Provider.answer)
    first, second = serve(), serve("--no-recovery")
    async with client_of(first, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        await until_asked(provider)
    end(first, signal.SIGTERM)
    async with client_of(second, holdfast) as client:
        (left,) = await until(client.sessions.interrupted)
        assert left.session_id == session_id
        await asyncio.sleep(1.0)
    assert len(asked(provider)) == 1


def released(provider: Provider, then: Behaviour) -> Behaviour:
    """Behaves so when the test lets it."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        assert provider.released.wait(30)
        then(handler)

    return behave


async def test_a_server_that_drains_breaks_no_request_off(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """STO-108: after SIGTERM the turn comes to its end, the server ends, and the other one takes the next turn."""
    holdfast.use_provider(provider.url)
    in_turn(provider, released(provider, calling("todowrite", {"todos": []})), Provider.answer)
    first, second = serve("--drain", "30"), serve()
    async with client_of(first, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        await until_asked(provider)
        first.process.send_signal(signal.SIGTERM)
        assert session_id in await client.sessions.active()  # it still answers
        provider.released.set()
    assert await asyncio.to_thread(first.process.wait, 30) == 0
    await until_asked(provider)
    async with client_of(second, holdfast) as client:
        assert (await client.sessions.outcome(session_id)).type == "completed"
        assert [answer.finish for answer in await answers(client, session_id)] == ["tool-calls", "stop"]
    assert len(asked(provider)) == 2


async def test_no_turn_fails_while_a_server_drains(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """STO-108: several Sessions are handed over. Followers at the other server see each turn end once, without an
    error, and what is admitted meanwhile is answered too."""
    holdfast.use_provider(provider.url)
    sessions = 4

    def behave(handler: BaseHTTPRequestHandler) -> None:
        assert provider.released.wait(30)
        body: dict[str, Any] = handler.body  # type: ignore[attr-defined]
        if any(message["role"] == "tool" for message in body["messages"]) or not body.get("tools"):
            Provider.answer(handler)
        else:
            calling("todowrite", {"todos": []})(handler)

    provider.behave = behave
    first, second = serve("--drain", "30"), serve()
    async with client_of(first, holdfast) as client, client_of(second, holdfast) as other:
        ids = [await new_session(client, holdfast) for _ in range(sessions)]
        for session_id in ids:
            await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        for _ in ids:
            await until_asked(provider)
        followers = [asyncio.create_task(_kinds(other, session_id)) for session_id in ids]
        first.process.send_signal(signal.SIGTERM)
        late = await new_session(client, holdfast)  # still answered, and begun elsewhere
        await client.sessions.prompt(late, prompt=PromptInput(text="and this?"))
        provider.released.set()
        assert await asyncio.to_thread(first.process.wait, 30) == 0
        for kinds in await asyncio.gather(*followers):
            assert kinds.count("session.next.step.ended") == 2
            assert not [kind for kind in kinds if "failed" in kind or "error" in kind]
        for session_id in (*ids, late):
            assert (await other.sessions.outcome(session_id)).type == "completed"
            assert [answer.finish for answer in await answers(other, session_id)] == ["tool-calls", "stop"]
    assert len(asked(provider)) == 2 * (sessions + 1)


async def _kinds(client: AsyncClient, session_id: str) -> list[str]:
    """The types of all events until the second step has ended."""
    kinds: list[str] = []
    async with aclosing(aiter(client.sessions.events(session_id))) as events:
        async for event in events:
            kinds.append(event.type)
            if kinds.count("session.next.step.ended") == 2:
                break
    return kinds


async def test_a_drain_that_takes_too_long_ends_as_without_it(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-108: after the given seconds the turn is stopped, and the other server asks again."""
    holdfast.use_provider(provider.url)
    in_turn(provider, provider.hang, Provider.answer)
    first, second = serve("--drain", "0.2"), serve()
    async with client_of(second, holdfast) as other:
        async with client_of(first, holdfast) as client:
            session_id = await new_session(client, holdfast)
            await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
            await until_asked(provider)
            first.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(first.process.wait, 30) == 0
        await until_asked(provider)
        assert (await other.sessions.outcome(session_id)).type == "completed"


async def test_sessions_beyond_the_limit_go_to_another_server(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-107: the first server executes one at a time, and two are worked on at once."""
    holdfast.use_provider(provider.url)
    in_turn(provider, released(provider, Provider.answer))
    first, second = serve("--most-sessions", "1"), serve()
    async with client_of(first, holdfast) as client, client_of(second, holdfast):
        sessions = [await new_session(client, holdfast) for _ in range(2)]
        for session_id in sessions:
            await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        await until_asked(provider)
        await until_asked(provider)
        assert set(sessions) <= set(await client.sessions.active())
        provider.released.set()
        for session_id in sessions:
            assert (await client.sessions.outcome(session_id)).type == "completed"


async def test_a_directory_that_no_server_serves_is_waited_for(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-109: visibly, until a server that serves it starts."""
    holdfast.use_provider(provider.url)
    in_turn(provider, Provider.answer)
    first = serve("--root", str(holdfast.home / "elsewhere"))
    async with client_of(first, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        (wait,) = await until(lambda: client.sessions.waits(session_id))
        assert wait.kind == "blocked"
        assert "No running node serves" in wait.what
        assert asked(provider) == []
        serve("--root", str(holdfast.project))
        await until_asked(provider)
        assert (await client.sessions.outcome(session_id)).type == "completed"


async def test_work_of_a_server_that_is_gone_names_the_directory_that_is_missing(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-216: the only server for a directory is killed; another one tells what is waited for, until one comes."""
    holdfast.use_provider(provider.url, settings={"recovery": "continue"})
    in_turn(provider, provider.hang, Provider.answer)
    elsewhere = str(holdfast.home / "elsewhere")
    first, second = serve("--root", str(holdfast.project)), serve("--root", elsewhere, "--node-name", "right")
    async with client_of(second, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        await until_asked(provider)
        end(first, signal.SIGKILL)

        async def blocked() -> list[str]:
            return [wait.what for wait in await client.sessions.waits(session_id) if wait.kind == "blocked"]

        (what,) = await until(blocked)
        assert f"No running node serves {holdfast.project}. They serve: right {elsewhere}." in what
        serve("--root", str(holdfast.project))
        await until_asked(provider)
        assert (await client.sessions.outcome(session_id)).type == "completed"
        assert await blocked() == []


async def test_the_configuration_says_which_directories_a_server_serves(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-215: as `--root` does, which replaces it; what cannot be used ends the start."""
    elsewhere = str(holdfast.home / "elsewhere")
    holdfast.use_provider(provider.url, settings={"storage": {"roots": [elsewhere], "name": "configured"}})
    first = serve()
    async with client_of(first, holdfast) as client:
        session_id = await new_session(client, holdfast)
        await client.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        (wait,) = await until(lambda: client.sessions.waits(session_id))
        assert f"They serve: configured {elsewhere}." in wait.what
        serve("--root", str(holdfast.project))
        await until_asked(provider)
        assert (await client.sessions.outcome(session_id)).type == "completed"
    unusable: tuple[dict[str, object], ...] = (
        {"roots": []},
        {"roots": ["here"]},
        {"address": "10.0.0.5"},
        {"name": " "},
        {"roots": "x"},
    )
    for wrong in unusable:
        holdfast.use_provider(provider.url, settings={"storage": wrong})
        ran = holdfast("serve", "--port", "0")
        assert ran.code == 1
        assert f"opencode.json: holdfast.storage.{next(iter(wrong))} cannot be used" in ran.complaint
