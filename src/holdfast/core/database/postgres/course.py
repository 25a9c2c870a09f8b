"""The course of a writer: flight after flight, across lost connections.

Invariants
- A flight is sent again only when it is certain that it was not committed and never will be. After a lost connection
  the writer looks at its row: it has the number of the flight, or is changed so that the flight cannot commit any more.
- While the database is away nothing fails: the flight waits, and `waiting_since` says since when.
- After `give_up`, waiting ends with StorageUnavailable."""

from __future__ import annotations

import logging
import random
import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from psycopg.pq import ExecStatus

from holdfast.core.database.errors import StorageChanged, StorageUnavailable
from holdfast.core.database.postgres.address import LOCK_SECONDS, WRITING
from holdfast.core.database.postgres.connection import open_connection
from holdfast.core.database.postgres.errors import ConnectionLost, StatementFailed, failure, translate
from holdfast.core.database.postgres.flight import BEGIN, COMMIT, REGISTER, ROLLBACK, Failure, Flight, Plan
from holdfast.core.database.postgres.outages import COMMITS
from holdfast.core.database.postgres.statement import Compiled, encode, encode_array
from holdfast.core.database.postgres.text import restore
from holdfast.core.database.unit import Committed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.pq.abc import PGresult

    from holdfast.core.database.postgres.address import Address
    from holdfast.core.database.postgres.batch import Batches
    from holdfast.core.database.postgres.connection import Connection

FIRST_DELAY, LAST_DELAY = 0.05, 2.0
DUE_SECONDS = 1.0
STALLED_SECONDS = 8
"""A transaction whose node has sent nothing for this long is ended, if somebody waits for its locks."""
LOSSES, LOSSES_SECONDS = 20, 30.0
"""A flight whose connections end this often, for this long, is not tried any more: it may be the cause."""

FORGET = Compiled("delete from holdfast_writer where id = $1")
LAST_FLIGHT = Compiled("select flight from holdfast_writer where id = $1 for update")
GIVE_UP_FLIGHT = Compiled("update holdfast_writer set flight = $2::bigint where id = $1 and flight <> $3::bigint")
PLACES = Compiled("select id, aggregate_id, seq from event where id = any ($1::text[])")
HEAD = Compiled("select seq, owner_id from event_sequence where aggregate_id = $1")
EVENT = Compiled("select id, type, data from event where aggregate_id = $1 and seq = $2::bigint")
END_STALLED = Compiled("""
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and usename = current_user and application_name like 'holdfast:%'
  and pid <> pg_backend_pid() and wait_event = 'ClientRead' and xact_start is not null
  and greatest(state_change, query_start, xact_start) < clock_timestamp() - make_interval(secs => $1::int)
""")
TERMINATE = Compiled("""
select pg_terminate_backend(pid) from pg_stat_activity
where pid = $1::int and pid <> pg_backend_pid() and application_name = $2 and datname = current_database()
""")

log = logging.getLogger(__name__)


