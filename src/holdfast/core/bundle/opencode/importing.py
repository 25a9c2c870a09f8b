"""Imports conversations of OpenCode. Each tree of Sessions becomes a bundle, which is imported as any other is: as a
whole or not at all, held, and without effect if it was imported before."""

from __future__ import annotations

import hashlib
import tempfile
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from holdfast.core.bundle.archive import ArchiveWriter
from holdfast.core.bundle.errors import BundleConflict
from holdfast.core.bundle.in_thread import in_thread
from holdfast.core.bundle.lines import Digest, encode_line
from holdfast.core.bundle.opencode.events import conversation_events
from holdfast.core.bundle.opencode.foreign import derived_id, is_id
from holdfast.core.bundle.opencode.source import Storage, read_file
from holdfast.core.bundle.opencode.stored_database import StoredDatabase, database_at
from holdfast.core.bundle.opencode.transcript import TranscriptInvalid
from holdfast.core.bundle.reading import MANIFEST, event_part_name
from holdfast.schema.bundle import FORMAT, VERSION, BundleManifest, BundleProject, BundleSession
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.transcript_import import ImportedTranscript, RefusedTranscript, TranscriptReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.bundle.bundles import Bundles
    from holdfast.core.bundle.opencode.transcript import Transcript
    from holdfast.core.database.database import Reads
    from holdfast.schema.bundle import ImportReport
    from holdfast.schema.event import SerializedEvent


class _Tree(Frozen):
    """Sessions with their events, parents before their children."""

    transcripts: Sequence[Transcript]
    ids: dict[str, str]
    """The id of each here, by the one it had."""
    events: Sequence[Sequence[SerializedEvent]]


