"""Positions in the log of all aggregates, as text. A store decides what its positions say, and only its statements
interpret them:

- SQLite: the number of the last event, `1042`;
- PostgreSQL: a transaction snapshot, `730:735:731,733`. It shows what was committed when it was taken.

Clients get positions as cursors and send them back, so they are checked before a statement sees them. A cursor of a
database server also has the identity of that server, `730:735:731,733@5f3c9a01`: numbers of another one mean nothing,
also after the counting has reached them."""

from __future__ import annotations

import itertools
import re

LARGEST = 2**63 - 1
MOST_CHARACTERS = 16_000
"""A snapshot lists the transactions that were running: as many as the server has connections."""

_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_SNAPSHOT = re.compile(r"(\d{1,19}):(\d{1,19}):((?:\d{1,19}(?:,\d{1,19})*)?)", re.ASCII)


def cursor_at(position: str, identity: str) -> str:
    return f"{position}@{identity}" if identity else position


def position_of(cursor: str, identity: str) -> str | None:
    """The position that a cursor holds, if it is one of this server."""
    position, _, found = cursor.partition("@")
    return position if found == identity else None


def is_position(given: str, current: str) -> bool:
    """Whether a text is a position of the store that `current` comes from. A snapshot from the future is one of another
    server, or from before a restore: it would count as seen what this server has yet to commit."""
    if len(given) > MOST_CHARACTERS:
        return False
    if _is_number(current):
        return _is_number(given)
    return _is_snapshot(given) and _end(given) <= _end(current)


def _is_number(given: str) -> bool:
    return _NUMBER.fullmatch(given) is not None and int(given) <= LARGEST


def _end(snapshot: str) -> int:
    return int(snapshot.split(":")[1])


def _is_snapshot(given: str) -> bool:
    """PostgreSQL's own conditions: bounds in order, and the running transactions between them, ascending."""
    found = _SNAPSHOT.fullmatch(given)
    if found is None:
        return False
    first, end = int(found[1]), int(found[2])
    running = [int(number) for number in found[3].split(",")] if found[3] else []
    ascending = all(earlier < later for earlier, later in itertools.pairwise(running))
    return 0 < first <= end <= LARGEST and ascending and all(first <= number < end for number in running)
