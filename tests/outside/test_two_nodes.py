"""Two hosts on one database that do things at the same moment: what either does is whole, and what both say agrees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn
from tests.outside.test_tree_streams import CONNECTED, reading
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask, events, position, text_of

from holdfast import ApiError, Budget, ForkBefore, Holdfast, PromptInput, Session
from holdfast.schema.session_message import AssistantMessage, UserMessage

pytestmark = pytest.mark.anyio

ROUNDS = 5


@pytest.fixture
async def hosts(world: World) -> AsyncIterator[tuple[Holdfast, Holdfast]]:
    async with world.host() as one, world.host(recover=False) as two:
        yield one, two
        for hf in (one, two):
            assert await hf.verify() == []


async def both(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Results or exceptions of work that begins at the same moment."""
    async with asyncio.timeout(PATIENCE):
        return list(await asyncio.gather(*work, return_exceptions=True))


async def texts(hf: Holdfast, session: Session | str) -> list[str]:
    """What the Session shows: prompts and answers."""
    id = session if isinstance(session, str) else session.id
    found = []
    for message in await hf.sessions.context(id):
        if isinstance(message, UserMessage | AssistantMessage):
            found.append(message.text if isinstance(message, UserMessage) else text_of(message))
    return found


# -- one Session -------------------------------------------------------------------------------------------------------


async def test_both_write_to_one_session(hosts: tuple[Holdfast, Holdfast]) -> None:
    """STO-002, STO-004, STO-011, STO-046: no sequence is missing or used twice, each reads what the other was told, and
    at the end the rows are those that SQLite makes of the events."""
    session = await hosts[0].sessions.create()
    await both(
        *(
            hf.sessions.prompt(session.id, prompt=PromptInput(text=f"{place} {number}"), resume=False)
            for number in range(10)
            for place, hf in enumerate(hosts)
        )
    )
    assert [position(event) for event in await events(hosts[0], session)] == list(range(1, 21))
    waiting = [[item.prompt.text for item in await hf.sessions.pending(session.id)] for hf in hosts]
    assert waiting[0] == waiting[1]
    assert sorted(waiting[0]) == sorted(f"{place} {number}" for number in range(10) for place in range(2))
    for place in range(2):  # in the order in which each was given them
        assert [text for text in waiting[0] if text.startswith(str(place))] == [f"{place} {n}" for n in range(10)]


async def test_a_session_and_a_prompt_with_one_id(hosts: tuple[Holdfast, Holdfast]) -> None:
    """STO-049: both callers get the same answer."""
    for number in range(ROUNDS):
        sessions = await both(*(hf.sessions.create(id=f"ses_same{number}") for hf in hosts))
        assert [session.id for session in sessions] == [f"ses_same{number}"] * 2
        prompt: dict[str, Any] = {"prompt": PromptInput(text="hello"), "id": f"msg_same{number}", "resume": False}
        receipts = await both(*(hf.sessions.prompt(sessions[0].id, **prompt) for hf in hosts))
        assert receipts[0] == receipts[1]
        (item,) = await hosts[0].sessions.pending(sessions[0].id)
        assert item.id == f"msg_same{number}"


async def test_what_is_refused_takes_nothing_with_it(hosts: tuple[Holdfast, Holdfast]) -> None:
    """STO-003: prompts that are admitted at the same moment, some with an id that was used for another one."""
    here, there = hosts
    session = await here.sessions.create()
    await here.sessions.prompt(session.id, prompt=PromptInput(text="used"), id="msg_used", resume=False)
    given = [(f"good {number}", None) if number % 2 else ("bad", "msg_used") for number in range(20)]
    work = [
        hf.sessions.prompt(session.id, prompt=PromptInput(text=text), id=id, resume=False)
        for text, id in given
        for hf in hosts
    ]
    results = await both(*work)
    refused = [isinstance(result, ApiError) and result.status == 409 for result in results]
    assert refused == [text == "bad" for text, _ in given for _ in hosts]
    texts = sorted(item.prompt.text for item in await there.sessions.pending(session.id))
    assert texts == sorted(["used", *(text for text, _ in given if text != "bad" for _ in hosts)])