class Course:
    """Used by one thread, but for `waiting_since` and `give_up`. Connects when it is first used."""

    def __init__(self, address: Address, batches: Batches) -> None:
        self.address = address
        self._lost: float | None = None
        """Since when there is no connection."""
        self._sent: float | None = None
        """Since when an answer is due."""
        self._id = f"{address.application}:{secrets.token_hex(8)}"
        self._flight = Flight(self._id, address.lock_class, batches)
        self._number = 0
        """The number of the newest flight."""
        self._after = 0
        """What the row of the writer holds."""
        self._given_up = threading.Event()
        self._random = random.Random()  # not the module's: programs may seed that one and count on its numbers
        self._backend = 0
        """The server's process that the newest flight was sent to."""
        self._connection: Connection | None = None

    def waiting_since(self) -> float | None:
        """Since when there is no connection, or no answer although one is long due (monotonic seconds)."""
        sent = self._sent
        if self._lost is not None or sent is None:
            return self._lost
        return sent if time.monotonic() - sent > DUE_SECONDS else None

    def fly(self, plans: Sequence[Plan]) -> list[Committed] | Failure:
        """Commit plans together. Returns their outcomes, or the step that prevented the commit of all."""
        self._sent = time.monotonic()
        try:
            return self._fly(plans)
        finally:
            self._sent = None

    def end_stalled(self) -> int:
        """End transactions of nodes that have stopped in the middle of sending one, and keep others waiting. Their
        writers find out, should they come back. Returns how many there were."""
        try:
            (result,) = self._read([(END_STALLED, (encode(STALLED_SECONDS),))])
        except StatementFailed as error:
            log.warning("%s: looking for stopped nodes: %s", self.address.name, error)
            return 0
        return result.ntuples

    def _fly(self, plans: Sequence[Plan]) -> list[Committed] | Failure:
        losses, began = 0, time.monotonic()
        while True:
            self._number += 1
            connection = self._connected()
            self._backend = connection.pgconn.backend_pid
            try:
                outcome = self._flight.fly(connection, plans, self._number, self._after)
            except ConnectionLost as error:
                self._lose(error)
                if self._resolve():
                    self._lost = None
                    return self._stored(plans)
                losses += 1
                if losses >= LOSSES and time.monotonic() - began > LOSSES_SECONDS:
                    return Failure(None, None, StatementFailed("08006", f"connections end with this: {error}"))
                continue
            self._lost = None
            if isinstance(outcome, Failure):
                if outcome.fenced:  # the row is not what we know: restored from a backup, or removed
                    self._resolve()
                    continue
                return outcome
            self._after = self._number
            return outcome

    def places(self, event_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Where events stand, by their ids."""
        (result,) = self._read([(PLACES, (encode_array(event_ids),))])
        return {
            _text(result, row, 0): (_text(result, row, 1), int(_text(result, row, 2))) for row in range(result.ntuples)
        }

    def head(self, aggregate_id: str, seq: int) -> tuple[int, str | None, list[tuple[str, str, str]]]:
        """The last sequence and the replay owner of an aggregate, and the event that it has at a sequence."""
        key = encode(aggregate_id)
        head, event = self._read([(HEAD, (key,)), (EVENT, (key, encode(seq)))])
        stored = [(_text(event, row, 0), _text(event, row, 1), _text(event, row, 2)) for row in range(event.ntuples)]
        if not head.ntuples:
            return -1, None, stored
        return int(_text(head, 0, 0)), None if head.get_value(0, 1) is None else _text(head, 0, 1), stored

    def give_up(self) -> None:
        """Wait no longer for a database that is away, or for an answer."""
        self._given_up.set()
        connection = self._connection
        if connection is not None:
            connection.break_off()

    def close(self) -> None:
        if self._connection is None:
            return
        with suppress(ConnectionLost, StatementFailed, TimeoutError):
            self._connection.run([(FORGET, (encode(self._id),))], timeout=1)
        self._connection.close()
        self._connection = None

    def _resolve(self) -> bool:
        """Whether the newest flight was committed. If it was not, it never will be."""
        number = encode(self._number)
        given_up = encode(-self._number)
        key = encode(self._id)
        delay = FIRST_DELAY
        while True:
            try:
                connection = self._connected()
                self._terminate(connection)
                # The first statement waits for the old transaction, if there is one, because that has changed the row.
                connection.queue(BEGIN, ())
                connection.queue_settings()
                steps = ((REGISTER, (key, given_up)), (GIVE_UP_FLIGHT, (key, given_up, number)), (LAST_FLIGHT, (key,)))
                for statement, values in (*steps, (COMMIT, ())):
                    connection.queue(statement, values)
                results = connection.exchange()
                if results[-1].command_status != b"COMMIT":
                    delay = self._postpone(connection, results, delay)
                    continue
            except ConnectionLost as error:
                self._lose(error)
                continue
            self.address.outages.connected(COMMITS)
            self._after = int(_text(results[-2], 0, 0))
            return self._after == self._number

    def _postpone(self, connection: Connection, results: Sequence[PGresult], delay: float) -> float:
        """The row of the writer cannot be changed now: an earlier connection holds it, or the disk is full. Wait, and
        return for how long to wait the next time. Raises StorageChanged if there is no such table any more."""
        connection.queue(ROLLBACK, ())
        connection.exchange()
        failed = next((result for result in results if result.status == ExecStatus.FATAL_ERROR), None)
        error = None if failed is None else translate(failure(failed), self.address, LOCK_SECONDS)
        if isinstance(error, StorageChanged):
            raise error
        if error is not None:
            self.address.outages.failed(COMMITS, error)
        if self._given_up.wait(self._random.uniform(delay / 2, delay)):
            raise StorageUnavailable(self.address.name, "it did not answer before the close")
        return min(delay * 2, LAST_DELAY)

    def _stored(self, plans: Sequence[Plan]) -> list[Committed]:
        """What a committed flight did, from the log: its results were lost."""
        places = self.places([plan.unit.events[0].id for plan in plans if plan.advance is not None])
        found = []
        for plan in plans:
            if plan.advance is not None:
                _, first = places.get(plan.unit.events[0].id, ("", -1))
                found.append(Committed(first, first + len(plan.unit.events) - 1))
            elif plan.unit.rebuild:
                found.append(Committed(0, max((event.seq or 0 for event in plan.unit.events), default=-1)))
            else:
                found.append(Committed(-1, -1))
        return found

    def _read(self, steps: list[tuple[Compiled, tuple[bytes | None, ...]]]) -> list[PGresult]:
        while True:
            try:
                return self._connected().run(steps)
            except ConnectionLost as error:
                self._lose(error)

    def _connected(self) -> Connection:
        """The connection; a new one after a while, if there is none."""
        delay = FIRST_DELAY
        while self._connection is None:
            if self._lost is None:
                self._lost = time.monotonic()
            try:
                self._connection = open_connection(self.address, WRITING)
            except StorageUnavailable:
                if self._given_up.is_set():
                    raise
                self._given_up.wait(self._random.uniform(delay / 2, delay))
                delay = min(delay * 2, LAST_DELAY)
        return self._connection

    def _lose(self, error: ConnectionLost) -> None:
        log.info("%s: a connection was lost: %s", self.address.name, error)
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lost is None:
            self._lost = time.monotonic()
        if self._given_up.is_set():
            raise StorageUnavailable(self.address.name, "it did not answer before the close") from error

    def _terminate(self, connection: Connection) -> None:
        """End what the connection of the newest flight is doing, should the server not know that it is over."""
        with suppress(StatementFailed):
            connection.run([(TERMINATE, (encode(self._backend), encode(self.address.application)))])


def _text(result: PGresult, row: int, column: int) -> str:
    value = result.get_value(row, column)
    assert value is not None
    return restore(value.decode())
