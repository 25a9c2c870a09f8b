"""Bundles: Sessions as one file. The manifest, which is the first part of a bundle, and what an import tells.

A bundle is a tar archive, compressed with zstd: `manifest.json`, then `events/000001.jsonl` … with one line for each
event of a Session, then `files/000001` … with managed files, all in the order of the manifest."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.schema.record import Record

FORMAT = "holdfast-bundle"
VERSION = 1
SUFFIX = ".holdfast"


class BundlePart(Record):
    """What the bundle has of a Session or of a file: its bytes before compression."""

    name: str
    size: int
    sha256: str


class BundleSession(Record):
    """A Session of a bundle, whose events have the sequences `first` … `last`."""

    id: str
    title: str
    directory: str
    project_id: str
    parent_id: str | None = None
    sources: tuple[str, ...] = ()
    """The Sessions that it was forked from, and whose messages it shows."""
    deleted: bool = False
    """It is there only because others were forked from it."""
    first: int
    last: int
    events: BundlePart


class BundleProject(Record):
    id: str
    worktree: str
    vcs: str | None = None


class BundleFile(Record):
    """A managed file."""

    name: str
    content: BundlePart


class BundleManifest(Record):
    format: str
    version: int
    requested: tuple[str, ...]
    """The roots of the trees that were asked for. Further ones are there because these were forked from them."""
    redacted: bool = False
    """What looked like a secret, and the home directory, were replaced."""
    projects: tuple[BundleProject, ...]
    sessions: tuple[BundleSession, ...]
    """A parent before its children, and the source of a fork before the fork."""
    files: tuple[BundleFile, ...] = ()
    missing_files: tuple[str, ...] = ()
    """Managed files that the events name and that were gone already."""


class BundleEvent(Record):
    """A line of a Session's events. `data` and `metadata` are the stored bytes."""

    seq: int
    id: str
    type: str
    metadata: dict[str, Any] | None = None
    data: msgspec.Raw


class BundleReport(Record):
    """What `verify` found in a bundle that is whole."""

    digest: str
    """SHA-256 of the manifest, which has the hashes of everything else: equal contents have equal digests."""
    requested: tuple[str, ...]
    sessions: int
    events: int
    files: int
    bytes: int
    """Before compression."""
    redacted: bool
    missing_files: tuple[str, ...]


class ImportedSession(Record):
    """What became of a Session of a bundle.

    `imported`: it was not there. `extended`: its first events were there. `unchanged`: all its events were there,
    perhaps with newer ones."""

    id: str
    title: str
    directory: str
    outcome: Literal["imported", "extended", "unchanged"]
    directory_exists: bool
    interrupted: bool = False
    """It has work that did not come to its end. Nobody goes on with it before a person decides."""
    pending: int = 0
    """Inputs that the model has not seen. Nothing begins with them; they come before the next prompt of somebody who
    continues the Session, so look at them first."""
    closed: int = 0
    """Requests to a person that waited where it comes from. Nobody was asked here, so they are closed."""
    changes: tuple[str, ...] = ()
    """How a Session that was here was changed beside its conversation, because the import accepted that."""


class ImportReport(Record):
    digest: str
    sessions: tuple[ImportedSession, ...]
    events: int
    """How many were written."""
    files: int
    """How many were written."""
    redacted: bool = False
    """What looked like a secret, and the home directory, were replaced when the bundle was written."""
    missing_files: tuple[str, ...] = ()
