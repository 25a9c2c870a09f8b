"""Waiting for children."""

from __future__ import annotations

import pytest

from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.stored_tasks import Task
from holdfast.core.session.task_result import TaskEnd
from holdfast.core.session.tasks import Tasks
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio

TASK = Task("ses_1", "msg_1", "call_1", "ses_2", "ses_1", "msg_2", "msg_3", "general", "a task", True, False, 1)


async def test_waiting_ends_with_the_time(runtime: Runtime, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOL-455: while a child works; at once if none does, or if it is another one."""
    tasks = runtime._process.tools.tasks
    ends: list[TaskEnd | None] = [None]

    async def children(self: Tasks, session_id: str) -> list[tuple[Task, TaskEnd | None]]:
        return [(TASK, end) for end in ends]

    monkeypatch.setattr(Tasks, "children", children)
    await tasks.wait(session.id, None, 0.01)
    await tasks.wait(session.id, "ses_2", 0.01)
    await tasks.wait(session.id, "ses_other", 1000)
    ends[:] = [TaskEnd("completed", "x")]
    await tasks.wait(session.id, None, 1000)