async def test_a_prompt_is_withdrawn_while_the_other_node_begins_with_it(
    hosts: tuple[Holdfast, Holdfast], world: World
) -> None:
    """STO-082, STO-083, STO-084: it is withdrawn, or it is answered, and never both."""
    here, there = hosts
    for number in range(ROUNDS * 2):
        session = await here.sessions.create()
        text = f"prompt {number}"
        receipt = await here.sessions.prompt(session.id, prompt=PromptInput(text=text))
        for _ in range(number * 5):
            await asyncio.sleep(0)
        (withdrawn,) = await both(there.sessions.withdraw(session.id, message_id=receipt.id))
        async with asyncio.timeout(PATIENCE):
            await here.sessions.wait(session.id)
        answered = isinstance(withdrawn, ApiError)
        assert bool(await texts(there, session)) == answered
        assert any(text in str(request.messages) for request in world.model.requests) == answered


@pytest.mark.parametrize("second", ["prompt", "shell"])
async def test_one_id_in_two_sessions(hosts: tuple[Holdfast, Holdfast], second: str) -> None:
    """STO-049, STO-151: one of them has it, and the other is refused."""
    here, there = hosts
    for number in range(ROUNDS):
        one, two = await here.sessions.create(), await there.sessions.create()
        id = f"msg_same{number}"
        hello = PromptInput(text="hello")
        other: Coroutine[Any, Any, Any]
        if second == "prompt":
            other = there.sessions.prompt(two.id, prompt=hello, id=id, resume=False)
        else:
            other = there.sessions.shell(two.id, command="true", id=id)
        results = await both(here.sessions.prompt(one.id, prompt=hello, id=id, resume=False), other)
        assert len([result for result in results if isinstance(result, ApiError)]) == 1, results
        used = [
            bool(await here.sessions.pending(item.id) or await here.sessions.context(item.id)) for item in (one, two)
        ]
        assert used == [not isinstance(result, ApiError) for result in results]


@pytest.mark.parametrize(
    "text", ["a\0b", "\uf8f1 0000 \\u0000 \\ud800", "é 😀 \x1b[0m \x7f", '{"a": 1.50, "a": "\\u0000"}', "x" * 2_000_000]
)
async def test_a_text_comes_back_as_it_was(hosts: tuple[Holdfast, Holdfast], world: World, text: str) -> None:
    """STO-008, STO-044, STO-154: to whoever reads it, and to the model."""
    here, there = hosts
    session = await here.sessions.create()
    await ask(here, session, text)
    (shown, _) = await texts(there, session)
    assert shown == text
    assert world.model.last.messages[-1]["content"] == text


async def test_metadata_keeps_its_order_and_numbers(hosts: tuple[Holdfast, Holdfast]) -> None:
    """STO-045."""
    here, there = hosts
    about = {"z": 1, "a": 1.5, "m": {"10": 10**15, "9": [1e-7, -0.0, True, None]}, "": "\u2028\0"}
    session = await here.sessions.create()
    await here.sessions.prompt(session.id, text="go", metadata=about, no_reply=True)
    await here.sessions.wait(session.id)
    (message,) = await there.sessions.context(session.id)
    assert isinstance(message, UserMessage)
    assert repr(message.metadata) == repr(about)


async def test_long_paths_are_stored_and_found(hosts: tuple[Holdfast, Holdfast], world: World) -> None:
    """STO-048: a list by directory finds the Session in it."""
    here, there = hosts
    deep = world.project.joinpath(*("d" * 200 for _ in range(12)))
    deep.mkdir(parents=True)
    async with world.host(directory=deep) as host:
        session = await host.sessions.create()
    found = await there.sessions.list(directory=str(deep))
    assert [item.id for item in found.items] == [session.id]
    assert (await here.sessions.get(session.id)).location.directory == str(deep)


# -- several Sessions --------------------------------------------------------------------------------------------------


