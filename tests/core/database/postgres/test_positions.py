"""What is new since a position: exactly what committed after it was taken, in whatever order transactions began."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.stores.stores import STORES

from holdfast.core.database.postgres.statement import compile_statement, encode, postgres_queries

pytestmark = pytest.mark.store("postgres", reason="positions are snapshots of PostgreSQL")


class Log:
    """Appends with connections of its own, and reads with another."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._reading = self.connect()
        self._reading.autocommit = True
        self._opened: list[psycopg.Connection] = [self._reading]

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self._address)

    def begin(self, aggregate_id: str, *seqs: int) -> psycopg.Connection:
        """A transaction that has appended, and is open."""
        connection = self.connect()
        self._opened.append(connection)
        for seq in seqs:
            head = (
                "insert into event_sequence values (%s, %s) on conflict (aggregate_id) do update set seq = excluded.seq"
            )
            connection.execute(head, (aggregate_id, seq))
            row = (f"evt_{aggregate_id}_{seq}", aggregate_id, seq)
            connection.execute(
                "insert into event (id, aggregate_id, seq, type, data) values (%s, %s, %s, 't', '{}')", row
            )
        return connection

    def append(self, aggregate_id: str, *seqs: int) -> None:
        self.begin(aggregate_id, *seqs).commit()

    def position(self) -> str:
        ((position,),) = self._run("event.position", {})
        return str(position)

    def moved(self, position: str) -> dict[str, tuple[int, int]]:
        return {row[0]: (int(row[1]), int(row[2])) for row in self._run("event.moved_since", {"position": position})}

    def reached(self, position: str, *ids: str) -> list[tuple[Any, ...]]:
        return self._run("tree.moved_since", {"position": position, "ids": json.dumps(ids)})

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    def _run(self, name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        compiled = compile_statement(postgres_queries()[name])
        result = self._reading.pgconn.exec_params(compiled.sql, [encode(params[name]) for name in compiled.names])
        found = range(result.ntuples)
        values = [[result.get_value(row, column) for column in range(result.nfields)] for row in found]
        return [tuple(None if value is None else value.decode() for value in row) for row in values]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(STORES.database(tmp_path / "holdfast.db").address)
    yield log
    log.close()


def test_what_began_earlier_and_commits_later_is_new(log: Log) -> None:
    """STO-046, EVT-062."""
    log.append("ses_a", 0)
    late = log.begin("ses_late", 0, 1)
    start = log.position()
    log.append("ses_b", 0)
    assert log.moved(start) == {"ses_b": (0, 0)}
    after = log.position()
    assert log.moved(after) == {}
    late.commit()
    assert log.moved(after) == {"ses_late": (0, 1)}
    assert log.moved(start) == {"ses_b": (0, 0), "ses_late": (0, 1)}
    assert log.moved(log.position()) == {}


def test_an_old_open_transaction_repeats_nothing(log: Log) -> None:
    """EVT-062: and what committed before a position is not read again because of it."""
    log.begin("ses_old", 0)
    for number in range(3):
        log.append(f"ses_{number}", 0)
        assert log.moved(log.position()) == {}


def test_what_is_rolled_back_is_never_new(log: Log) -> None:
    start = log.position()
    log.begin("ses_a", 0).rollback()
    assert log.moved(start) == {}


def test_sessions_of_a_tree_that_moved_are_told_with_what_was_seen(log: Log) -> None:
    """STO-046: in the order that was asked for."""
    log.append("ses_a", 0, 1)
    log.append("ses_b", 0)
    late = log.begin("ses_c", 0)
    start = log.position()
    log.append("ses_a", 2)
    log.append("ses_d", 0)
    late.commit()
    assert log.reached(start, "ses_d", "ses_c", "ses_b", "ses_a", "ses_x") == [
        ("ses_d", None),
        ("ses_c", None),
        ("ses_a", "1"),
    ]


def test_numbers_of_another_server_are_not_new_again_and_again(log: Log) -> None:
    """A restored database has events of transactions that this server has yet to count."""
    restored = log.begin("ses_restored", 0)
    restored.execute("update event set position = '9000000000000000'::xid8")
    restored.commit()
    start = log.position()
    log.append("ses_a", 0)
    assert log.moved(start) == {"ses_a": (0, 0)}
