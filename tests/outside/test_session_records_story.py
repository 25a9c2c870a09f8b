"""Sessions as records: identity, listing, pages, names, archive, deletion, todos."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from datetime import datetime
from typing import Any

import pytest
from tests.outside.scripted_provider import Turn, calling
from tests.outside.world import World, answers, ask, events, tools_of, types

from holdfast import ApiError, Location, ModelRef, PromptInput
from holdfast.schema.session_event import SessionUpdated
from holdfast.schema.session_message import ToolError

pytestmark = pytest.mark.anyio

ALPHABET = "[0-9A-Za-z]{14}"


async def test_ids_say_what_they_are_and_sort_by_time(world: World) -> None:
    """SES-001, SES-002, SES-003, API-007, API-008: newer Sessions sort first, messages and events ascend; an id given
    by the caller needs its prefix only."""
    async with world.host() as hf:
        sessions = [await hf.sessions.create() for _ in range(5)]
        receipts = [
            await hf.sessions.prompt(sessions[0].id, prompt=PromptInput(text="x"), resume=False) for _ in range(5)
        ]
        found = await events(hf, sessions[0])
        own = await hf.sessions.create(id="ses-of-mine")
        assert (await hf.sessions.get("ses-of-mine")).id == own.id
        with pytest.raises(ApiError) as refused:
            await hf.sessions.create(id="mine")
        assert refused.value.code == "InvalidRequestError"
    ids = [session.id for session in sessions]
    assert all(re.fullmatch(f"ses_[0-9a-f]{{12}}{ALPHABET}", id) for id in ids)
    assert ids == sorted(ids, reverse=True)
    for prefix, given in (("msg", [receipt.id for receipt in receipts]), ("evt", [event.id for event in found])):
        assert all(re.fullmatch(f"{prefix}_[0-9a-f]{{12}}{ALPHABET}", id) for id in given)
        assert given == sorted(given)


async def test_a_new_session_is_empty_and_where_the_host_is(world: World) -> None:
    """SES-006, SES-007, SES-008, SES-009, API-004, API-112: default title with its time, no cost, no tokens; a
    workspace is kept; a model without a variant reads back as `default`; times are milliseconds."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        placed = await hf.sessions.create(
            model=ModelRef(id="m", provider_id="mock"),
            location=Location(directory=str(world.project), workspace_id="wrk_1"),
        )
        assert await hf.sessions.get(placed.id) == placed
    assert session.location == Location(directory=str(world.project))
    assert (session.cost, session.tokens.input, session.tokens.output) == (0, 0, 0)
    assert session.time.created == session.time.updated
    assert abs(session.time.created / 1000 - datetime.now().timestamp()) < 600
    stamp = datetime.fromtimestamp(session.time.created / 1000).astimezone(None)
    title = session.title.removeprefix("New session - ")
    assert datetime.fromisoformat(title.replace("Z", "+00:00")) == stamp
    assert (session.agent, session.model, session.parent_id, session.revert) == (None, None, None, None)
    assert placed.location.workspace_id == "wrk_1"
    assert placed.model is not None
    assert placed.model.variant == "default"


async def test_creating_a_known_id_returns_the_session_as_it_is(world: World) -> None:
    """SES-004, SES-005, API-111: whatever else is asked for, also at the same time; nothing is written."""
    async with world.host() as hf:
        first, second = await asyncio.gather(*(hf.sessions.create(id="ses_one", agent="build") for _ in range(2)))
        assert first == second
        await hf.sessions.rename(first.id, title="Mine")
        again = await hf.sessions.create(
            id="ses_one", agent="plan", model=ModelRef(id="x", provider_id="y"), location=Location(directory="/absent")
        )
        assert (again.title, again.agent, again.model, again.location) == ("Mine", "build", None, first.location)
        assert await types(hf, "ses_one") == []
        assert [session.id for session in (await hf.sessions.list()).items] == ["ses_one"]


