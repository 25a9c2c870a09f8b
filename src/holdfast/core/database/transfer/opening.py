"""Opens the stores of a transfer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.database.errors import TransferRefused
from holdfast.core.database.opening import postgres_module
from holdfast.core.database.sqlite import prepare
from holdfast.core.database.transfer.sqlite_store import SqliteTransferStore

if TYPE_CHECKING:
    from holdfast.core.database.place import Place
    from holdfast.core.database.transfer.store import TransferStore


def open_source(place: Place) -> TransferStore:
    """An existing store, with its tables up to date."""
    return _opened(place, create=False, upgrade=True)


def open_target(place: Place) -> TransferStore:
    """A store that is made if it is not there."""
    return _opened(place, create=True, upgrade=True)


def open_marked(place: Place) -> TransferStore:
    """A store as it is, to take its mark back."""
    return _opened(place, create=False, upgrade=False)


def _opened(place: Place, *, create: bool, upgrade: bool) -> TransferStore:
    if isinstance(place, Path):
        if not create and not place.exists():
            raise TransferRefused(f"there is no database {place}")
        if upgrade:
            prepare(place, transferring=True)
        return SqliteTransferStore(place)
    address = postgres_module("address").Address(place)
    if upgrade:
        postgres_module("migrate").prepare(address, transferring=True)
    store: TransferStore = postgres_module("transfer_store").PostgresTransferStore(address)
    return store
