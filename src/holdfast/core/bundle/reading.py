"""Reads a bundle that may have been made to harm: parts in the order of the manifest, with the sizes and hashes that it
says. Nothing of a bundle becomes a path."""

from __future__ import annotations

import hashlib
import re
from typing import IO, TYPE_CHECKING

import msgspec

from holdfast.core.bundle.archive import ArchiveReader
from holdfast.core.bundle.errors import BundleInvalid
from holdfast.core.bundle.lines import Digest, event_groups
from holdfast.schema.bundle import FORMAT, VERSION, BundleManifest
from holdfast.schema.codec import decoder
from holdfast.schema.ids import is_session_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.schema.bundle import BundlePart, BundleSession
    from holdfast.schema.event import SerializedEvent

MANIFEST = "manifest.json"
MANIFEST_BYTES = 64 * 1024 * 1024
MOST_PARTS = 100_000
MOST_SEQUENCES = 2**53
ID_CHARACTERS = 200
FILE_NAME = re.compile(r"tool_[0-9A-Za-z]{8,64}")
SHA256 = re.compile(r"[0-9a-f]{64}")


class BundleReader:
    """One pass over a bundle: the manifest, then the events of each Session, then the files. Blocking."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        """`most` bounds the bytes of all parts, before compression."""
        self._archive = ArchiveReader(file)
        entry = self._archive.next(MANIFEST_BYTES)
        if entry is None or entry.name != MANIFEST:
            raise BundleInvalid("it does not begin with a manifest")
        text = b"".join(self._archive.chunks())
        self.digest = hashlib.sha256(text).hexdigest()
        self.manifest = _manifest(text)
        self.size = sum(part.size for part in _parts(self.manifest))
        if self.size > most:
            raise BundleInvalid(f"it has {self.size:,} bytes, and at most {most:,} are taken")

    def events(self, session: BundleSession) -> Iterator[list[SerializedEvent]]:
        """The events of the next Session, in groups. The hash is known to be right only after the last one."""
        part = session.events
        yield from event_groups(self._content(part), session.id, part.name, session.first, session.last)

    def file(self, part: BundlePart) -> Iterator[bytes]:
        """The next file. The hash is known to be right only after the last piece."""
        yield from self._content(part)

    def end(self) -> None:
        """After everything was read."""
        if self._archive.next(0) is not None:
            raise BundleInvalid("it has parts that its manifest does not name")

    def _content(self, part: BundlePart) -> Iterator[bytes]:
        entry = self._archive.next(part.size)
        if entry is None or entry.name != part.name:
            raise BundleInvalid(f"its part {part.name} is missing")
        digest = Digest()
        for chunk in self._archive.chunks():
            digest.add(chunk)
            yield chunk
        if digest.part(part.name) != part:
            raise BundleInvalid(f"its part {part.name} is not what the manifest says: size or SHA-256 differ")


def event_part_name(number: int) -> str:
    return f"events/{number:06}.jsonl"


def file_part_name(number: int) -> str:
    return f"files/{number:06}"


def _manifest(text: bytes) -> BundleManifest:
    try:
        found = decoder(dict[str, msgspec.Raw]).decode(text)
        if decoder(str).decode(found.get("format", b'""')) != FORMAT:
            raise BundleInvalid("its manifest is not that of a Holdfast bundle")
        version = decoder(int).decode(found.get("version", b"0"))
        if version != VERSION:
            raise BundleInvalid(f"it has version {version} of the format, and this Holdfast knows {VERSION}")
        manifest: BundleManifest = decoder(BundleManifest).decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleInvalid(f"its manifest cannot be read ({error})") from error
    _check(manifest)
    return manifest


def _check(manifest: BundleManifest) -> None:
    sessions, files = manifest.sessions, manifest.files
    if not sessions or len(sessions) + len(files) > MOST_PARTS:
        raise BundleInvalid(f"it has {len(sessions)} Sessions and {len(files)} files")
    projects = {project.id for project in manifest.projects}
    known: set[str] = set()
    for number, session in enumerate(sessions, 1):
        if not is_session_id(session.id) or len(session.id) > ID_CHARACTERS or session.id in known:
            raise BundleInvalid(f"its manifest has the Session {session.id[:ID_CHARACTERS]!r} twice, or it is no id")
        if not known.issuperset((*session.sources, *((session.parent_id,) if session.parent_id else ()))):
            raise BundleInvalid(f"what {session.id} belongs to does not come before it")
        if session.project_id not in projects:
            raise BundleInvalid(f"the project of {session.id} is missing")
        if not 0 <= session.first <= session.last <= MOST_SEQUENCES:
            raise BundleInvalid(f"the events {session.first} … {session.last} of {session.id} are none")
        _check_part(session.events, event_part_name(number))
        known.add(session.id)
    for number, file in enumerate(files, 1):
        if FILE_NAME.fullmatch(file.name) is None:
            raise BundleInvalid(f"{file.name[:ID_CHARACTERS]!r} is not the name of a managed file")
        _check_part(file.content, file_part_name(number))
    if len({file.name for file in files}) != len(files):
        raise BundleInvalid("it has a managed file twice")
    if not known.issuperset(manifest.requested):
        raise BundleInvalid("a Session that was asked for is missing")


def _check_part(part: BundlePart, name: str) -> None:
    if part.name != name or part.size < 0 or SHA256.fullmatch(part.sha256) is None:
        raise BundleInvalid(f"its manifest describes {name} in a way that no bundle has")


def _parts(manifest: BundleManifest) -> Iterator[BundlePart]:
    yield from (session.events for session in manifest.sessions)
    yield from (file.content for file in manifest.files)