class TranscriptImporter:
    def __init__(self, bundles: Bundles, database: Reads) -> None:
        self._bundles = bundles
        self._database = database

    async def import_from(
        self,
        path: Path,
        *,
        directory: str | None = None,
        told: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> TranscriptReport:
        """Import an exported file, or all Sessions of a folder or a database. A tree that cannot be imported is refused
        as a whole, and the others are imported."""
        if (file := await in_thread(database_at, path)) is not None:
            database = await in_thread(StoredDatabase, file)
            try:
                return await self._stored(database, directory, told)
            finally:
                await in_thread(database.close)
        if await in_thread(path.is_dir):
            return await self._stored(await in_thread(Storage, path), directory, told)
        return await self._all([lambda: read_file(path)], [], directory, told)

    async def _stored(
        self, storage: Storage | StoredDatabase, directory: str | None, told: Callable[[str, int, int], None]
    ) -> TranscriptReport:
        trees = await in_thread(storage.trees)
        reads = [lambda tree=tree: [storage.read(id) for id in tree] for tree in trees]
        return await self._all(reads, storage.refused, directory, told, leave_out_empty=True)

    async def _all(
        self,
        reads: Sequence[Callable[[], list[Transcript]]],
        refused: Sequence[TranscriptInvalid],
        directory: str | None,
        told: Callable[[str, int, int], None],
        *,
        leave_out_empty: bool = False,
    ) -> TranscriptReport:
        """`leave_out_empty`: trees without a message are counted only."""
        empty = 0
        imported: list[ImportedTranscript] = []
        failed = [RefusedTranscript(source=error.source, problem=error.problem) for error in refused]
        for number, read in enumerate(reads):
            told("importing", number, len(reads))
            try:
                transcripts = await in_thread(read)
            except TranscriptInvalid as error:
                failed.append(RefusedTranscript(source=error.source, problem=error.problem))
                continue
            if leave_out_empty and not any(item.messages for item in transcripts):
                empty += len(transcripts)
                continue
            try:
                imported += await self._one(transcripts, directory)
            except (BundleConflict, InvalidRequest) as error:
                failed.append(RefusedTranscript(source=transcripts[0].source, problem=str(error)))
        return TranscriptReport(sessions=tuple(imported), refused=tuple(failed), empty=empty)

    async def _one(self, transcripts: Sequence[Transcript], directory: str | None) -> list[ImportedTranscript]:
        """With the ids that they had, or, if these are in use for something else, with others."""
        tree = await in_thread(_tree, transcripts, {item.id: _kept(item) for item in transcripts}, None)
        try:
            if await self._ids_in_use(tree):
                raise BundleConflict("a message with the same id is here already")
            report = await self._import(tree, directory)
        except BundleConflict:
            mark = hashlib.sha256(b"".join(event.data for events in tree.events for event in events)).hexdigest()
            ids = {item.id: derived_id("ses", item.created, item.id, mark, descending=True) for item in transcripts}
            tree = await in_thread(_tree, transcripts, ids, mark)
            report = await self._import(tree, directory)
        told = {session.id: session for session in report.sessions}
        return [
            ImportedTranscript(
                source_id=item.id,
                id=tree.ids[item.id],
                title=told[tree.ids[item.id]].title,
                directory=told[tree.ids[item.id]].directory,
                directory_exists=told[tree.ids[item.id]].directory_exists,
                outcome=told[tree.ids[item.id]].outcome,
                events=0 if told[tree.ids[item.id]].outcome == "unchanged" else len(events),
                left_out=dict(sorted(item.lost.items())),
            )
            for item, events in zip(transcripts, tree.events, strict=True)
        ]

    async def _ids_in_use(self, tree: _Tree) -> bool:
        """Whether a Session that is not here has a message with the id of one that is."""
        for item in tree.transcripts:
            if await self._database.fetch("session.exists", {"id": tree.ids[item.id]}):
                continue
            for message in item.messages:
                key = {"id": message.id}
                if await self._database.fetch("message.exists", key) or await self._database.fetch("inbox.exists", key):
                    return True
        return False

    async def _import(self, tree: _Tree, directory: str | None) -> ImportReport:
        with tempfile.NamedTemporaryFile(prefix="holdfast-import-") as file:
            await in_thread(_write, tree, file)
            return await self._bundles.import_from(Path(file.name), directory=directory)


def _kept(transcript: Transcript) -> str:
    if is_id("ses", transcript.id):
        return transcript.id
    return derived_id("ses", transcript.created, transcript.id, descending=True)


def _tree(transcripts: Sequence[Transcript], ids: dict[str, str], mark: str | None) -> _Tree:
    events = []
    for item in transcripts:
        if item.parent_id is not None and item.parent_id not in ids:
            item.lost["parents that are not part of it"] += 1
        name = _as_it_was if mark is None else partial(_renamed, ids[item.id], item.created)
        events.append(conversation_events(item, ids[item.id], ids.get(item.parent_id or ""), name))
    return _Tree(transcripts, ids, events)


def _as_it_was(message_id: str) -> str:
    return message_id


def _renamed(session_id: str, time: int, message_id: str) -> str:
    return derived_id("msg", time, session_id, message_id)


def _write(tree: _Tree, file: IO[bytes]) -> None:
    """A bundle of the tree."""
    sessions, parts = [], []
    for number, (item, events) in enumerate(zip(tree.transcripts, tree.events, strict=True), 1):
        lines, digest = [encode_line(event) for event in events], Digest()
        for line in lines:
            digest.add(line)
        sessions.append(
            BundleSession(
                id=tree.ids[item.id],
                title=item.title,
                directory=item.directory,
                project_id=item.project_id,
                parent_id=tree.ids.get(item.parent_id or ""),
                first=0,
                last=len(events) - 1,
                events=digest.part(event_part_name(number)),
            )
        )
        parts.append(lines)
    worktrees = {item.project_id: item.worktree for item in tree.transcripts}
    manifest = BundleManifest(
        format=FORMAT,
        version=VERSION,
        requested=(sessions[0].id,),
        projects=tuple(BundleProject(id=id, worktree=worktree) for id, worktree in sorted(worktrees.items())),
        sessions=tuple(sessions),
    )
    text = msgspec.json.format(encode(manifest), indent=1)
    archive = ArchiveWriter(file)
    archive.begin(MANIFEST, len(text))
    archive.write(text)
    for session, lines in zip(sessions, parts, strict=True):
        archive.begin(session.events.name, session.events.size)
        for line in lines:
            archive.write(line)
    archive.finish()
    file.flush()
