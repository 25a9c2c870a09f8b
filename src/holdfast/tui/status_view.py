"""What the status line shows, from what the feed and a few further calls tell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.schema.model import DEFAULT_VARIANT
from holdfast.text.visible_text import brief
from holdfast.tui.status_line import Budget, StatusView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.insight import WaitInfo
    from holdfast.schema.model import ModelRef
    from holdfast.schema.todo import Todo
    from holdfast.schema.view import Status
    from holdfast.tui.feed import Feed

LONGEST_SECONDS = 5.0
"""After which figures are asked for again while the Session works."""


WAIT_CHARACTERS = 40
PEOPLE = ("permission", "question", "form", "authorization", "recovery", "budget", "blocked")


class Usage:
    """The newest request of the Session and its budget. Asked for after each change of the Session's cost or state."""

    def __init__(self) -> None:
        self.cache: float | None = None
        self.turn_cost: float | None = None
        self.budget: Budget | None = None
        self._known: tuple[object, ...] = ()
        self._asked = 0.0

    def is_due(self, status: Status) -> bool:
        now = (status.session.state, status.tree.cost)
        if now == self._known or (
            time.monotonic() - self._asked < LONGEST_SECONDS and status.session.state == "running"
        ):
            return False
        self._known, self._asked = now, time.monotonic()
        return True

    async def load(self, client: AsyncClient, session_id: str) -> None:
        newest = (await client.sessions.ledger(session_id, limit=1)).items
        if newest and (used := newest[0].tokens) is not None:
            whole = used.input + used.cache.read + used.cache.write
            self.cache = used.cache.read / whole if whole else None
            self.turn_cost = newest[0].cost
        limits = [one for one in await client.sessions.budgets(session_id) if one.limit.money is not None]
        closest = min(limits, key=lambda one: (one.limit.money or 0) - one.used.money, default=None)
        self.budget = Budget(closest.used.money, closest.limit.money or 0) if closest is not None else None


def status_view(feed: Feed, usage: Usage, requests: int, untrusted: int) -> StatusView:
    view = StatusView(requests=requests, untrusted=untrusted)
    connection = feed.connection
    if connection.state != "connected":
        told = {"gone": "the session was deleted", "refused": connection.error}.get(connection.state, connection.state)
        since = connection.since if connection.state == "reconnecting" else None
        view = view._replace(connection=told, connection_since=since)
    status = feed.status
    if status is None:
        return view
    shown, session = status.session, status.session.session
    wait = _shown_wait(shown.waits)
    model = session.model
    return view._replace(
        state=shown.state,
        wait=_told(wait) if wait is not None else "",
        wait_since=wait.since / 1000 if wait is not None else None,
        model=""
        if model is None
        else f"{model.provider_id}/{model.id}"
        + (f"#{model.variant}" if model.variant not in (None, "default") else ""),
        agent=session.agent or "",
        context_used=shown.context.used if shown.context is not None else None,
        context_limit=shown.context.limit if shown.context is not None else None,
        cache=usage.cache,
        turn_cost=usage.turn_cost,
        tree_cost=status.tree.cost,
        sessions=status.tree.sessions,
        budget=usage.budget,
    )


def _shown_wait(waits: tuple[WaitInfo, ...]) -> WaitInfo | None:
    """What only a person can end comes first, then the oldest."""
    return min(waits, key=lambda wait: (not _needs_person(wait), wait.since), default=None)


def _needs_person(wait: WaitInfo) -> bool:
    return (wait.cause.kind if wait.cause is not None else wait.kind) in PEOPLE


def _told(wait: WaitInfo) -> str:
    """In a few words: the line is short, and the open requests tell more."""
    if wait.kind == "subagent":
        return "a subagent waits for you" if _needs_person(wait) else "a subagent works"
    if wait.kind in ("permission", "question", "form", "recovery"):
        return "waits for you"
    if wait.kind == "input":
        return "inputs wait: Enter begins"
    return {"provider": "the model answers"}.get(wait.kind) or brief(wait.what, WAIT_CHARACTERS)


def model_name(model: ModelRef | None) -> str:
    if model is None:
        return ""
    variant = f"#{model.variant}" if model.variant not in (None, DEFAULT_VARIANT) else ""
    return f"{model.provider_id}/{model.id}{variant}"


def todo_line(todos: Sequence[Todo]) -> str:
    """How many are done, and the one that is worked on; empty if none is open."""
    left = [todo for todo in todos if todo.status not in ("completed", "cancelled")]
    if not left:
        return ""
    now = next((todo for todo in left if todo.status == "in_progress"), left[0])
    return f"{len(todos) - len(left)}/{len(todos)} {now.content}"
