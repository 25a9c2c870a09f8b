"""`holdfast migrate`: which stores are meant, which processes live there, and what stays in files."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from holdfast.core.database.errors import InvalidAddress
from holdfast.core.database.place import check_address
from holdfast.core.database.transfer.mark import COMPLETE, SOURCE
from holdfast.core.database.transfer.opening import open_marked, open_source, open_target
from holdfast.core.database.transfer.transfer import Progress, Transfer, Transferred
from holdfast.core.database.transfer.transfer import cancel as cancel_transfer
from holdfast.core.runtime.runtime import default_paths
from holdfast.core.runtime.storage_choice import FILE, storage_place
from holdfast.core.session.liveness import FileLiveness
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.database.place import Place
    from holdfast.core.database.transfer.store import OwnerRow

FILE_SCHEME = "sqlite://"
OWN_FILES = ("holdfast.db", "owners")
"""What is no data of its own in the data directory: the database with its companions, and locks."""


class Migrated(Frozen):
    """What `holdfast migrate` did, and which files of the data directory it left where they are."""

    stores: Transferred
    data: str
    files: tuple[str, ...]


class Cancelled(Frozen):
    store: str
    other: str
    emptied: bool
    """It was an incomplete copy."""
    copied: bool
    """The other store is a complete copy: both can be used, and will differ."""


def migrate(
    to: str,
    source: str | None,
    environment: dict[str, str],
    told: Callable[[Progress], None] = lambda progress: None,
) -> Migrated:
    """Copy all Sessions of the source, or else of the store that `holdfast` uses here, to another store. Blocks."""
    paths = default_paths(environment)
    to_place = _place(to, "--to", paths.database)
    from_place = _source(source, environment)
    with ExitStack() as stack:
        ours = open_source(from_place)
        stack.callback(ours.close)
        theirs = open_target(to_place)
        stack.callback(theirs.close)
        transfer = Transfer(ours, theirs, source_lives=_lives(from_place), target_lives=_lives(to_place), told=told)
        return Migrated(transfer.run(), str(paths.data), _files(paths.data))


def cancel(source: str | None, environment: dict[str, str]) -> Cancelled | None:
    """Take back the mark of a transfer; None if there is none. Blocks."""
    with ExitStack() as stack:
        store = open_marked(_source(source, environment))
        stack.callback(store.close)
        mark = cancel_transfer(store)
        if mark is None:
            return None
        return Cancelled(store.name, mark.other, mark.role != SOURCE, mark.state == COMPLETE)


def _source(given: str | None, environment: dict[str, str]) -> Place:
    file = default_paths(environment).database
    return storage_place(None, environment, file) if given is None else _place(given, "--from", file)


def _place(text: str, option: str, file: Path) -> Place:
    """`sqlite`, `sqlite:///PATH` or an address of PostgreSQL."""
    if text == FILE:
        return file
    if not text.startswith(FILE_SCHEME):
        return check_address(text, option)
    path = Path(unquote(text.removeprefix(FILE_SCHEME)))
    if not path.is_absolute() or path == Path("/") or "\0" in str(path):
        raise InvalidAddress(f"{option}: {text!r} names no file; expected sqlite:///PATH with an absolute path")
    if path.is_dir():
        raise InvalidAddress(f"{option}: {path} is a directory; name the file in it, such as {path / file.name}")
    return path


def _lives(place: Place) -> Callable[[OwnerRow], bool | None]:
    """Whether the process of a row lives; None if the database server does not know yet."""
    if isinstance(place, Path):
        liveness = FileLiveness(place.parent / "owners")
        return lambda owner: liveness.lives(owner.id, owner.locked)
    return lambda owner: None if owner.locked is None else bool(owner.locked)


def _files(data: Path) -> tuple[str, ...]:
    if not data.is_dir():
        return ()
    return tuple(sorted(entry.name for entry in data.iterdir() if not entry.name.startswith(OWN_FILES)))
