"""The changes of an isolated copy, offered to the parent of the Session that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.process.git import GitFailed
from holdfast.core.snapshot.copy_changes import diff_text, listed
from holdfast.core.snapshot.errors import CopyFailed
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.snapshot.copy_changes import Save
    from holdfast.core.snapshot.copy_record import CopyRecord
    from holdfast.core.snapshot.copy_sessions import CopySessions
    from holdfast.core.snapshot.isolated_copies import IsolatedCopies

UNCHANGED = "It changed no files. Its isolated copy was removed."
UNCHANGED_KEPT = "It changed no files in its isolated copy at {directory}."
UNREADABLE = "What it changed in its isolated copy at {directory} cannot be told: {error}."
CHANGED = (
    "It worked in an isolated copy of the project, at {directory}. Nothing of it is in your files yet: call "
    "`apply_subagent` with this sessionID to apply it."
)
LEFT_OUT = "Not in this diff, because they are too large or repositories of their own: {paths}. Copy them yourself."


class CopyServices(Frozen):
    """What Locations share for isolated copies."""

    copies: IsolatedCopies
    sessions: CopySessions
    offers: CopyOffers


class CopyOffers:
    def __init__(self, copies: IsolatedCopies, sessions: CopySessions, save: Save) -> None:
        self._copies = copies
        self._sessions = sessions
        self._save = save

    async def text(self, session_id: str) -> str:
        """What the parent is told when a task of this Session is over; empty without a copy. The changes are recorded;
        a copy without changes is removed. Never raises CopyFailed."""
        record = self._copies.folder.read(session_id)
        if record is None or record.state != "ready":
            return ""
        directory = self._copies.directory(record)
        try:
            tree, left_out = await self._copies.capture(record)
            record = record.replace(result=tree)
            self._copies.record(record)
            touched = self._copies.folder.touched(session_id)
            if tree == record.base and not left_out:
                return await self._unchanged(record, touched)
            diff = await diff_text(self._copies.git(record), record.base, tree, self._save)
        except (CopyFailed, GitFailed) as error:
            return UNREADABLE.format(directory=directory, error=error)
        notes = [CHANGED.format(directory=directory)]
        if left_out:
            notes.append(LEFT_OUT.format(paths=listed(left_out)))
        return "\n".join((*notes, "", diff.text()))

    async def _unchanged(self, record: CopyRecord, touched: int) -> str:
        if not await self._sessions.works(record.session_id):
            try:
                await self._copies.remove(record, touched=touched)
            except CopyFailed:
                pass  # it is removed later
            else:
                return UNCHANGED
        return UNCHANGED_KEPT.format(directory=self._copies.directory(record))
