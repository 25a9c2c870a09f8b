"""Imports a bundle: all of it, or nothing.

The bundle is read twice. First everything is verified and compared with the store, and nothing is written. Then the
events are appended, the hashes checked once more, and whatever goes wrong takes back what was written. If the process
is killed meanwhile, the same import goes on where it ended, because a Session whose first events are there is extended.

Invariants
- Nothing is executed and nobody is woken: what a Session owes waits for a person (`attempt.hold`).
- Which events came from elsewhere is written in the commit that appends them (`import.record`), before their
  projections, which close the requests in them. So a request of a bundle is never open here, its answer never lets a
  call run, and a rebuild gives the same rows.
- A Session that has events of this store is only continued, unless the caller accepts more (`continuation.py`)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import IO, TYPE_CHECKING

from holdfast.core.bundle import managed_files
from holdfast.core.bundle.checks import EventChecks
from holdfast.core.bundle.continuation import Continuation
from holdfast.core.bundle.errors import BundleConflict, BundleInvalid
from holdfast.core.bundle.in_thread import each_in_thread, in_thread
from holdfast.core.bundle.reading import BundleReader
from holdfast.core.database.errors import InvalidDurableEvent, Moved
from holdfast.core.database.unit import Statement
from holdfast.core.event.author import author_name
from holdfast.core.event.imported_events import ImportedRange, imported_ranges
from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.session.activity import HELD
from holdfast.core.session.budget_projector import budget_deleted
from holdfast.schema.bundle import ImportedSession, ImportReport
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.store import SessionStore
    from holdfast.core.tool.output import OutputStore
    from holdfast.schema.bundle import BundleManifest, BundleSession
    from holdfast.schema.event import SerializedEvent

log = logging.getLogger(__name__)


class _Planned(Frozen):
    """A Session of the bundle, and the last event of it that the store has; -1 without any."""

    session: BundleSession
    head: int
    projects: frozenset[str]
    changes: tuple[str, ...] = ()
    closed: int = 0

    @property
    def complete(self) -> bool:
        return self.head >= self.session.last


class _Done:
    """What was written, to be taken back if the import fails."""

    def __init__(self) -> None:
        self.reached: dict[str, tuple[int, int]] = {}
        """By Session: the head before, and the last event that was written."""
        self.files: list[str] = []
        self.rebuilt: list[str] = []


class Importer:
    def __init__(
        self, log: EventLog, database: Database, store: SessionStore, outputs: OutputStore, clock: Clock
    ) -> None:
        self._log = log
        self._clock = clock
        self._database = database
        self._store = store
        self._folder = outputs.directory

    async def import_bundle(
        self,
        opened: Callable[[], IO[bytes]],
        most: int,
        told: Callable[[str, int, int], None] = lambda what, done, total: None,
        *,
        one_directory: bool = False,
        accept_changes: bool = False,
    ) -> ImportReport:
        """`opened` opens the bundle, twice; `most` bounds its size before compression. `one_directory` refuses a bundle
        with Sessions of several; `accept_changes` lets it change Sessions that are here. Raises BundleInvalid or
        BundleConflict, and then nothing was imported."""
        with opened() as file:
            reader = await in_thread(BundleReader, file, most)
            if one_directory:
                _expect_one_directory(reader.manifest)
            planned = await self._plan(reader, told)
            if not accept_changes:
                _refuse_changes(planned)
        manifest, done = reader.manifest, _Done()
        try:
            with opened() as file:
                again = await in_thread(BundleReader, file, most)
                if again.digest != reader.digest:
                    raise BundleInvalid("it was changed while it was read")
                await self._write(again, planned, done, told)
            await self._complete_sources(manifest, done)
        except BaseException:
            await run_to_completion(self._take_back(manifest, done))
            raise
        return ImportReport(
            digest=reader.digest,
            sessions=tuple([await self._report(item) for item in planned if not item.session.deleted]),
            events=sum(
                item.session.last - max(item.head, item.session.first - 1) for item in planned if not item.complete
            ),
            files=len(done.files),
            redacted=manifest.redacted,
            missing_files=manifest.missing_files,
        )

    # -- before anything is written ------------------------------------------------------------------------------

    async def _plan(self, reader: BundleReader, told: Callable[[str, int, int], None]) -> list[_Planned]:
        manifest = reader.manifest
        planned = []
        relatives: set[str] = set()
        for number, session in enumerate(manifest.sessions):
            told("verifying", number, len(manifest.sessions))
            checks = EventChecks(session, self._log.adoption.check)
            head = await self._log.latest(session.id)
            continuation = Continuation(session.id, head, await imported_ranges(self._database, session.id))
            async for group in each_in_thread(reader.events(session)):
                checks.look(group)
                continuation.look(group)
                if head >= 0:
                    await self._compare(session, group, head, redacted=manifest.redacted)
            checks.end()
            if head >= session.last and not session.deleted and await self._store.find(session.id) is None:
                raise BundleConflict(f"{session.id} was deleted here, and its id cannot be used again")
            if not checks.projects <= {project.id for project in manifest.projects}:
                raise BundleInvalid(f"a project of {session.id} is missing")
            planned.append(
                _Planned(session, head, frozenset(checks.projects), tuple(continuation.changes), continuation.closed)
            )
            relatives |= checks.relatives
        for managed in manifest.files:
            async for _ in each_in_thread(reader.file(managed.content)):
                pass
            await in_thread(managed_files.is_there, self._folder, managed)
        await in_thread(reader.end)
        await self._check_relatives(relatives - {session.id for session in manifest.sessions})
        return planned

    async def _compare(
        self, session: BundleSession, group: list[SerializedEvent], head: int, *, redacted: bool
    ) -> None:
        stored = await self._log.serialized(session.id, after=group[0].seq - 1, limit=len(group))
        expected = [event for event in group if event.seq <= head]
        for ours, theirs in zip(stored, expected, strict=False):
            if _identity(ours) != _identity(theirs):
                why = "the bundle is redacted" if redacted else "both have gone on since they were the same"
                raise BundleConflict(
                    f"{session.id} is here already, and its event {theirs.seq} is another one: {why}. Import the "
                    "bundle into another database"
                )
        if len(stored) < len(expected):
            raise BundleConflict(f"{session.id} is here already, and begins with another event")

    async def _check_relatives(self, ids: set[str]) -> None:
        """A former parent and the child of a task may be gone, but must not be Sessions that are here."""
        for id in sorted(ids):
            if await self._store.find(id) is not None:
                raise BundleInvalid(f"it makes {id}, which is here and not part of it, a relative of its Sessions")

    # -- writing -------------------------------------------------------------------------------------------------

    async def _write(
        self, reader: BundleReader, planned: list[_Planned], done: _Done, told: Callable[[str, int, int], None]
    ) -> None:
        for number, item in enumerate(planned):
            told("importing", number, len(planned))
            reached = item.head
            async for group in each_in_thread(reader.events(item.session)):
                if events := [event for event in group if event.seq > reached]:
                    await self._append(reader.manifest, reader.digest, item, events, reached, done)
                    reached = events[-1].seq
        for managed in reader.manifest.files:
            if await in_thread(managed_files.restore, self._folder, managed, reader.file(managed.content)):
                done.files.append(managed.name)
        await in_thread(reader.end)

    async def _append(
        self,
        manifest: BundleManifest,
        digest: str,
        item: _Planned,
        events: list[SerializedEvent],
        after: int,
        done: _Done,
    ) -> None:
        session = item.session
        projects = () if after >= 0 else tuple(_projects(manifest, item.projects))
        origin = ImportedRange(
            first_seq=item.head + 1,
            last_seq=events[-1].seq,
            time=self._clock.now(),
            digest=digest,
            author=author_name(),
        )
        before = (origin.statement(session.id), *projects)
        try:
            await run_to_completion(self._commit(events, after, before, item, done))
        except Moved as error:
            raise BundleConflict(f"{session.id} was changed here while it was imported") from error
        except InvalidDurableEvent as error:
            raise BundleInvalid(f"events of {session.id} cannot be taken over ({error})") from error

    async def _commit(
        self, events: list[SerializedEvent], after: int, before: tuple[Statement, ...], item: _Planned, done: _Done
    ) -> None:
        """To its end, also if the import is cancelled: what was written is known then."""
        session_id = item.session.id
        await self._log.adoption.adopt(events, after=after, before=before, local=(_hold(session_id),))
        done.reached[session_id] = (item.head, events[-1].seq)

    async def _complete_sources(self, manifest: BundleManifest, done: _Done) -> None:
        """A source that gave up messages which a fork still shows has them again once the fork is there. Newest
        first."""
        shown = {source for session in manifest.sessions if session.id in done.reached for source in session.sources}
        for session in reversed(manifest.sessions):
            key: dict[str, Value] = {"session_id": session.id, "head": -1}
            if session.id in shown and await self._database.fetch("fork.source_changed", key):
                done.rebuilt.append(session.id)
                await self._log.rebuild(session.id)

    async def _take_back(self, manifest: BundleManifest, done: _Done) -> None:
        managed_files.remove(self._folder, done.files)
        for session_id, (head, reached) in reversed(done.reached.items()):
            forget = (
                Statement("attempt.forget", {"session_id": session_id}),
                Statement("import.forget", {"session_id": session_id, "first_seq": head + 1}),
                *budget_deleted(session_id),
            )
            try:
                await self._log.adoption.take_back(session_id, head=head, reached=reached, local=forget)
            except Moved:
                log.error("%s stays, though its import failed: somebody has used it already", session_id)
        shown = {source for session in manifest.sessions for source in session.sources}
        for session_id in dict.fromkeys((*done.rebuilt, *shown)):
            if await self._log.latest(session_id) >= 0:
                await self._log.rebuild(session_id)

    async def _report(self, item: _Planned) -> ImportedSession:
        session = await self._store.get(item.session.id)
        return ImportedSession(
            id=session.id,
            title=session.title,
            directory=session.location.directory,
            outcome="unchanged" if item.complete else "imported" if item.head < 0 else "extended",
            directory_exists=await in_thread(Path(session.location.directory).is_dir),
            interrupted=await self._store.activity(session.id) is not None,
            pending=0 if item.complete else len(await self._store.all_pending(session.id)),
            closed=0 if item.complete else item.closed,
            changes=() if item.complete else item.changes,
        )


def _expect_one_directory(manifest: BundleManifest) -> None:
    found = sorted({session.directory for session in manifest.sessions if session.id in manifest.requested})
    if len(found) > 1:
        raise BundleInvalid(
            f"its Sessions are in {len(found)} directories ({found[0]}, {found[1]}, …), and one cannot take "
            "the place of all"
        )


def _refuse_changes(planned: Sequence[_Planned]) -> None:
    for item in planned:
        if item.changes and not item.complete:
            raise BundleConflict(
                f"{item.session.id} is here already, and the bundle does more than continue it: it "
                f"{'; it '.join(item.changes)}. `holdfast import --accept-changes` takes that over, too"
            )


def _identity(event: SerializedEvent) -> tuple[object, ...]:
    return event.seq, event.id, event.type, bytes(event.data), event.metadata


def _hold(session_id: str) -> Statement:
    return Statement("attempt.hold", {"session_id": session_id, "count": HELD})


def _projects(manifest: BundleManifest, used: frozenset[str]) -> Iterator[Statement]:
    """With the earliest time, so that a project that is known here stays the one of its directory."""
    for project in manifest.projects:
        if project.id in used:
            row: dict[str, Value] = {"id": project.id, "worktree": project.worktree, "vcs": project.vcs}
            yield Statement("project.ensure", {**row, "time_created": 0})
