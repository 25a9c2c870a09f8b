"""The `todowrite` tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from tests.conftest import ManualClock
from tests.core.event.samples import Story
from tests.core.tool.authorizers import AllowAll
from tests.stores.stores import OpenedDatabase

from holdfast.core.event.log import EventLog
from holdfast.core.permission.rules import ORDINARY, Terms
from holdfast.core.scope import Scope
from holdfast.core.session.todo import Todos
from holdfast.core.tool.builtin.authorize import Denied
from holdfast.core.tool.builtin.todowrite import FAILED, SEVERAL_IN_PROGRESS, TodowriteInput, todowrite_tool
from holdfast.core.tool.registry import ToolRegistry
from holdfast.core.tool.tool import ToolContext, ToolFailure
from holdfast.schema.todo import Todo

pytestmark = pytest.mark.anyio


def encoded(value: object) -> Any:
    """What the registry hands to the projections."""
    return msgspec.json.decode(msgspec.json.encode(value))


class Denying:
    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []

    async def allow(
        self,
        context: ToolContext,
        action: str,
        resources: Sequence[str],
        *,
        save: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        terms: Terms = ORDINARY,
    ) -> None:
        self.asked.append((action, tuple(resources), tuple(save)))
        raise Denied("Permission denied: todowrite *")


@pytest.fixture
def todos(log: EventLog, database: OpenedDatabase, clock: ManualClock) -> Todos:
    return Todos(log, database, clock)


@pytest.fixture
async def session(log: EventLog, database: OpenedDatabase) -> str:
    story = Story(database, log)
    await story.begin()
    return story.session_id


def given(*statuses: str) -> dict[str, Any]:
    return {"todos": [{"content": f"é {n}", "status": status, "priority": "low"} for n, status in enumerate(statuses)]}


def context(session_id: str) -> ToolContext:
    return ToolContext(session_id, "build", "msg_1", "c1")


async def test_todowrite_replaces_the_list_and_returns_it(todos: Todos, session: str) -> None:
    """TOL-248, TOL-249, SES-177: the structured value and two-space JSON for the model."""
    tool = todowrite_tool(todos, AllowAll())
    decoded = msgspec.convert(given("completed", "in_progress"), TodowriteInput)
    value = encoded(await tool.execute(decoded, context(session)))
    assert value == given("completed", "in_progress")
    assert [item.content for item in await todos.get(session)] == ["é 0", "é 1"]
    assert tool.content is not None
    (shown,) = tool.content(decoded, value)
    assert msgspec.to_builtins(shown)["text"].startswith('[\n  {\n    "content": "é 0",\n')


async def test_a_denied_todowrite_changes_nothing(todos: Todos, session: str) -> None:
    """TOL-248, TOL-249, SES-177: approval of everything, asked before anything is written."""
    await todos.replace(session, [Todo(content="kept", status="pending", priority="low")])
    denying = Denying()
    with pytest.raises(Denied):
        await todowrite_tool(todos, denying).execute(msgspec.convert(given(), TodowriteInput), context(session))
    assert denying.asked == [("todowrite", ("*",), ("*",))]
    assert [item.content for item in await todos.get(session)] == ["kept"]


async def test_a_failure_to_store_is_said_in_one_sentence(todos: Todos) -> None:
    """TOL-249, SES-177: here, a Session that does not exist."""
    with pytest.raises(ToolFailure) as failed:
        await todowrite_tool(todos, AllowAll()).execute(
            msgspec.convert(given("pending"), TodowriteInput), context("ses_gone")
        )
    assert str(failed.value) == FAILED == "Unable to update todos"


@pytest.mark.parametrize(
    "bad",
    [
        {"todos": [{"content": "x", "status": "done", "priority": "low"}]},
        {"todos": [{"content": "x", "status": "pending", "priority": "urgent"}]},
        {"todos": [{"content": "x" * 2001, "status": "pending", "priority": "low"}]},
        {"todos": [{"content": "x", "status": "pending", "priority": "low"}] * 201},
        {"todos": [{"content": "x", "status": "pending"}]},
        {},
    ],
)
def test_todowrite_checks_status_words_and_limits(bad: dict[str, Any]) -> None:
    """TOL-250: known words, at most 200 items of at most 2000 characters."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, TodowriteInput)
    assert msgspec.convert({"todos": []}, TodowriteInput).todos == ()


async def test_several_in_progress_are_remarked_on(todos: Todos, session: str) -> None:
    """TOL-250: stored as given, with a note for the model."""
    tool = todowrite_tool(todos, AllowAll())
    decoded = msgspec.convert(given("in_progress", "in_progress"), TodowriteInput)
    value = encoded(await tool.execute(decoded, context(session)))
    assert tool.content is not None
    assert SEVERAL_IN_PROGRESS in msgspec.to_builtins(tool.content(decoded, value)[-1])["text"]
    assert len(await todos.get(session)) == 2


async def test_todowrite_through_the_registry_returns_the_list(todos: Todos, session: str) -> None:
    """TOL-249, TOL-250: the same list comes out; an unknown status is an input error and changes nothing."""
    registry = ToolRegistry()
    registry.register({"todowrite": todowrite_tool(todos, AllowAll())}, Scope())
    catalog = registry.materialize(())
    output = await catalog.execute("todowrite", given("pending"), context(session))
    assert encoded(output.structured) == given("pending")
    with pytest.raises(ToolFailure, match="Invalid tool input"):
        await catalog.execute("todowrite", given("done"), context(session))
    assert len(await todos.get(session)) == 1
