"""The errors of storage.

StorageError
├── StorageBusy          another process kept the write lock for longer than the bound
├── StorageFull          the disk, or the quota, is full
├── StorageUnavailable   the file or its directory cannot be opened or written, or the server not reached
│   ├── StorageDenied          the server does not let this user in, or do what is needed
│   ├── StorageReadOnly        the server takes no writes: a standby
│   ├── StorageConnections     the server takes no more connections
│   ├── StorageTooOld          the server is older than those that are supported
│   ├── StoragePooled          a pooler answers where the server itself is needed
│   └── StorageReplaced        another server has taken the place of the one that was there
├── StorageTimeout       the server was stopped in the middle of a statement that took too long
├── InvalidAddress       the address of a server cannot be used
├── StorageCorrupt       the file is not a database, or a damaged one
├── StorageTooNew        the file was written by a newer Holdfast
├── StorageChanged       the tables are others than at the start: a newer Holdfast has upgraded them
├── StorageClosed        the database was closed
├── StorageTransferred   the Sessions are, or go, elsewhere; or the store is an incomplete copy
├── BackupInvalid        the file is no backup, or a damaged one
├── RestoreRefused       a backup is not restored here; nothing was changed
├── TransferRefused      a transfer cannot begin; nothing was changed
├── TransferDiffers      what was copied is not what the source has
└── Refused              a condition of a commit unit did not hold; nothing of it was written
    ├── Fenced           a newer owner holds the lease of this Session
    ├── Moved            the aggregate has events that the caller has not seen
    ├── InvalidDurableEvent   an event does not fit its definition, aggregate, position or owner
    └── …                what the statements of a unit carry (`Statement.error`)
"""

from __future__ import annotations

from holdfast.schema.exceptions import HoldfastError


class StorageError(HoldfastError):
    """Storage failed."""


class StorageBusy(StorageError):
    """Another process kept the database locked."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(f"{path} stayed locked by another process for {seconds:.1f} s; nothing was written")


class StorageFull(StorageError):
    """The disk, or the quota, is full."""

    def __init__(self, path: str) -> None:
        super().__init__(f"no space left to write {path}; nothing of this change was saved")


class StorageUnavailable(StorageError):
    """The database cannot be opened or written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot use the database {path}: {reason}")


class StorageDenied(StorageUnavailable):
    """The server refuses the user, or what the user wants to do."""


class StorageReadOnly(StorageUnavailable):
    """The server takes no writes."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            "it is read-only: a standby, or default_transaction_read_only is set for the role or the database; "
            "name the primary server, or all servers of the cluster",
        )


class StorageConnections(StorageUnavailable):
    """The server takes no more connections."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            "it takes no more connections; raise max_connections or the CONNECTION LIMIT of the role, or use a pooler",
        )


class StorageTooOld(StorageUnavailable):
    """The server is older than those that are supported."""

    def __init__(self, path: str, version: int) -> None:
        super().__init__(path, f"it runs PostgreSQL {version}; Holdfast needs 14 or newer")


class StoragePooled(StorageUnavailable):
    """A pooler answers where the server itself is needed."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            "it leads to a pooler, and listening and locks need a connection that nobody shares; "
            "add direct=HOST:PORT with the address of the server itself",
        )


class StorageReplaced(StorageUnavailable):
    """Another server has taken the place of the one that was there."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path, "another server answers there than when this process started; restart it to use that one"
        )


class StorageTimeout(StorageError):
    """A statement took too long."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(f"{path} did not answer within {seconds:.0f} s")


class InvalidAddress(StorageError):
    """The address of a database server cannot be used."""


class BackupInvalid(StorageError):
    """The file is no backup, or a damaged one."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path} cannot be restored: {reason}")


class RestoreRefused(StorageError):
    """A restore would replace something, or somebody uses the place."""


class StorageCorrupt(StorageError):
    """The file is damaged, or not a database."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is not a healthy Holdfast database ({reason}); it was left as it is")


class StorageTooNew(StorageError):
    """The database was written by a newer version."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema {found}, this Holdfast knows up to {known}; use a newer Holdfast or another file"
        )


class StorageChanged(StorageError):
    """The tables are not those of this version: a newer one has upgraded them meanwhile."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the tables of {path} are not those that this Holdfast knows. "
            "If a newer one has upgraded them, restart this process with that version"
        )


class StorageClosed(StorageError):
    """The database was closed."""

    def __init__(self) -> None:
        super().__init__("the database was closed")


class StorageTransferred(StorageError):
    """The store is the source of a transfer, or the incomplete target of one."""


class TransferRefused(StorageError):
    """A transfer cannot begin."""


class TransferDiffers(StorageError):
    """The target does not have what the source has."""


class Refused(StorageError):
    """A condition of a commit unit did not hold; nothing of it was written."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or type(self).__doc__)


class Fenced(Refused):
    """A newer owner holds this Session's lease."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"another owner has taken over {session_id}")
        self.session_id = session_id


class Moved(Refused):
    """The aggregate has events that the caller has not seen. Read again, then try again."""

    def __init__(self, aggregate_id: str) -> None:
        super().__init__(f"{aggregate_id} has new events")
        self.aggregate_id = aggregate_id


class InvalidDurableEvent(Refused):
    """A durable event that cannot be accepted."""

    code = "EventV2.InvalidDurableEvent"

    def __init__(self, type: str, message: str) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
