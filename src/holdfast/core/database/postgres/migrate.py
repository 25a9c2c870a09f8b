"""Brings the schema up to date. Any number of nodes may start at once: one migrates, the others wait for it.

Invariants
- A schema that holds tables of another program, or of a newer Holdfast, is left as it is.
- A migration is applied as a whole, with its number, or not at all.
- Nodes of the version before may be at work meanwhile. A migration that they cannot work with renames the table
  `holdfast_writer`, which each of their commits changes first: it waits for those that are under way, and all later
  ones are refused."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from psycopg.pq import ExecStatus

from holdfast.core.database.errors import StorageCorrupt, StorageTooNew, StorageTransferred
from holdfast.core.database.postgres.address import MIGRATING
from holdfast.core.database.postgres.connection import open_connection
from holdfast.core.database.postgres.errors import StatementFailed, failure, translate
from holdfast.core.database.postgres.statement import FOLDER
from holdfast.core.database.postgres.text import restore
from holdfast.core.database.queries import load_migrations
from holdfast.core.database.transfer.mark import MARKS, REFUSING, Mark, explain

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from holdfast.core.database.postgres.address import Address

FOUND = f"""
select current_schema(),
  to_regclass(quote_ident(current_schema()) || '.holdfast_schema') is not null,
  exists (select 1 from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v')
    and relname in ('session', 'event', 'event_sequence', 'project')),
  to_regclass(quote_ident(current_schema()) || '.{MARKS}') is not null
"""
EXISTS = "select current_schema()"
"""Asked first: creating a schema that exists needs the right to create others."""
VERSION = "select coalesce(max(version), 0) from holdfast_schema"
FORGET_WRITERS = "delete from holdfast_writer where time_updated < now() - interval '7 days'"
"""Left by processes that were killed. One that lives on and finds its row gone makes it again."""
RESTORED = """
select coalesce((select position from event order by position desc limit 1)
  >= pg_snapshot_xmax(pg_current_snapshot()), false)
"""
"""Whether there are events of transactions that this server has yet to number: they come from another server."""
FORGET_POSITIONS = "update event set position = '3' where position >= pg_snapshot_xmin(pg_current_snapshot())"
"""3 is the first number that there is: every snapshot shows it."""
LOCK = "select pg_advisory_xact_lock({}, 4)"  # 0, 1 and numbers with the bit 2 are locks of flights

log = logging.getLogger(__name__)


def prepare(address: Address, *, transferring: bool = False) -> None:
    """Create the tables if necessary and upgrade them. Blocks. Only a transfer opens a store with the mark of one."""
    connection = open_connection(address, MIGRATING)
    pgconn = connection.pgconn
    try:
        pgconn.exit_pipeline_mode()
        pgconn.nonblocking = 0
        # In one transaction: behind a pooler nothing that is set outlives it.
        settings = (f"set local {key} = {value}" for key, value in address.settings(MIGRATING).items())
        _execute(pgconn, ";".join(("begin", *settings)))
        found = _version(pgconn, address)
        if not transferring or 0 < found < len(migrations()):  # tables that take no changes cannot be upgraded
            _refuse_transferred(pgconn, address)
        if found != len(migrations()):
            _upgrade(pgconn, address)
        if _execute(pgconn, RESTORED) == ["t"]:
            _forget_positions(pgconn, address)
        _execute(pgconn, f"{FORGET_WRITERS}; commit")
    except StatementFailed as error:
        raise translate(error, address, 0) from error
    finally:
        connection.close()


@cache
def migrations() -> list[str]:
    return load_migrations(FOLDER / "migrations")


def _version(pgconn: PGconn, address: Address) -> int:
    """The version of the schema: 0 if it is empty. Raises for one that is not ours to use."""
    schema, marked, used, _ = _execute(pgconn, FOUND)
    if schema is None:
        return 0
    if marked == "f":
        if used == "t":
            raise StorageCorrupt(address.name, f"the schema {schema} has tables of another program")
        return 0
    found, known = int(_execute(pgconn, VERSION)[0] or 0), len(migrations())
    if found > known:
        raise StorageTooNew(address.name, found, known)
    return found


def _refuse_transferred(pgconn: PGconn, address: Address) -> None:
    if _execute(pgconn, FOUND)[3] == "t" and (mark := _execute(pgconn, REFUSING)):
        raise StorageTransferred(explain(address.name, Mark(*(restore(value or "") for value in mark))))


def _upgrade(pgconn: PGconn, address: Address) -> None:
    """Under a lock that other starting nodes wait for."""
    _execute(pgconn, LOCK.format(address.lock_class))
    if address.schema is not None and _execute(pgconn, EXISTS) == [None]:
        _execute(pgconn, f'create schema if not exists "{address.schema}"')
    found = _version(pgconn, address)  # asked again: another node may have upgraded meanwhile
    if 0 < found < len(migrations()):
        log.warning("upgrading %s from schema %d to %d", address.name, found, len(migrations()))
    for number, script in enumerate(migrations()[found:], found + 1):
        _execute(pgconn, script)
        _execute(pgconn, f"insert into holdfast_schema (version) values ({number})")


def _forget_positions(pgconn: PGconn, address: Address) -> None:
    """After a dump of another server was restored. Its transactions had higher numbers, which this server would give to
    new ones: followers would take stored events for new, or new ones for seen."""
    _execute(pgconn, LOCK.format(address.lock_class))
    if _execute(pgconn, RESTORED) == ["t"]:  # asked again: another node may have done it meanwhile
        log.warning("%s comes from another server; its events get new positions", address.name)
        _execute(pgconn, FORGET_POSITIONS)


def _execute(pgconn: PGconn, sql: str) -> list[str | None]:
    """Run statements; the first row of the last one."""
    result = pgconn.exec_(sql.encode())
    if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        raise failure(result)
    if not result.ntuples:
        return []
    row = (result.get_value(0, column) for column in range(result.nfields))
    return [None if value is None else value.decode() for value in row]
