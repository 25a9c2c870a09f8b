"""Writes Sessions to a bundle.

The events are read twice: once for their sizes and hashes, which the manifest has in front, and once to be written. The
log only grows, and what came after the first reading is left out, so both read the same. Memory holds one page of
events at a time, and at most one managed file."""

from __future__ import annotations

import hashlib
from typing import IO, TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from holdfast.core.bundle.archive import READ_BYTES, ArchiveWriter
from holdfast.core.bundle.in_thread import in_thread
from holdfast.core.bundle.lines import Digest, encode_line
from holdfast.core.bundle.reading import MANIFEST, event_part_name, file_part_name
from holdfast.core.session.errors import SessionNotFound
from holdfast.core.tool.output import MANAGED_NAME
from holdfast.schema.bundle import (
    FORMAT,
    VERSION,
    BundleFile,
    BundleManifest,
    BundleProject,
    BundleReport,
    BundleSession,
)
from holdfast.schema.codec import decoder, encode, encode_text
from holdfast.schema.exceptions import Conflict, InvalidRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_event import Moved, SessionUpdated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

    from holdfast.core.bundle.selection import SelectedSession, Selecting, Selection
    from holdfast.core.database.database import Database
    from holdfast.core.event.log import EventLog
    from holdfast.core.redaction import Redaction
    from holdfast.core.tool.output import OutputStore
    from holdfast.schema.bundle import BundlePart
    from holdfast.schema.event import SerializedEvent

PAGE = 100
WITH_RECORD = ("session.created.1", "session.updated.1")
MOVED = "session.next.moved.1"


class _Surveyed(Frozen):
    """What the first reading of a Session found."""

    session: BundleSession
    projects: frozenset[str]
    files: frozenset[str]


class _Project(Frozen):
    id: str
    worktree: str
    vcs: str | None


