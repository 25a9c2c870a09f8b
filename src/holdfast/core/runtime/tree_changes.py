"""Changes of whole trees: interrupting one, and deleting a Session with its children.

Invariants
- Children come before their parents, so that whatever ends in the middle leaves a tree: no Session has a parent that is
  gone. Repeating the operation completes it.
- A Session is deleted in a commit that requires it to have no children. A child is created in a commit that requires
  its parent to exist."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.runtime.end_work import interrupt_work
from holdfast.core.session.errors import SessionHasChildren, SessionNotFound
from holdfast.core.session.removal import not_written_to, used

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.runner.services import SessionServices
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.session.records import SessionRecords
    from holdfast.core.session.stored_trees import StoredTrees
    from holdfast.core.session.tasks import Tasks

ROUNDS = 20
"""How often a tree is looked at again because Sessions were added to it meanwhile."""


class TreeChanges:
    def __init__(
        self,
        services: SessionServices,
        trees: StoredTrees,
        execution: Execution,
        records: SessionRecords,
        tasks: Tasks,
    ) -> None:
        self._store = services.store
        self._inbox = services.inbox
        self._trees = trees
        self._execution = execution
        self._records = records
        self._tasks = tasks

    async def interrupt(self, session_id: str) -> None:
        """Interrupt a Session and everything below it, background tasks too. Their results are added to the inbox of
        the Session that gave them, and wake nobody."""
        with self._tasks.quietly(session_id):
            await self.interrupt_one(session_id)
            for _ in range(ROUNDS):
                tasks = await self._trees.background_tasks(session_id)
                ids = await self._trees.deepest_first(session_id)
                running = set(await self._execution.active()).intersection(ids)
                if not tasks and not running:
                    return
                with self._tasks.quietly(*ids):
                    for task in tasks:
                        await self._tasks.stop(task)
                    for id in ids:
                        if id in running:
                            await self.interrupt_one(id)

    async def delete(self, session_id: str, *, keep_children: bool = False, purging: bool = False) -> None:
        """Interrupt a Session and delete it: with everything below it, or without, and then its children have no parent
        any more. With `purging` all of them are marked to be purged. Raises SessionNotFound."""
        if keep_children:
            await self.interrupt_one(session_id)
        else:
            await self.interrupt(session_id)
        for attempt in range(1, ROUNDS + 1):
            if keep_children:
                await self._release_children(session_id)
            else:
                await self._delete_descendants(session_id, purging)
            try:
                await self._records.delete(session_id, purging=purging)
            except SessionHasChildren:  # one was created a moment ago
                if attempt == ROUNDS:
                    raise
                await self._execution.interrupt(session_id)
            else:
                await self._execution.child_ended(session_id)  # it may have ended without a drain
                return

    async def delete_unused(self, session_id: str, heads: Mapping[str, int]) -> None:
        """Delete one Session that has no children, and mark it to be purged, if nothing was written to any of these
        Sessions since it had this head. Raises SessionUsed, and PurgeRefused if a fork shows messages of it."""
        unchanged, others = not_written_to(heads), [id for id in heads if id != session_id]
        try:
            await self._records.delete(session_id, purging=True, before=(unchanged,), locks=others)
        except (SessionNotFound, SessionHasChildren) as error:
            raise used(session_id) from error

    async def reverted(self, session_id: str) -> None:
        """A revert was committed. Results that it took out of the inbox unread are delivered again."""
        await self._tasks.deliver_to(session_id)

    async def _delete_descendants(self, session_id: str, purging: bool) -> None:
        for id in (await self._trees.deepest_first(session_id))[:-1]:
            await self._execution.interrupt(id)
            with suppress(SessionNotFound, SessionHasChildren):  # somebody else deletes it, or it is tried again
                await self._records.delete(id, purging=purging)

    async def _release_children(self, session_id: str) -> None:
        for member in await self._trees.members(session_id):
            if member.depth == 1:
                with suppress(SessionNotFound):
                    await self._records.release(member.id)

    async def interrupt_one(self, session_id: str) -> None:
        """Interrupt a Session, with the tasks that its calls wait for. Of what an ended process left, calls that wait
        for a person are declined, and work that a process is about to continue is given up."""
        await self._execution.let_begin(session_id)
        paused = await self._store.pause(session_id) is not None
        if paused or session_id in await self._execution.active():
            await self._inbox.hold_back(session_id)
        if not paused:
            await interrupt_work(self._execution, self._store, session_id)
            return
        await self._execution.stop(session_id)  # what waits for a budget is not executed
        await self._execution.child_ended(session_id)
