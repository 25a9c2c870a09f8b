"""Verifies a bundle without a store: sizes, hashes, and that every event is one that this version can import."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from holdfast.core.bundle.checks import EventChecks
from holdfast.core.bundle.reading import BundleReader
from holdfast.schema.bundle import BundleReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.event.preparation import Prepared
    from holdfast.schema.event import SerializedEvent

MOST_BYTES = 64 * 1024**3
"""Of a bundle before compression, on the command line."""


def verify(
    file: IO[bytes],
    check: Callable[[SerializedEvent], Prepared],
    most: int = MOST_BYTES,
    told: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> BundleReport:
    """Read a bundle to its end. Raises BundleInvalid."""
    reader = BundleReader(file, most)
    manifest = reader.manifest
    for number, session in enumerate(manifest.sessions):
        told("verifying", number, len(manifest.sessions))
        checks = EventChecks(session, check)
        for group in reader.events(session):
            checks.look(group)
        checks.end()
    for managed in manifest.files:
        for _ in reader.file(managed.content):
            pass
    reader.end()
    return BundleReport(
        digest=reader.digest,
        requested=manifest.requested,
        sessions=len(manifest.sessions),
        events=sum(session.last - session.first + 1 for session in manifest.sessions),
        files=len(manifest.files),
        bytes=reader.size,
        redacted=manifest.redacted,
        missing_files=manifest.missing_files,
    )
