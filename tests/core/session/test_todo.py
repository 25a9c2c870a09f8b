"""A Session's todo list over the real log."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from holdfast.core.database.errors import StorageError
from holdfast.core.runtime import Runtime
from holdfast.core.session.todo import Todos
from holdfast.schema.session import Session
from holdfast.schema.todo import Todo
from tests.conftest import ManualClock

pytestmark = pytest.mark.anyio


def todo(content: str, status: str = "pending", priority: str = "high") -> Todo:
    return Todo(content=content, status=status, priority=priority)


@pytest.fixture
def todos(runtime: Runtime, clock: ManualClock) -> Todos:
    return Todos(runtime.log, runtime.database, clock)


async def test_the_list_is_replaced_as_a_whole(todos: Todos, session: Session) -> None:
    """SES-175, SES-176, TOL-249: in its order, with whatever strings; an empty one clears."""
    assert await todos.get(session.id) == ()
    await todos.replace(session.id, [todo("b"), todo("a", "someday", "urgent"), todo("b")])
    assert await todos.get(session.id) == (todo("b"), todo("a", "someday", "urgent"), todo("b"))
    await todos.replace(session.id, [todo("c")])
    assert await todos.get(session.id) == (todo("c"),)
    await todos.replace(session.id, [])
    assert await todos.get(session.id) == ()


async def test_it_is_announced_once_it_is_stored(runtime: Runtime, todos: Todos, session: Session) -> None:
    """SES-176, TOL-249: `todo.updated` with the Session and the list, live only."""
    with runtime.log.bus.subscribe(frozenset({"todo.updated"})) as heard:
        await todos.replace(session.id, [todo("a")])
        (announcement,) = await heard.next()
    event = msgspec.json.decode(announcement.data)
    assert event["data"] == {
        "sessionID": session.id,
        "todos": [{"content": "a", "status": "pending", "priority": "high"}],
    }
    assert "durable" not in event


async def test_it_survives_a_rebuild(runtime: Runtime, todos: Todos, session: Session) -> None:
    """SES-178, TOL-250: the list is an event of the log, committed together with its rows."""
    await todos.replace(session.id, [todo("old")])
    await todos.replace(session.id, [todo("a"), todo("b")])
    await runtime.log.rebuild(session.id)
    assert await todos.get(session.id) == (todo("a"), todo("b"))
    kinds = [event.type for event in await runtime.log.serialized(session.id)]
    assert [kind for kind in kinds if "todos" in kind] == ["session.next.todos.replaced.1"] * 2


async def test_a_caller_that_goes_away_cuts_nothing_in_two(runtime: Runtime, todos: Todos, session: Session) -> None:
    """TOL-250, SES-176: stored means announced."""
    with runtime.log.bus.subscribe(frozenset({"todo.updated"})) as heard:
        task = asyncio.create_task(todos.replace(session.id, [todo("a")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.wait_for(heard.next(), 5)
    assert await todos.get(session.id) == (todo("a"),)


async def test_an_unknown_session_has_no_list(runtime: Runtime, todos: Todos) -> None:
    """TOL-249: nothing is stored and nothing announced."""
    with runtime.log.bus.subscribe(frozenset({"todo.updated"})) as heard:
        with pytest.raises(StorageError):
            await todos.replace("ses_unknown", [todo("a")])
        assert not heard._buffer
    assert await todos.get("ses_unknown") == ()
