"""A Session's todo list over the real log."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.conftest import ManualClock
from tests.core.event.samples import Story
from tests.stores.stores import OpenedDatabase

from holdfast.core.database.errors import StorageError
from holdfast.core.event.log import EventLog
from holdfast.core.session.todo import Todos
from holdfast.schema.todo import Todo

pytestmark = pytest.mark.anyio


def todo(content: str, status: str = "pending", priority: str = "high") -> Todo:
    return Todo(content=content, status=status, priority=priority)


@pytest.fixture
def todos(log: EventLog, database: OpenedDatabase, clock: ManualClock) -> Todos:
    return Todos(log, database, clock)


@pytest.fixture
async def session(log: EventLog, database: OpenedDatabase) -> str:
    story = Story(database, log)
    await story.begin()
    return story.session_id


async def test_the_list_is_replaced_as_a_whole(todos: Todos, session: str) -> None:
    """SES-175, SES-176, TOL-249: in its order, with whatever strings; an empty one clears."""
    assert await todos.get(session) == ()
    await todos.replace(session, [todo("b"), todo("a", "someday", "urgent"), todo("b")])
    assert await todos.get(session) == (todo("b"), todo("a", "someday", "urgent"), todo("b"))
    await todos.replace(session, [todo("c")])
    assert await todos.get(session) == (todo("c"),)
    await todos.replace(session, [])
    assert await todos.get(session) == ()


async def test_a_todo_list_is_announced_after_it_is_stored(log: EventLog, todos: Todos, session: str) -> None:
    """SES-176, TOL-249: `todo.updated` with the Session and the list, live only."""
    with log.bus.subscribe(frozenset({"todo.updated"})) as heard:
        await todos.replace(session, [todo("a")])
        (announcement,) = await heard.next()
    event = msgspec.json.decode(announcement.wire)
    assert event["data"] == {
        "sessionID": session,
        "todos": [{"content": "a", "status": "pending", "priority": "high"}],
    }
    assert "durable" not in event


async def test_the_todo_list_survives_a_rebuild(log: EventLog, todos: Todos, session: str) -> None:
    """SES-178, TOL-250: the list is an event of the log, committed together with its rows."""
    await todos.replace(session, [todo("old")])
    await todos.replace(session, [todo("a"), todo("b")])
    await log.rebuild(session)
    assert await todos.get(session) == (todo("a"), todo("b"))
    kinds = [event.type for event in await log.serialized(session)]
    assert [kind for kind in kinds if "todos" in kind] == ["session.next.todos.replaced.1"] * 2


async def test_a_caller_that_goes_away_cuts_nothing_in_two(log: EventLog, todos: Todos, session: str) -> None:
    """TOL-250, SES-176: stored means announced."""
    with log.bus.subscribe(frozenset({"todo.updated"})) as heard:
        task = asyncio.create_task(todos.replace(session, [todo("a")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.wait_for(heard.next(), 5)
    assert await todos.get(session) == (todo("a"),)


async def test_an_unknown_session_has_no_list(log: EventLog, todos: Todos) -> None:
    """TOL-249: nothing is stored and nothing announced."""
    with log.bus.subscribe(frozenset({"todo.updated"})) as heard:
        with pytest.raises(StorageError):
            await todos.replace("ses_unknown", [todo("a")])
        assert not heard._buffer
    assert await todos.get("ses_unknown") == ()
