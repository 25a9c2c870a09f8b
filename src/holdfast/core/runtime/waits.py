"""For what a Session waits, since when, and what ends it: read from what is recorded, so that a client which connects
later, or to another process, sees the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.core.context.source import REMOTE_TIMEOUT
from holdfast.core.form.sign_in import AUTHORIZATION
from holdfast.core.runtime.placement import NoNodeServes
from holdfast.core.runtime.subagent_wait import Delegation, subagent_wait
from holdfast.core.session.activity import described
from holdfast.core.session.budgets import paused_wait
from holdfast.core.session.stored_activity import Blocked, TreeRequestRow
from holdfast.schema.codec import decode_any
from holdfast.schema.frozen import Frozen
from holdfast.schema.insight import WaitInfo
from holdfast.schema.model import ModelRef  # noqa: TC001 - msgspec reads the annotations of rows
from holdfast.schema.session_event import Retried  # noqa: TC001 - as above

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.session.ownership import Ownership
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_messages import OpenShell
    from holdfast.schema.insight import InterruptedActivity

TEXT = 300
LONGEST_CHAIN = 16
"""Of subagents of subagents that are asked what they wait for."""


class Waits:
    def __init__(
        self,
        database: Database,
        store: SessionStore,
        execution: Execution,
        ownership: Ownership,
        locations: ServiceMap[LocationServices],
        clock: Clock,
    ) -> None:
        self._database = database
        self._store = store
        self._execution = execution
        self._ownership = ownership
        self._locations = locations
        self._clock = clock

    async def of(self, session_id: str, *, chain: int = 0) -> list[WaitInfo]:
        """`chain` counts the subagents through which the question came here."""
        key = {"session_id": session_id}
        held = await self._ownership.elsewhere(session_id)
        executed = held is not None or self._execution.here(session_id)
        waits = await self._executed(session_id) if executed else []
        # Also while a drain begins that looks whether the budget was raised.
        if not waits and (pause := await self._store.pause(session_id)) is not None:
            waits = [await paused_wait(self._store, session_id, pause)]
        elif not executed:
            waits = await self._left(session_id)
        if self._execution.placement.awaits_room(session_id):
            waits += await self._unstarted(session_id, ends="one of the Sessions that this server executes ends")
        asked = await self._database.fetch("request.open_of_tree", key, into=TreeRequestRow)
        waits += [_request(row, session_id) for row in asked]
        if (blocked := await self._store.blocked(session_id)) is not None:
            waits.append(blocked_wait(blocked))
        elif held is None and not self._execution.here(session_id):
            waits = waits or await self._unstarted(session_id)
            waits += await self._unserved(session_id, waits)
        if executed and not waits:
            waits = await self._boundary(session_id)
        if waits and held is not None:
            owner = WaitInfo(
                kind="owner",
                since=min(wait.since for wait in waits),
                what=f"process {held.owner_id} executes this Session",
                ends="it finishes, is interrupted, or dies",
                id=held.owner_id,
            )
            waits.append(owner)
        return await self._with_subagents(session_id, waits, chain)

    async def _with_subagents(self, session_id: str, waits: list[WaitInfo], chain: int) -> list[WaitInfo]:
        """With a child, and what that waits for, in the place of the call that waits for it. A call whose child waits
        for nothing but a budget waits for that."""
        tasks = [task for task in await self._store.open_tasks(session_id) if not task.background]
        if not tasks or chain >= LONGEST_CHAIN:
            return waits
        calls = {wait.id: wait for wait in waits if wait.kind == "tool"}
        found = []
        for task in tasks:
            below = await self.of(task.child_id, chain=chain + 1)
            call = calls.pop(task.call_id, None)
            causes = [wait for wait in below if wait.kind != "owner"]
            if causes and all(wait.kind == "budget" for wait in causes):
                found.append(causes[0])
                continue
            since = call.since if call is not None else task.started
            found.append(
                subagent_wait(Delegation(task.call_id, since, task.child_id, task.agent, task.description), below)
            )
        return found + [wait for wait in waits if wait.kind != "tool" or wait.id in calls]

    async def _executed(self, session_id: str) -> list[WaitInfo]:
        """What a drain waits for."""
        now, key = self._clock.now(), {"session_id": session_id}
        waits = [row.wait(now) for row in await self._database.fetch("wait.turn", key, into=TurnRow)]
        waits += [row.wait() for row in await self._database.fetch("wait.tools", key, into=ToolRow)]
        waits += [row.wait() for row in await self._database.fetch("wait.compaction", key, into=_CompactionRow)]
        return waits + [_shell(shell) for shell in (await self._store.open_shell(session_id),) if shell is not None]

    async def _boundary(self, session_id: str) -> list[WaitInfo]:
        """What the next turn is made of, while nothing else is recorded as under way."""
        activity = await self._store.activity(session_id)
        pending = await self._store.all_pending(session_id) if activity is None else []
        if (activity is None and not pending) or (activity is not None and activity.turn is not None):
            return []
        since = activity.since if activity is not None else pending[0].time_created
        what, ends = "the context of the next turn", "it is complete; sources that do not answer in time are left out"
        session = await self._store.find(session_id)
        services = self._locations.built().get(session.location) if session is not None else None
        fetched = services.context.fetched() if services is not None else {}
        if fetched:
            since = min(fetched.values())
            what = f"instructions from {', '.join(fetched)}"
            ends = f"they arrive, or {REMOTE_TIMEOUT:g} s pass: then the last good copy is used"
        return [WaitInfo(kind="context", since=since, what=what[:TEXT], ends=ends)]

    async def _left(self, session_id: str) -> list[WaitInfo]:
        """What nobody works on waits for a process, or for a decision; a call that waits for a person says so."""
        activity = await self._store.activity(session_id)
        if activity is None or (status := described(activity)).stage == "waiting":
            return []
        return [recovery_wait(status)]

    async def _unserved(self, session_id: str, waits: Sequence[WaitInfo]) -> list[WaitInfo]:
        """That no running node has the directory, if a process is waited for."""
        since = min((wait.since for wait in waits if wait.kind in ("recovery", "input")), default=None)
        if since is None or (session := await self._store.find(session_id)) is None:
            return []
        missing = await self._execution.placement.missing(session.location)
        name = NoNodeServes.__name__
        return [] if missing is None else [blocked_wait(Blocked(since, name, str(missing)))]

    async def _unstarted(self, session_id: str, ends: str | None = None) -> list[WaitInfo]:
        """Input that nobody has begun with."""
        if not (pending := await self._store.all_pending(session_id)):
            return []
        wanted = await self._store.wakes(session_id)
        begins = "the next server, a prompt, or a run begins with it" if wanted else "a prompt or a run begins with it"
        count = f"{len(pending)} inputs" if len(pending) > 1 else "1 input"
        what = f"a start: {count} admitted and not part of the conversation yet"
        return [WaitInfo(kind="input", since=pending[0].time_created, what=what, ends=ends or begins, id=pending[0].id)]


class TurnRow(Frozen):
    dispatched: int
    message_id: str | None
    model: ModelRef
    retried: Retried | None
    """The newest report of a failed attempt at this turn."""

    def wait(self, now: int) -> WaitInfo:
        name, since = f"{self.model.provider_id}/{self.model.id}", self.dispatched
        if self.message_id is not None:
            what, ends = f"{name} to finish its answer", "the answer ends, a time limit, or an interruption"
            return WaitInfo(kind="provider", since=since, what=what, ends=ends)
        if self.retried is not None:
            report = self.retried
            until = int((report.error.metadata or {}).get("next", 0))
            if now < until:
                return WaitInfo(
                    kind="retry",
                    since=int(report.timestamp),
                    what=f"the next attempt at {name}, after attempt {report.attempt} failed: {report.error.message}",
                    ends=f"{_clock_time(until)}, or an interruption",
                    until=until,
                )
            since = max(since, until)
        what, ends = f"the first byte from {name}", "the provider answers, a time limit, or an interruption"
        return WaitInfo(kind="provider", since=since, what=what, ends=ends)


class ToolRow(Frozen):
    key: str
    name: str
    since: int

    def wait(self) -> WaitInfo:
        ends = "it returns, its own time limit, or an interruption"
        return WaitInfo(kind="tool", since=self.since, what=f"tool {self.name}", ends=ends, id=self.key)


class _CompactionRow(Frozen):
    since: int

    def wait(self) -> WaitInfo:
        what, ends = "a summary of older history", "the summary is complete"
        return WaitInfo(kind="compaction", since=self.since, what=what, ends=ends)


def _request(row: TreeRequestRow, session_id: str) -> WaitInfo:
    asked = decode_any(row.data)
    below = row.session_id if row.session_id != session_id else None
    child = f" for the child {below}" if below is not None else ""
    if row.kind == "permission":
        what = f"permission{child}: {asked.get('action')} {', '.join(asked.get('resources', []))[:200]}"
        return WaitInfo(
            kind="permission", since=row.since, what=what, ends="a person replies", id=row.id, session_id=below
        )
    if row.kind == "form":
        return form_wait(asked, row.since, session_id=below)
    questions = asked.get("questions") or [{}]
    return WaitInfo(
        kind="question",
        since=row.since,
        what=f"an answer{child}: {questions[0].get('question', '')[:200]}",
        ends="a person answers or dismisses it",
        id=row.id,
        session_id=below,
    )


def form_wait(form: Mapping[str, Any], since: int, *, session_id: str | None = None) -> WaitInfo:
    """`session_id` is the child that asks, if it is one."""
    about = form.get("metadata") or {}
    child = f" for the child {session_id}" if session_id is not None else ""
    if about.get("kind") == AUTHORIZATION:
        return WaitInfo(
            kind="authorization",
            since=since,
            what=f"a sign-in to the MCP server {about.get('server', '')}{child}"[:TEXT],
            ends="somebody signs in, or cancels the form",
            id=form["id"],
            session_id=session_id,
        )
    text = about.get("message") if isinstance(about.get("message"), str) else ""
    what = f"a form{child}: {form.get('title', '')}{f': {text}' if text else ''}"
    ends = "a person answers or cancels it"
    return WaitInfo(kind="form", since=since, what=what[:TEXT], ends=ends, id=form["id"], session_id=session_id)


def blocked_wait(blocked: Blocked) -> WaitInfo:
    return WaitInfo(
        kind="blocked",
        since=blocked.since,
        what=f"what keeps the pending input from starting: {blocked.message}",
        ends="a node that serves the directory starts, or the input is withdrawn"
        if blocked.name == NoNodeServes.__name__
        else "another agent or model is chosen, the configuration is corrected, or the input is withdrawn",
        id=blocked.name,
    )


def recovery_wait(status: InterruptedActivity) -> WaitInfo:
    needed = "a decision" if status.decision else "a process that goes on"
    what = f"{needed}: {status.what}"
    return WaitInfo(kind="recovery", since=status.since, what=what, ends=status.next, calls=status.calls)


def _shell(shell: OpenShell) -> WaitInfo:
    what, ends = f"the command {shell.command[:200]}", "it ends, or an interruption"
    return WaitInfo(kind="tool", since=shell.since, what=what, ends=ends, id=shell.call_id)


def _clock_time(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%H:%M:%S UTC")