async def test_a_list_is_filtered_and_paged_in_both_directions(world: World) -> None:
    """SES-011, SES-012, SES-013, SES-014, SES-015, API-110, API-220, API-221, API-223, API-225: newest first unless
    asked; the cursor carries the filters and the page size; a wildcard in a search is an ordinary character."""
    other = world.home / "other"
    other.mkdir()
    async with world.host() as hf:
        made = []
        for number in range(5):
            made.append(session := await hf.sessions.create())
            await hf.sessions.rename(session.id, title=f"Job {number} at {number}0%")
        elsewhere = await hf.sessions.create(location=Location(directory=str(other)))
        ids = [session.id for session in made]

        def listed(page: object) -> list[str]:
            return [session.id for session in page.items]  # type: ignore[attr-defined]

        assert listed(await hf.sessions.list()) == [elsewhere.id, *ids[::-1]]
        assert listed(await hf.sessions.list(order="asc", directory=str(world.project))) == ids
        assert listed(await hf.sessions.list(search="JOB 3")) == [ids[3]]
        assert listed(await hf.sessions.list(search="30%")) == [ids[3]]
        assert listed(await hf.sessions.list(search="3%at")) == []
        assert listed(await hf.sessions.list(project="global", subpath=str(other).removeprefix("/"))) == [elsewhere.id]

        first = await hf.sessions.list(order="asc", directory=str(world.project), limit=2)
        assert listed(first) == ids[:2]
        assert first.previous is not None
        assert first.next is not None
        second = await hf.sessions.list(cursor=first.next)
        third = await hf.sessions.list(cursor=second.next)
        assert (listed(second), listed(third)) == (ids[2:4], ids[4:])
        assert third.previous is not None
        assert listed(await hf.sessions.list(cursor=third.previous)) == ids[2:4]
        after = await hf.sessions.list(cursor=third.next)
        assert (after.items, after.previous, after.next) == ([], None, None)
        await hf.sessions.create()
        assert listed(await hf.sessions.list(cursor=first.next)) == ids[2:4]
        for broken in ("nonsense", first.next[:-4], ""):
            with pytest.raises(ApiError) as refused:
                await hf.sessions.list(cursor=broken)
            assert (refused.value.status, refused.value.code) == (400, "InvalidCursorError")


async def test_messages_are_paged_in_the_order_in_which_they_came(world: World) -> None:
    """SES-016, SES-017, API-126, API-222, API-224: by their event, not by id: ids of the caller sort the other
    way round; a cursor of another Session, or beside an order, is refused."""
    async with world.host() as hf:
        session, other = await hf.sessions.create(), await hf.sessions.create()
        for id in ("msg_c", "msg_b", "msg_a"):
            await ask(hf, session, id, id=id)
        await ask(hf, other, "x")
        everything = [message.id for message in await hf.sessions.context(session.id)]
        assert everything[::2] == ["msg_c", "msg_b", "msg_a"]
        newest = await hf.sessions.messages(session.id, limit=4)
        assert [message.id for message in newest.items] == everything[::-1][:4]
        assert newest.next is not None
        rest = await hf.sessions.messages(session.id, cursor=newest.next)
        assert [message.id for message in rest.items] == everything[::-1][4:]
        oldest = await hf.sessions.messages(session.id, order="asc", limit=200)
        assert [message.id for message in oldest.items] == everything
        for target, options in ((other, {}), (session, {"order": "asc"})):
            with pytest.raises(ApiError) as refused:
                await hf.sessions.messages(target.id, cursor=newest.next, **options)  # type: ignore[arg-type]
            assert refused.value.code == "InvalidCursorError"
        for limit in (0, 201):
            with pytest.raises(ApiError) as beyond:
                await hf.sessions.messages(session.id, limit=limit)
            assert beyond.value.code == "InvalidRequestError"


async def test_a_message_of_another_session_is_as_unknown_as_none(world: World) -> None:
    """SES-018, API-027, API-125: the same answer, down to the words."""
    async with world.host() as hf:
        mine, theirs = await hf.sessions.create(), await hf.sessions.create()
        await ask(hf, theirs, "hello", id="msg_theirs")
        assert (await hf.sessions.message(theirs.id, message_id="msg_theirs")).id == "msg_theirs"
        bodies = []
        for id in ("msg_theirs", "msg_absent"):
            with pytest.raises(ApiError) as unknown:
                await hf.sessions.message(mine.id, message_id=id)
            assert (unknown.value.status, unknown.value.code) == (404, "MessageNotFoundError")
            bodies.append(str(unknown.value.body).replace(id, "ID"))
    assert bodies[0] == bodies[1]


