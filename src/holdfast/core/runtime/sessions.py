"""The facade: every operation on Sessions that a client can ask for. HTTP, clients and embedding end up here."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement
from holdfast.core.project.project import subpath
from holdfast.core.runner.checkpoint import inspect
from holdfast.core.runtime.outcome import outcome_of
from holdfast.core.session.errors import (
    BackgroundOff,
    CompactionInUse,
    NothingToCompact,
    SessionNotFound,
    UnknownBoundary,
)
from holdfast.core.session.inbox import Given
from holdfast.core.session.records import NewSession
from holdfast.core.session.shell_command import check_command
from holdfast.core.session.stored_messages import MessagePlace
from holdfast.schema.insight import Outcome
from holdfast.schema.session_event import CompactionUndone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

    from holdfast.core.event.log import Holding
    from holdfast.core.project.project import Project
    from holdfast.core.runner.runner import Runner
    from holdfast.core.runner.services import SessionServices
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.runtime.forks import Forks
    from holdfast.core.runtime.moves import Moves
    from holdfast.core.runtime.prompt_check import PromptCheck
    from holdfast.core.runtime.purges import Purges
    from holdfast.core.runtime.recovery import Recovery
    from holdfast.core.runtime.reverts import Reverts
    from holdfast.core.runtime.tree_changes import TreeChanges
    from holdfast.core.runtime.waits import Waits
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.mentioned import Mentioned
    from holdfast.core.session.ownership import Lease
    from holdfast.core.session.records import SessionRecords
    from holdfast.core.session.stored_messages import StoredMessage
    from holdfast.core.session.stored_sessions import Direction, Order, SessionAnchor, SessionFilter
    from holdfast.schema.budget import Budget
    from holdfast.schema.event import EventEnvelope
    from holdfast.schema.insight import CheckpointInfo, InterruptedActivity, WaitInfo
    from holdfast.schema.location import Location
    from holdfast.schema.model import ModelRef
    from holdfast.schema.prompt import Admission, Delivery, Prompt, SyntheticInput
    from holdfast.schema.retention import PurgeReport
    from holdfast.schema.session import Revert, Session

T = TypeVar("T")


class Sessions:
    def __init__(
        self,
        services: SessionServices,
        *,
        execution: Execution,
        records: SessionRecords,
        reverts: Reverts,
        moves: Moves,
        forks: Forks,
        recovery: Recovery,
        waits: Waits,
        check: PromptCheck,
        tree_changes: TreeChanges,
        purges: Purges,
    ) -> None:
        self._log = services.log
        self._store = services.store
        self._inbox = services.inbox
        self._execution = execution
        self._records = records
        self._reverts = reverts
        self._moves = moves
        self._forks = forks
        self._recovery = recovery
        self._waits = waits
        self._check = check
        self._tree_changes = tree_changes
        self._purges = purges
        self._ids = services.ids
        self._clock = services.clock
        self._budgets = services.budgets
        self._ongoing: set[asyncio.Task[Any]] = set()

    async def create(
        self,
        *,
        location: Location,
        project: Project,
        id: str | None = None,
        agent: str | None = None,
        model: ModelRef | None = None,
        budget: Budget | None = None,
    ) -> Session:
        """A new Session, or the one that has this id already, whatever else was asked. The id of a deleted Session is
        refused: its events are still in the log."""
        if id is not None and (known := await self._store.find(id)) is not None:
            return known
        ensure = Statement(
            "project.ensure",
            {
                "id": project.id,
                "worktree": str(project.listed_directory),
                "vcs": "git" if project.store else None,
                "time_created": self._clock.now(),
            },
        )
        new = NewSession(
            id=id or self._ids.session(),
            project_id=project.id,
            location=location,
            subpath=subpath(location.directory, project.listed_directory),
            agent=agent,
            model=model,
            budget=budget,
        )
        return await self._detached(self._records.create(new, before=(ensure,)))

    async def get(self, session_id: str) -> Session:
        return await self._store.get(session_id)

    async def page(
        self, chosen: SessionFilter, *, order: Order, limit: int, anchor: SessionAnchor | None = None
    ) -> list[Session]:
        return await self._store.page(chosen, order=order, limit=limit, anchor=anchor)

    async def prompt(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        id: str | None = None,
        delivery: Delivery = "steer",
        resume: bool = True,
        checked: bool = False,
        mentioned: Mentioned | None = None,
    ) -> Admission:
        """Admit durably, then wake. Never runs a turn and never waits for one; a caller that goes away in the middle
        cannot separate the commit from the wake. `checked` refuses an agent or a model that does not exist.
        `mentioned` is what the mentions in the text were resolved to."""
        return await self._detached(self._prompt(session_id, prompt, id, delivery, resume, checked, mentioned))

    async def admitted(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        id: str | None,
        delivery: Delivery = "steer",
        resume: bool = True,
    ) -> Admission | None:
        """The receipt of this prompt if it was admitted before, with another wake. It is recognised by its id and by
        what was sent, so it need not be resolved again. Raises PromptConflict or PromptWithdrawn."""
        if id is None:
            return None
        given = Given(session_id, id, prompt, delivery)
        receipt = await self._detached(self._inbox.admitted(given, wake=resume))
        if receipt is not None and resume:
            self._execution.wake(session_id)
        return receipt

    async def synthetic(
        self,
        session_id: str,
        given: SyntheticInput,
        *,
        id: str | None = None,
        delivery: Delivery = "steer",
        resume: bool = True,
    ) -> Admission:
        """Admit text that a program adds to the conversation, then wake. While a revert is staged nothing is woken: the
        person has not decided yet."""
        return await self._detached(self._synthetic(session_id, given, id, delivery, resume))

    async def pending(self, session_id: str) -> list[Admission]:
        """Inputs that were admitted and are not part of the conversation yet, oldest first."""
        await self._store.get(session_id)
        return await self._store.all_pending(session_id)

    async def withdraw(self, session_id: str, message_id: str, *, once: bool = False) -> None:
        """Take a pending input back. A promoted one is a conflict, and with `once` a withdrawn one too."""
        session = await self._store.get(session_id)
        await self._detached(self._inbox.withdraw(session_id, message_id, session.location, once=once))

    async def deliver_as(self, session_id: str, message_id: str, delivery: Delivery) -> None:
        """Change the delivery of a pending input. A steer wakes the Session."""
        session = await self._store.get(session_id)
        await self._detached(self._deliver_as(session, message_id, delivery))

    async def switch_agent(self, session_id: str, agent: str) -> None:
        await self._detached(self._records.switch_agent(session_id, agent))
        await self._try_again(session_id)

    async def switch_model(self, session_id: str, model: ModelRef) -> None:
        await self._detached(self._records.switch_model(session_id, model))
        await self._try_again(session_id)

    async def rename(self, session_id: str, title: str) -> Session:
        return await self._detached(self._records.rename(session_id, title))

    async def archive(self, session_id: str, *, archived: bool = True) -> Session:
        return await self._detached(self._records.archive(session_id, archived=archived))

    async def pin(self, session_id: str, *, pinned: bool = True) -> Session:
        return await self._detached(self._records.pin(session_id, pinned=pinned))

    async def delete(self, session_id: str, *, keep_children: bool = False) -> None:
        """Interrupts what runs, then removes the Session and its descendants from every view. Their events stay in the
        log. With `keep_children` the children stay, without a parent."""
        await self._store.get(session_id)
        await self._detached(self._delete(session_id, keep_children=keep_children))

    async def purge(self, session_ids: Sequence[str]) -> PurgeReport:
        """Interrupts what runs, then removes these Sessions for good, with their descendants. It goes on even if the
        caller leaves. Raises SessionNotFound and PurgeRefused."""
        return await self._detached(self._purges.purge(session_ids))

    async def move(self, session_id: str, directory: str, *, move_changes: bool = False) -> None:
        await self._detached(self._moves.move(session_id, directory, move_changes=move_changes))

    async def stage_revert(
        self, session_id: str, message_id: str, *, files: bool = True, before: bool = False
    ) -> Revert:
        await self._store.get(session_id)
        return await self._detached(self._reverts.stage(session_id, message_id, files=files, before=before))

    async def clear_revert(self, session_id: str) -> None:
        await self._detached(self._reverts.clear(session_id))

    async def commit_revert(self, session_id: str) -> None:
        await self._detached(self._commit_revert(session_id))

    async def fork(self, session_id: str, before: str | None = None) -> Session:
        """A new Session that shares the conversation of this one: up to a message, or all that is complete."""
        return await self._detached(self._forks.fork(session_id, before))

    async def compact(self, session_id: str, instructions: str | None = None) -> None:
        """Summarise older history now. Takes no turn; pending input stays pending."""
        await self._store.get(session_id)

        async def compact(runner: Runner, lease: Lease, interrupt: Interrupt) -> None:
            await runner.compact(session_id, lease, interrupt, instructions)

        await self._detached(self._execution.exclusively(session_id, compact))

    async def shell(self, session_id: str, command: str, *, id: str | None = None) -> None:
        """Run a command and make it part of the conversation. Waits until the Session is idle; takes no turn. The same
        id and command again does not run it again. Raises ShellRefused."""
        check_command(command)
        await self._store.get(session_id)
        message_id = id or self._ids.message()

        async def run(runner: Runner, lease: Lease, interrupt: Interrupt) -> None:
            await runner.shell(session_id, lease, interrupt, command, message_id)

        await self._detached(self._execution.exclusively(session_id, run))

    async def undo_compaction(self, session_id: str) -> None:
        """Make the boundary before the newest checkpoint active again, while nothing followed it."""
        session = await self._store.get(session_id)
        newest = await self._store.newest_checkpoint(session_id)
        if newest is None:
            raise NothingToCompact(session_id)
        place = MessagePlace(newest.seq, newest.owner_id)
        undone = CompactionUndone(
            timestamp=self._clock.now(),
            session_id=session_id,
            message_id=newest.id,
            message_seq=place.shared_seq(session_id),
        )
        key = {"session_id": session_id, "message_id": newest.id}
        unused = Statement("message.undoable_checkpoint", key, found=True, error=UnknownBoundary)
        try:
            publishing = self._log.publish(undone, location=session.location, before=(unused,), shares_lineage=True)
            await self._detached(publishing)
        except UnknownBoundary as refused:
            raise CompactionInUse(session_id, newest.id) from refused

    async def checkpoint(self, session_id: str) -> CheckpointInfo | None:
        """The newest checkpoint with what it replaced."""
        await self._store.get(session_id)
        return await inspect(self._store, session_id)

    async def interrupted(self) -> list[InterruptedActivity]:
        """What Sessions owe and no living process works on."""
        return await self._recovery.interrupted()

    async def recover(self, session_id: str, decision: Literal["continue", "abandon", "policy"]) -> None:
        await self._recovery.decide(session_id, decision)

    async def waits(self, session_id: str) -> list[WaitInfo]:
        """For what the Session waits right now, since when, and what ends that."""
        await self._store.get(session_id)
        return await self._waits.of(session_id)

    async def messages(
        self, session_id: str, *, order: Order, limit: int, anchor: int | None = None, direction: Direction = "next"
    ) -> list[StoredMessage]:
        store = self._store
        return await store.for_people(
            session_id,
            lambda: store.messages(session_id, order=order, limit=limit, anchor=anchor, direction=direction),
        )

    async def message(self, session_id: str, message_id: str) -> StoredMessage:
        async def read() -> list[StoredMessage]:
            return [await self._store.message(session_id, message_id)]

        return (await self._store.for_people(session_id, read))[0]

    async def context(self, session_id: str) -> list[StoredMessage]:
        """The messages selected as model history; never the baseline, the tools or other request parts."""
        return await self._store.for_people(session_id, lambda: self._store.active_history(session_id))

    async def history(self, session_id: str, *, after: int = -1, limit: int = 50) -> tuple[list[EventEnvelope], bool]:
        await self._store.get(session_id)
        return await self._log.history(session_id, after=after, limit=limit)

    async def events(
        self, session_id: str, *, after: int = -1, holding: Holding = nullcontext
    ) -> AsyncIterator[list[EventEnvelope]]:
        """Durable public events after a sequence, then new ones as they are committed; `holding` as for the log."""
        await self._store.get(session_id)
        async with aclosing(self._log.tail(session_id, after=after, holding=holding)) as tail:  # type: ignore[type-var]
            async for events in tail:
                yield events

    async def live_events(
        self, session_id: str, *, after: int = -1, holding: Holding = nullcontext
    ) -> AsyncIterator[list[bytes]]:
        """As `events`, with live events of the Session among them; encoded, live ones marked."""
        await self._store.get(session_id)
        async with aclosing(self._log.tail_live(session_id, after=after, holding=holding)) as tail:  # type: ignore[type-var]
            async for events in tail:
                yield events

    async def run(self, session_id: str) -> None:
        """Go on from history, at least once, or join what runs. Raises what the drain raised."""
        await self._store.get(session_id)
        await self._execution.run(session_id)

    async def run_to_outcome(self, session_id: str) -> Outcome:
        """The same for clients: how it ended is told, not raised."""
        try:
            await self.run(session_id)
        except (SessionNotFound, StorageError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever ended it is the outcome
            outcome = await outcome_of(self._store, session_id)
            if outcome.type not in ("idle", "completed"):
                return outcome
            return Outcome(type="failed", message_id=outcome.message_id, error=str(error), pending=outcome.pending)
        return await outcome_of(self._store, session_id)

    async def outcome(self, session_id: str) -> Outcome:
        """Wait as `wait` does, and say how the last activity ended."""
        await self.wait(session_id)
        return await outcome_of(self._store, session_id)

    async def wake(self, session_id: str) -> None:
        await self._store.get(session_id)
        self._execution.wake(session_id)

    async def wait(self, session_id: str) -> None:
        await self._store.get(session_id)
        await self._execution.wait(session_id)

    async def interrupt(self, session_id: str, *, background: bool = False) -> None:
        """Stop what runs, with the tasks that its calls wait for; with `background`, everything below it. It happens
        even if the caller leaves."""
        await self._detached(self._interrupt(session_id, background))

    async def background(self, session_id: str, *, allowed: bool) -> None:
        """Let the tasks that calls of this Session wait for go on in the background. Without any nothing happens.
        `allowed` is what the configuration says. Raises BackgroundOff."""
        await self._store.get(session_id)
        if not allowed:
            raise BackgroundOff(session_id)
        await self._detached(self._execution.background(session_id))

    async def active(self) -> list[str]:
        return await self._execution.active()

    async def close(self) -> None:
        if self._ongoing:
            await asyncio.wait(self._ongoing)

    async def _prompt(
        self,
        session_id: str,
        prompt: Prompt,
        id: str | None,
        delivery: Delivery,
        resume: bool,
        checked: bool,
        mentioned: Mentioned | None,
    ) -> Admission:
        # Not as of the request's head: its body may take minutes to come.
        session, used = await self._store.for_admission(session_id, id)
        receipt = await self._inbox.admit(
            session_id,
            prompt,
            id=id,
            delivery=delivery,
            location=session.location,
            wake=resume,
            first=lambda: self._reverts.deciding(session),  # writing on is the decision
            check=lambda: self._check.check(session, prompt.options, choices=checked),
            mentioned=mentioned,
            new=not used,
        )
        if resume:
            self._execution.wake(session_id)
        if session.revert is not None:
            await self._tree_changes.reverted(session_id)
        return receipt

    async def _commit_revert(self, session_id: str) -> None:
        await self._reverts.commit(session_id)
        await self._tree_changes.reverted(session_id)

    async def _deliver_as(self, session: Session, message_id: str, delivery: Delivery) -> None:
        steer = delivery == "steer"
        await self._inbox.deliver_as(session.id, message_id, delivery, session.location, wake=steer)
        if steer:
            self._execution.wake(session.id)

    async def _synthetic(
        self, session_id: str, given: SyntheticInput, id: str | None, delivery: Delivery, resume: bool
    ) -> Admission:
        session = await self._store.get(session_id)
        wake = resume and session.revert is None
        receipt = await self._inbox.admit_synthetic(
            session_id, given, id=id, delivery=delivery, location=session.location, wake=wake
        )
        if wake:
            self._execution.wake(session_id)
        return receipt

    async def _try_again(self, session_id: str) -> None:
        """What kept pending input from starting may be gone."""
        if await self._store.blocked(session_id) is not None:
            self._execution.wake(session_id)

    async def _delete(self, session_id: str, *, keep_children: bool) -> None:
        await self._tree_changes.delete(session_id, keep_children=keep_children)
        await self._budgets.changed(session_id)

    async def _interrupt(self, session_id: str, background: bool) -> None:
        await self._store.get(session_id)
        stopping = self._tree_changes.interrupt if background else self._tree_changes.interrupt_one
        await stopping(session_id)

    async def _detached(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.get_running_loop().create_task(work)
        self._ongoing.add(task)
        task.add_done_callback(self._ongoing.discard)
        return await asyncio.shield(task)
