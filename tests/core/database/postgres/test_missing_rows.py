"""What SQLite refuses by foreign keys, PostgreSQL refuses because the row has no key."""

from __future__ import annotations

from typing import Any

import pytest
from tests.stores.stores import OpenedDatabase

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import NewEvent, Statement, Unit

pytestmark = pytest.mark.anyio

GONE = "ses_gone"
PLACE: dict[str, Any] = {"directory": "/", "workspace_id": "", "path": "/AGENTS.md"}
INPUT: dict[str, Any] = {"id": "msg_1", "kind": "user", "prompt": "{}", "delivery": "steer", "no_reply": 0}
TODO = {"position": 0, "content": "c", "status": "s", "priority": "p"}
LIMITS = {"money": 1, "tokens": None, "turns": None, "time": None}
EPOCH = {"baseline_id": "b", "snapshot_id": "s", "observed": "{}", "offer": ""}
REQUEST = {
    "id": "per_1",
    "kind": "permission",
    "agent": None,
    "data": "{}",
    "resumable": 0,
    "owner": None,
    "closed": "{}",
}
STATEMENTS: list[tuple[str, dict[str, Any]]] = [
    ("activity.begin", {}),
    ("activity.dispatch", {}),
    ("activity.suspend", {}),
    ("budget.set", LIMITS),
    ("context.begin", EPOCH),
    ("context.change", {"keys": "[]"}),
    ("inbox.insert", INPUT),
    ("inbox.adopt", INPUT),
    ("instruction.discover", PLACE),
    ("instruction_entry.put", {"key": "k", "value": "1"}),
    ("request.insert", REQUEST),
    ("todo.insert", TODO),
    ("turn.dispatch", {"agent": "build", "model": "{}", "attempt": 1}),
]


@pytest.mark.parametrize(("name", "params"), STATEMENTS, ids=[name for name, _ in STATEMENTS])
async def test_nothing_is_written_for_a_session_that_does_not_exist(
    database: OpenedDatabase, name: str, params: dict[str, Any]
) -> None:
    """STO-046: and nothing of its unit either."""
    statement = Statement(name, {"session_id": GONE, "timestamp": 1, **params})
    event = NewEvent("evt_1", "t.1", "{}", None, (statement,))
    with pytest.raises(StorageError):
        await database.submit(Unit(GONE, events=(event,)))
    assert await database.fetch("event.head", {"aggregate_id": GONE}) == []


async def test_a_session_needs_its_project(database: OpenedDatabase) -> None:
    """STO-046."""
    approval: dict[str, Any] = {
        "id": "psv_1",
        "project_id": "gone",
        "root": "/",
        "owner": 1,
        "action": "a",
        "resource": "r",
        "timestamp": 1,
    }
    with pytest.raises(StorageError):
        await database.submit(Unit("/", local=(Statement("permission.save", approval),)))
