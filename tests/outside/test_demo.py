"""`holdfast demo` as a newcomer meets it: what its Sessions hold, and a server that goes on with them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable

from tests.cli.conftest import PATIENCE, Machine, Ran, Server, finish

from holdfast import (
    AssistantMessage,
    AsyncClient,
    CompactionMessage,
    DurableEvent,
    Holdfast,
    ModelSwitchedMessage,
    Session,
    SessionMessage,
    ShellMessage,
    ToolPart,
    connect,
)

MAIN = "Fix the lost cent"
WAITING = {MAIN: "permission", "Show a currency": "question", "tag the release": "permission"}


def test_the_demo_shows_every_view_and_a_server_goes_on_with_it(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """WEB-490, WEB-491, WEB-493: one run, everything in it, a second run, and the answers of a person."""
    ran = holdfast("demo")

    assert ran.code == 0, ran.err
    assert "`holdfast web` shows them" in ran.out
    assert len(ran.err.splitlines()) == 6  # what happens, while it happens
    asyncio.run(examine(holdfast))
    again = holdfast("demo")
    assert (again.code, again.err) == (0, "")
    assert "are there already" in again.out
    interrupted = interrupt(holdfast, "demo", "--again")
    assert interrupted.code == 130
    assert {path.name for path in holdfast.data.glob("holdfast-demo*")} == {"holdfast-demo"}
    assert len(asyncio.run(titles(holdfast))) == 8
    server = serve("--no-auth")
    asyncio.run(asyncio.wait_for(answer_everything(server.url), PATIENCE))
    assert "Fixed: shares add up" in (holdfast.data / "holdfast-demo" / "CHANGELOG.md").read_text(encoding="utf-8")


async def examine(machine: Machine) -> None:
    async with machine.host(recover=False) as hf:
        found = await sessions_by_title(hf)
        await examine_main(hf, found[MAIN])
        child = found["look for lost cents"]
        assert (child.parent_id, child.agent) == (found[MAIN].id, "explore")
        assert found["With fractions?"].fork is not None
        assert found["Amounts as Decimal"].revert is not None
        outcome = await hf.sessions.outcome(found["Write a longer README"].id)
        assert outcome.type == "unfinished"
        for title, kind in WAITING.items():
            assert [wait.kind for wait in await hf.sessions.waits(found[title].id)] == [kind]
        assert await hf.verify() == []


async def examine_main(hf: Holdfast, session: Session) -> None:
    messages = await all_messages(hf, session)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    calls = [part for answer in answers for part in answer.content if isinstance(part, ToolPart)]
    assert {call.name for call in calls} == {"todowrite", "read", "grep", "bash", "question", "edit", "subagent"}
    assert [answer.error is not None for answer in answers].count(True) == 1  # broken off by the crash
    assert any(answer.tokens and answer.tokens.cache.read for answer in answers)
    assert session.cost > 0
    for kind in (CompactionMessage, ModelSwitchedMessage, ShellMessage):
        assert any(isinstance(message, kind) for message in messages)
    events = [event.type async for event in all_events(hf, session)]
    assert {"session.next.retried", "session.next.context.updated"} <= set(events)


async def answer_everything(url: str) -> None:
    """As a person does on the page: the Sessions go on to their end, offline."""
    async with connect(url) as client:
        found = await sessions_by_title(client)
        for title in WAITING:
            for permission in await client.permissions.list(found[title].id):
                await client.permissions.reply(found[title].id, request_id=permission.id, reply="once")
            for question in await client.questions.list(found[title].id):
                await client.questions.reply(found[title].id, request_id=question.id, answers=[["No"]])
        await client.sessions.recover(found["Write a longer README"].id, decision="continue")
        for title in (*WAITING, "Release 1.1", "Write a longer README"):
            await client.sessions.wait(found[title].id)
            assert (await client.sessions.outcome(found[title].id)).type == "completed", title


async def sessions_by_title(client: AsyncClient) -> dict[str, Session]:
    return {session.title: session for session in (await client.sessions.list(limit=100)).items}


async def all_messages(client: AsyncClient, session: Session) -> list[SessionMessage]:
    return list((await client.sessions.messages(session.id, limit=200, order="asc")).items)


async def all_events(client: AsyncClient, session: Session) -> AsyncIterator[DurableEvent]:
    after: int | None = None
    more = True
    while more:
        page = await client.sessions.history(session.id, limit=100, after=after)
        for event in page.events:
            after = event.durable.seq
            yield event
        more = page.has_more


def test_an_interrupted_demo_leaves_nothing(holdfast: Machine) -> None:
    """WEB-492: neither Sessions nor files, and an exit code that says so."""
    ran = interrupt(holdfast, "demo")

    assert ran.code == 130
    assert "what the demo had made is removed" in ran.err
    assert asyncio.run(titles(holdfast)) == []
    assert not (holdfast.data / "holdfast-demo").exists()


def interrupt(machine: Machine, *arguments: str) -> Ran:
    """Ctrl-C when the story has begun."""
    process = machine.start(*arguments)
    assert process.stderr is not None
    assert "a bug is fixed" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    return finish(process)


def test_a_directory_with_files_is_left_alone(holdfast: Machine) -> None:
    """WEB-494: one line says why, and what to do."""
    ran = holdfast("demo", "--directory", str(holdfast.project))

    assert (ran.code, ran.out) == (1, "")
    assert ran.complaint == f"holdfast: {holdfast.project} is not empty; choose another --directory"
    assert [path.name for path in holdfast.project.iterdir()] == ["hello.txt"]


async def titles(machine: Machine) -> list[str]:
    async with machine.host(recover=False) as hf:
        return list(await sessions_by_title(hf))