class Exporter:
    def __init__(self, log: EventLog, database: Database, selecting: Selecting, outputs: OutputStore) -> None:
        self._log = log
        self._database = database
        self._selecting = selecting
        self._outputs = outputs

    async def export(
        self,
        session_ids: list[str] | None,
        file: IO[bytes],
        told: Callable[[str, int, int], None] = lambda what, done, total: None,
        *,
        redaction: Redaction,
        check: Callable[[str], Awaitable[None]] | None = None,
    ) -> BundleReport:
        """Write a bundle with the trees of these Sessions, or of all, to a file that the caller owns. `told` gets what
        is done, how many Sessions are done, and how many there are. `check` raises for a Session that may not be in it.
        Raises SessionNotFound."""
        selection = await self._selecting.select(session_ids)
        if check is not None:
            for selected in selection.sessions:
                await check(selected.id)
        if not selection.sessions:
            raise InvalidRequest("There are no sessions to export.")
        manifest = await self._manifest(selection, redaction, told)
        text = msgspec.json.format(encode(manifest), indent=1) + b"\n"
        archive = ArchiveWriter(file)
        archive.begin(MANIFEST, len(text))
        archive.write(text)
        for number, session in enumerate(manifest.sessions):
            told("writing", number, len(manifest.sessions))
            archive.begin(session.events.name, session.events.size)
            digest = Digest()
            async for page in self._pages(session.id, session.last):
                await in_thread(_write_lines, archive, digest, page, redaction)
            _expect_same(digest, session.events)
        for managed in manifest.files:
            await in_thread(_write_file, archive, self._outputs.directory / managed.name, managed.content, redaction)
        await in_thread(archive.finish)
        return BundleReport(
            digest=hashlib.sha256(text).hexdigest(),
            requested=manifest.requested,
            sessions=len(manifest.sessions),
            events=sum(session.last - session.first + 1 for session in manifest.sessions),
            files=len(manifest.files),
            bytes=sum(part.size for part in _parts(manifest)),
            redacted=manifest.redacted,
            missing_files=manifest.missing_files,
        )

    async def _manifest(
        self, selection: Selection, redaction: Redaction, told: Callable[[str, int, int], None]
    ) -> BundleManifest:
        surveyed = []
        for number, session in enumerate(selection.sessions, 1):
            told("reading", number - 1, len(selection.sessions))
            surveyed.append(await self._survey(session, event_part_name(number), redaction))
        names = sorted(frozenset().union(*(found.files for found in surveyed)))
        kept = [name for name in names if self._outputs.is_managed(self._outputs.directory / name)]
        return BundleManifest(
            format=FORMAT,
            version=VERSION,
            requested=selection.requested,
            redacted=redaction.active,
            projects=await self._projects(surveyed, redaction),
            sessions=tuple(found.session for found in surveyed),
            files=tuple([await in_thread(self._file, name, number, redaction) for number, name in enumerate(kept, 1)]),
            missing_files=tuple(sorted(set(names) - set(kept))),
        )

    async def _survey(self, session: SelectedSession, name: str, redaction: Redaction) -> _Surveyed:
        digest, first, record = Digest(), -1, None
        projects, files = set[str](), set[str]()
        async for page in self._pages(session.id, session.head):
            first = page[0].seq if first < 0 else first
            for event in page:
                if event.type in WITH_RECORD:
                    record = decoder(SessionUpdated).decode(event.data).info
                    projects.add(record.project_id)
                elif event.type == MOVED and record is not None:
                    directory = decoder(Moved).decode(event.data).location.directory
                    record = replace(record, directory=directory)
            files |= await in_thread(_survey_lines, digest, page, redaction)
        if record is None:
            raise SessionNotFound(session.id)
        # What the exported events say: the rows may be those of later ones.
        described = BundleSession(
            id=session.id,
            title=redaction.apply(record.title),
            directory=redaction.apply(record.directory),
            project_id=record.project_id,
            parent_id=None if session.deleted else record.parent_id,
            sources=session.sources,
            deleted=session.deleted,
            first=first,
            last=session.head,
            events=digest.part(name),
        )
        return _Surveyed(described, frozenset(projects), frozenset(files))

    async def _pages(self, session_id: str, last: int) -> AsyncIterator[list[SerializedEvent]]:
        after = -1
        while after < last and (page := await self._log.serialized(session_id, after=after, limit=PAGE)):
            after = page[-1].seq
            yield [event for event in page if event.seq <= last]

    async def _projects(self, surveyed: Iterable[_Surveyed], redaction: Redaction) -> tuple[BundleProject, ...]:
        ids = sorted(frozenset().union(*(found.projects for found in surveyed)))
        rows = await self._database.fetch_large("bundle.projects", {"ids": encode_text(ids)}, into=_Project)
        known = {row.id: row for row in rows}
        return tuple(
            BundleProject(id=id, worktree=redaction.apply(known[id].worktree), vcs=known[id].vcs)
            if id in known
            else BundleProject(id=id, worktree="")
            for id in ids
        )

    def _file(self, name: str, number: int, redaction: Redaction) -> BundleFile:
        digest = Digest()
        for chunk in _chunks(self._outputs.directory / name, redaction):
            digest.add(chunk)
        return BundleFile(name=name, content=digest.part(file_part_name(number)))


def _survey_lines(digest: Digest, events: list[SerializedEvent], redaction: Redaction) -> set[str]:
    found: set[str] = set()
    for event in events:
        digest.add(encode_line(_redacted(event, redaction)))
        found.update(name.decode() for name in MANAGED_NAME.findall(event.data))
    return found


def _write_lines(archive: ArchiveWriter, digest: Digest, events: list[SerializedEvent], redaction: Redaction) -> None:
    for event in events:
        line = encode_line(_redacted(event, redaction))
        digest.add(line)
        archive.write(line)


def _redacted(event: SerializedEvent, redaction: Redaction) -> SerializedEvent:
    if not redaction.active:
        return event
    return replace(event, data=msgspec.Raw(redaction.apply_to_json(bytes(event.data))))


def _write_file(archive: ArchiveWriter, path: Path, part: BundlePart, redaction: Redaction) -> None:
    archive.begin(part.name, part.size)
    digest = Digest()
    try:
        for chunk in _chunks(path, redaction):
            digest.add(chunk)
            if digest.size <= part.size:
                archive.write(chunk)
    except FileNotFoundError:
        pass
    _expect_same(digest, part)


def _chunks(path: Path, redaction: Redaction) -> Iterator[bytes]:
    """The content of a managed file. To be redacted it is read at once: a secret may be anywhere in it."""
    if redaction.active:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        yield redaction.apply(text).encode("utf-8", "surrogateescape")
        return
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            yield chunk


def _expect_same(digest: Digest, part: BundlePart) -> None:
    if digest.part(part.name) != part:
        raise Conflict("Something was removed while it was exported; export again", resource="session")


def _parts(manifest: BundleManifest) -> Iterator[BundlePart]:
    yield from (session.events for session in manifest.sessions)
    yield from (file.content for file in manifest.files)
