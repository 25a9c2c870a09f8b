"""Stores credentials in one file for all Locations, which only its owner can read.

Invariants
- The file is replaced atomically, under its own lock, and cancellation cannot split that.
- An unreadable file is never overwritten.
- No secret appears in a repr."""

from __future__ import annotations

import asyncio
import logging
import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.atomic_write import atomic_write
from holdfast.core.credential.errors import CredentialsUnreadable
from holdfast.core.file_lock import wait_for_lock
from holdfast.private_files import make_directory, trusted_owners
from holdfast.schema.record import Record

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.clock import Clock, Ids

DEFAULT_LABEL = "default"
LOCKS = 16

log = logging.getLogger(__name__)


class Secret(Record):
    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class KeyValue(Secret, tag_field="type", tag="key"):
    key: str
    metadata: dict[str, Any] | None = None
    """Sent with every request."""


class OAuthValue(Secret, tag_field="type", tag="oauth"):
    method_id: str
    access: str
    refresh: str
    expires: int
    """Milliseconds since the epoch."""
    metadata: dict[str, Any] | None = None


CredentialValue = KeyValue | OAuthValue


def is_spent(value: CredentialValue) -> bool:
    """Whether its tokens were refused and removed; what was kept beside them connects nothing."""
    return isinstance(value, OAuthValue) and not value.access


class Credential(Record):
    id: str
    integration_id: str
    label: str
    created: int
    value: CredentialValue


class _File(Record):
    version: int
    credentials: tuple[Credential, ...]


class CredentialStore:
    """One per process. The lock file lies beside `path`."""

    def __init__(self, path: Path, ids: Ids, clock: Clock) -> None:
        self._path = path
        self._ids = ids
        self._clock = clock
        self._seen: tuple[object, tuple[Credential, ...]] | None = None
        self._told = ""
        self._listeners: list[Callable[[str], None]] = []

    def all(self, integration_id: str) -> tuple[Credential, ...]:
        """Newest first. The file is read again only if it has changed."""
        mine = (credential for credential in self._read() if credential.integration_id == integration_id)
        return tuple(sorted(mine, key=lambda credential: (credential.created, credential.id), reverse=True))

    def stamp(self) -> object:
        """Another value after each change, whichever process made it. None while there is no file."""
        try:
            return _stamp(self._path.stat())
        except OSError:
            return None

    def get(self, id: str) -> Credential | None:
        return next((credential for credential in self._read() if credential.id == id), None)

    def lock_path(self, id: str) -> Path:
        """The lock file for work on this credential that only one process may do, such as a refresh. A few lock files
        are shared by all credentials, so two of them may wait for each other."""
        return self._path.with_name(f"{self._path.name}.{zlib.crc32(id.encode()) % LOCKS}.lock")

    async def create(self, integration_id: str, value: CredentialValue, label: str | None = None) -> Credential:
        """Store a credential; it replaces all others of that integration."""
        credential = Credential(
            id=self._ids.of("cred"),
            integration_id=integration_id,
            label=label or DEFAULT_LABEL,
            created=self._clock.now(),
            value=value,
        )
        await self._write(
            lambda known: (*(other for other in known if other.integration_id != integration_id), credential)
        )
        self._changed(integration_id)
        return credential

    async def update(self, id: str, *, label: str | None = None, value: CredentialValue | None = None) -> None:
        if label is None and value is None:
            return
        changes = {name: new for name, new in (("label", label), ("value", value)) if new is not None}
        touched: list[str] = []

        def change(credential: Credential) -> Credential:
            if credential.id != id:
                return credential
            touched.append(credential.integration_id)
            return msgspec.structs.replace(credential, **changes)

        await self._write(lambda known: tuple(map(change, known)))
        for integration_id in touched:
            self._changed(integration_id)

    async def remove(self, id: str) -> None:
        """Remove a credential if it exists. Raises CredentialsUnreadable, because it could still be stored then."""
        gone = next((credential for credential in self._load() if credential.id == id), None)
        if gone is not None:
            await self._write(lambda known: tuple(credential for credential in known if credential.id != id))
            self._changed(gone.integration_id)

    def on_change(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the integration's id after each change. Returns a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _read(self) -> tuple[Credential, ...]:
        try:
            return self._load()
        except CredentialsUnreadable as error:
            if str(error) != self._told:  # logged once: listing models reads this once per provider
                self._told = str(error)
                log.error("%s", error)
            return ()

    def _load(self) -> tuple[Credential, ...]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise CredentialsUnreadable(self._path, str(error)) from error
        if status.st_uid not in trusted_owners():
            raise CredentialsUnreadable(self._path, f"it is owned by user {status.st_uid}")
        stamp = _stamp(status)
        if self._seen is not None and self._seen[0] == stamp:
            return self._seen[1]
        try:
            if status.st_mode & 0o077:
                log.warning("%s was readable by other users; now only its owner can read it", self._path)
                self._path.chmod(0o600)
            found = msgspec.json.decode(self._path.read_bytes(), type=_File).credentials
        except (OSError, ValueError, RecursionError) as error:
            raise CredentialsUnreadable(self._path, str(error)) from error
        self._seen = (stamp, found)
        return found

    async def _write(self, change: Callable[[tuple[Credential, ...]], tuple[Credential, ...]]) -> None:
        await asyncio.to_thread(self._replace, change)

    def _replace(self, change: Callable[[tuple[Credential, ...]], tuple[Credential, ...]]) -> None:
        make_directory(self._path.parent)
        with wait_for_lock(self._path.with_name(self._path.name + ".lock")):
            atomic_write(self._path, msgspec.json.encode(_File(version=1, credentials=change(self._load()))))

    def _changed(self, integration_id: str) -> None:
        for listener in list(self._listeners):
            listener(integration_id)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
