"""All Sessions with what each does now. The number of queries does not depend on the number of Sessions, and Sessions
that are not told and have nothing to do are not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.runtime.text_search import pattern_of
from holdfast.core.session.stored_sessions import SessionRow
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.model import ModelRef  # noqa: TC001 - msgspec reads the annotations of rows
from holdfast.schema.overview import ContextUse, OverviewSession, SessionWait
from holdfast.schema.session import Tokens  # noqa: TC001 - as above

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.runtime.open_requests import OpenRequests
    from holdfast.core.runtime.states import SessionStates, States
    from holdfast.core.session.stored_sessions import SessionAnchor
    from holdfast.schema.insight import WaitInfo
    from holdfast.schema.session import Session
    from holdfast.schema.tree import NodeState

MOST_OPEN = 500
"""Open Sessions that are told, those with the newest change."""
MOST_COUNTED = 5_000
LINE = 200
"""Characters of a line."""
LOOKED_BACK = 500
"""Events before the newest answer among which its text and its usage are looked for."""
LATEST = 2**53 - 1


class OpenState(Frozen):
    state: NodeState
    waits: frozenset[str]
    """The kinds of what it waits for."""
    pending: int


class OverviewFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    search: str | None = None
    """A part of the title or of the directory, whatever its case."""
    directory: str | None = None
    archived: bool | None = None


class Overview:
    def __init__(
        self,
        database: Database,
        states: SessionStates,
        requests: OpenRequests,
        execution: Execution,
        locations: ServiceMap[LocationServices],
    ) -> None:
        self._database = database
        self._states = states
        self._requests = requests
        self._execution = execution
        self._locations = locations

    async def open(self, chosen: OverviewFilter, *, limit: int = MOST_OPEN) -> list[OverviewSession]:
        """Sessions that are not idle, children too; newest change first. Archived ones as well, unless that is
        chosen."""
        everything = await self._open(OverviewFilter(), MOST_OPEN)
        found = everything[:limit] if chosen == OverviewFilter() else await self._open(chosen, limit)
        told = await self._told(found, [session.id for session in everything])
        return [session for session in told if session.state != "idle"]

    async def of(self, ids: Collection[str]) -> list[OverviewSession]:
        """These Sessions as far as they exist, children too; newest change first."""
        rows = await self._database.fetch_large("overview.chosen", {"ids": encode([*ids]).decode()}, into=SessionRow)
        everything = await self._open(OverviewFilter(), MOST_OPEN)
        return await self._told([row.session() for row in rows], [session.id for session in everything])

    async def one(self, session: Session, below: Collection[str]) -> OverviewSession | None:
        """One Session, with what it waits for in the Sessions below it; None if it is gone."""
        told = await self._told([session], below)
        return told[0] if told else None

    async def page(
        self, chosen: OverviewFilter, *, limit: int, anchor: SessionAnchor | None = None
    ) -> list[OverviewSession]:
        """Sessions without a parent, newest change first. `previous` reads against the order and reverses the rows."""
        backwards = anchor is not None and anchor.direction == "previous"
        key: dict[str, Value] = {
            **_conditions(chosen),
            "archived": chosen.archived or False,
            "anchor_time": anchor.time if anchor else LATEST,
            "anchor_id": anchor.id if anchor else "",
            "limit": limit,
        }
        name = f"overview.roots_{'asc' if backwards else 'desc'}"
        rows = await self._database.fetch_large(name, key, into=SessionRow)
        everything = await self._open(OverviewFilter(), MOST_OPEN)
        found = [row.session() for row in (rows[::-1] if backwards else rows)]
        return await self._told(found, [session.id for session in everything])

    async def waits(self) -> list[SessionWait]:
        """What open Sessions wait for, oldest first."""
        found = await self._open(OverviewFilter(), MOST_OPEN)
        states = await self._states.of([session.id for session in found])
        waits = [
            SessionWait(session_id=session.id, title=session.title, wait=wait)
            for session in found
            for wait in states.waits(session.id)
        ]
        return sorted(waits, key=lambda found: (found.wait.since, found.session_id))

    async def states(self) -> list[OpenState]:
        """What open Sessions do, those with the newest change; for counting."""
        found = await self._open(OverviewFilter(), MOST_COUNTED)
        states = await self._states.of([session.id for session in found])
        told = [
            OpenState(states.state(id), frozenset(wait.kind for wait in states.waits(id)), states.rows[id].pending)
            for id in (session.id for session in found)
            if id in states.rows
        ]
        return [state for state in told if state.state != "idle"]

    async def _open(self, chosen: OverviewFilter, limit: int) -> list[Session]:
        running = encode(await self._execution.active()).decode()
        key: dict[str, Value] = {**_conditions(chosen), "archived": chosen.archived, "running": running, "limit": limit}
        return [row.session() for row in await self._database.fetch_large("overview.open", key, into=SessionRow)]

    async def _told(self, sessions: list[Session], others: Collection[str]) -> list[OverviewSession]:
        """A Session may wait for what one of `others` waits for."""
        if not sessions:
            return []
        states = await self._states.of({*others, *(session.id for session in sessions)})
        requests = await self._requests.counts()
        key: dict[str, Value] = {
            "ids": encode([session.id for session in sessions]).decode(),
            "characters": 2 * LINE,
            "events": LOOKED_BACK,
        }
        details = {row.id: row for row in await self._database.fetch_large("overview.details", key, into=_Details)}
        built = self._locations.built()
        return [
            OverviewSession(
                session=session,
                root_id=states.places[session.id].root_id,
                state=states.state(session.id),
                status=states.status(session.id),
                outcome=states.outcome(session.id),
                waits=states.waits(session.id),
                pending=states.rows[session.id].pending,
                requests=requests[session.id],
                line=_line(session.id, states, details),
                context=_context(details.get(session.id), built.get(session.location)),
            )
            for session in sessions
            if session.id in states.rows  # not deleted meanwhile
        ]


class _Step(Frozen):
    model: ModelRef
    tokens: Tokens


class _Details(Frozen):
    id: str
    text: str | None
    """The beginning of the newest text of an answer."""
    step: _Step | None
    """The newest one whose usage is known."""


def _conditions(chosen: OverviewFilter) -> dict[str, Value]:
    return {"directory": chosen.directory, "search": pattern_of(chosen.search) if chosen.search else None}


def _line(session_id: str, states: States, details: dict[str, _Details]) -> str | None:
    wait, found = states.cause(session_id), details.get(session_id)
    text = _without_ids(wait) if wait is not None else (found.text if found is not None else None)
    return " ".join(text.split())[:LINE] or None if text is not None else None


def _without_ids(wait: WaitInfo) -> str:
    """What a person reads of a wait: its subagent is known by its agent and its task, which stand beside the id."""
    if wait.kind != "subagent":
        return wait.what
    text = wait.what.replace(f"subagent {wait.session_id} ", "subagent ", 1)
    return text.removesuffix(f" in {wait.cause.session_id}") if wait.cause is not None else text


def _context(details: _Details | None, services: LocationServices | None) -> ContextUse | None:
    """`services` are those of the Session's Location if it is open: it is not opened for the limit."""
    if details is None or (step := details.step) is None:
        return None
    used = step.tokens.input + step.tokens.cache.read + step.tokens.cache.write
    model = services.catalog.model(step.model.provider_id, step.model.id) if services is not None else None
    return ContextUse(used=used, limit=(model.limit.context or None) if model is not None else None)