async def test_a_parent_is_deleted_while_it_gets_children(hosts: tuple[Holdfast, Holdfast], world: World) -> None:
    """STO-040: no Session is left without its parent."""
    here, there = hosts
    gate = asyncio.Event()
    world.model.always = Cast(root=[Turn(calls=delegating("a", "b", "c").calls, begin=gate)])
    for number in range(ROUNDS):
        session = await here.sessions.create()
        requests = len(world.model.requests)
        await here.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(requests + 1)
        gate.set()
        for _ in range(number * 20):
            await asyncio.sleep(0)
        await both(there.sessions.delete(session.id))
        gate.clear()
        left = (await here.sessions.list(limit=200)).items
        assert {item.parent_id for item in left} - {None} <= {item.id for item in left}
        assert session.id not in {item.id for item in left}


async def test_a_fork_keeps_its_messages_whatever_happens_to_its_source(hosts: tuple[Holdfast, Holdfast]) -> None:
    """STO-041: the source is reverted, or deleted, while it is forked."""
    here, there = hosts
    for number in range(ROUNDS):
        source = await here.sessions.create()
        for text in ("one", "two"):
            await ask(here, source, text)
        first, *_, last = await here.sessions.context(source.id)
        shared = (await texts(here, source))[:-1]
        if number % 2:
            await here.sessions.stage_revert(source.id, message_id=first.id)
            changing = there.sessions.commit_revert(source.id)
        else:
            changing = there.sessions.delete(source.id)
        forking = here.sessions.fork(source.id, boundary=ForkBefore(message_id=last.id))
        forked, _ = await both(forking, changing)
        if isinstance(forked, ApiError):  # the source was changed before
            continue
        assert await texts(there, forked) == shared
        await here.sessions.delete(forked.id)


async def test_the_last_turn_of_a_budget_is_taken_once(hosts: tuple[Holdfast, Holdfast], world: World) -> None:
    """STO-042: two children of one budget, on two nodes."""
    here, there = hosts
    world.model.always = Cast(root=[delegating("a", "b")])
    session = await here.sessions.create()
    await ask(here, session, "root")
    nodes = (await here.sessions.tree(session.id)).nodes[1:]
    used = (await here.sessions.set_budget(session.id, budget=Budget(turns=0))).used.turns
    for more in range(1, ROUNDS + 1):
        requests = len(world.model.requests)
        await here.sessions.set_budget(session.id, budget=Budget(turns=used + more))
        prompted = [
            hf.sessions.prompt(node.id, prompt=PromptInput(text=f"more {more}"))
            for hf, node in zip((here, there), nodes, strict=True)
        ]
        await both(*prompted)
        await both(*(hf.sessions.outcome(node.id) for hf, node in zip((here, there), nodes, strict=True)))
        assert len(world.model.requests) == requests + 1
        (info,) = await there.sessions.budgets(session.id)
        assert (info.used.turns, info.reserved.turns) == (used + more, 0)


async def test_a_tree_is_followed_from_the_node_that_does_not_execute_it(
    hosts: tuple[Holdfast, Holdfast], world: World
) -> None:
    """STO-012, STO-153, EVT-091: every Session of it is heard of, after its parent, and every durable event once."""
    here, there = hosts
    world.model.always = Cast(root=[delegating("a", "b")], a=[delegating("c")], b=[delegating("d")])
    session = await here.sessions.create()
    async with reading(there, session.id) as reader:
        await reader.until(lambda: reader.has(CONNECTED))
        await ask(here, session, "root")
        nodes = (await here.sessions.tree(session.id)).nodes
        stored = {(node.id, position(event)) for node in nodes for event in await events(here, node.id)}
        await reader.until(lambda: stored <= set(reader.durable()))
    assert len(reader.durable()) == len(set(reader.durable()))
    heard = [id for id, seq in reader.durable() if seq == 0]
    assert len(nodes) == 5
    for node in nodes[1:]:
        assert node.parent_id == session.id or heard.index(str(node.parent_id)) < heard.index(node.id)