async def test_a_session_is_renamed_archived_and_deleted(world: World) -> None:
    """SES-027, SES-028: archived Sessions leave the ordinary list and come back; a deleted one is gone, also in the
    middle of a turn, and its messages with it."""
    never = asyncio.Event()
    world.model.plays(Turn(text="x", end=never))
    async with world.host() as hf:
        session, kept = await hf.sessions.create(), await hf.sessions.create()
        assert (await hf.sessions.rename(session.id, title="The plan")).title == "The plan"
        assert (await hf.sessions.archive(session.id)).time.archived is not None
        assert [item.id for item in (await hf.sessions.list(archived=True)).items] == [session.id]
        assert [item.id for item in (await hf.sessions.list(archived=False)).items] == [kept.id]
        assert (await hf.sessions.archive(session.id, archived=False)).time.archived is None

        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await world.model.asked(1)
        await hf.sessions.delete(session.id)
        assert await hf.sessions.active() == {}
        for call in (hf.sessions.get(session.id), hf.sessions.context(session.id), hf.sessions.history(session.id)):
            with pytest.raises(ApiError) as gone:
                await call
            assert gone.value.code == "SessionNotFoundError"
        assert [item.id for item in (await hf.sessions.list()).items] == [kept.id]
        assert await hf.verify() == []


@pytest.mark.parametrize(
    ("agents", "title"),
    [({}, "What is in hello.txt?"), ({"title": {"model": "mock/m"}}, "Reading a file")],
    ids=["from the prompt", "by a model"],
)
async def test_a_title_is_made_after_the_first_answer(world: World, agents: dict[str, Any], title: str) -> None:
    """SES-026: never over a title that a person gave. A model that was chosen for titles is asked without tools; that
    is no turn of the Session."""
    world.configure(holdfast={"titles": True}, agents=agents)
    world.model.always = lambda request: Turn(text="done" if request.tools else "Reading a file")
    async with (
        world.host() as hf,
        asyncio.timeout(30),
        aclosing(aiter(hf.events.subscribe())) as live,
    ):
        await anext(live)
        named = await hf.sessions.create()
        await hf.sessions.rename(named.id, title="My own")
        await ask(hf, named, "What is in hello.txt?")
        session = await hf.sessions.create()
        await ask(hf, session, "What is in hello.txt?")
        while not (
            isinstance((event := await anext(live)).data, SessionUpdated) and event.data.session_id == session.id
        ):
            pass
        assert (await hf.sessions.get(session.id)).title == title
        assert (await hf.sessions.get(named.id)).title == "My own"
        assert len(answers(await hf.sessions.context(session.id))) == 1
        assert (await types(hf, session)).count("step.started") == 1


async def test_todos_are_replaced_as_a_whole_and_survive(world: World) -> None:
    """SES-175, SES-176, SES-178, TOL-248, TOL-249, TOL-250: in their order; an empty list clears; a status that does
    not exist is refused and changes nothing; another process reads the same."""
    first = [
        {"content": "write", "status": "in_progress", "priority": "high"},
        {"content": "test", "status": "pending", "priority": "low"},
    ]
    world.model.plays(calling("todowrite", todos=first))
    async with world.host() as hf:
        session = await hf.sessions.create()
        assert await hf.sessions.todos(session.id) == []
        await ask(hf, session, "plan it")
        assert [todo.content for todo in await hf.sessions.todos(session.id)] == ["write", "test"]
        wrong = [{"content": "x", "status": "someday", "priority": "high"}]
        world.model.plays(calling("todowrite", todos=wrong))
        await ask(hf, session, "change it")
        part = tools_of(answers(await hf.sessions.context(session.id))[-2])[0]
        assert isinstance(part.state, ToolError)
        assert part.state.error.message.startswith("Invalid tool input: ")
    async with world.host() as hf:
        assert [todo.status for todo in await hf.sessions.todos(session.id)] == ["in_progress", "pending"]
        assert await hf.rebuild() == 1
        assert [todo.priority for todo in await hf.sessions.todos(session.id)] == ["high", "low"]
        world.model.plays(calling("todowrite", todos=[]))
        await ask(hf, session, "clear it")
        assert await hf.sessions.todos(session.id) == []
