"""The mark of a transfer: a row in the source and one in the target, with the same id.

The tables are made when a transfer begins. A store that took part in none has nothing of it, and opening one costs a
look for the table."""

from __future__ import annotations

from typing import NamedTuple

SOURCE, TARGET = "source", "target"
BEGUN, COMPLETE = "begun", "complete"

MARKS = "holdfast_transfer"
PROGRESS = "holdfast_transfer_progress"
TRIGGER = "holdfast_transfer"
"""The name of the triggers that refuse changes, or what their names begin with."""
SQLSTATE = "HFT01"
"""Of the error that they raise on PostgreSQL."""
REFUSAL = "holdfast_transfer: "
"""How the text of the error begins on SQLite."""

CREATE = f"""
create table if not exists {MARKS} (
  role text not null primary key,
  id text not null,
  other text not null,
  identity text not null,
  state text not null
);
create table if not exists {PROGRESS} (
  name text not null primary key,
  place text not null,
  copied bigint not null
)
"""
REFUSING = f"select role, id, other, identity, state from {MARKS} where role = '{SOURCE}' or state <> '{COMPLETE}'"
"""The mark that keeps a store from being opened, if there is one."""


class Mark(NamedTuple):
    role: str
    id: str
    other: str
    """The other store, without a password."""
    identity: str
    """Tells whether a store is the other one, however its address is written."""
    state: str


def explain(name: str, mark: Mark) -> str:
    """Why the store cannot be used, and what to do."""
    if mark.role == TARGET:
        return (
            f"{name} is an incomplete copy of {mark.other}: `holdfast migrate` with the same addresses completes it, "
            "and `holdfast migrate --cancel` with its address in --from empties it"
        )
    if mark.state == COMPLETE:
        return (
            f"{name} is read-only: its Sessions were moved to {mark.other}. Use that one (HOLDFAST_DATABASE, or "
            "holdfast.storage.url in your configuration), or use this one again after `holdfast migrate --cancel`"
        )
    return (
        f"{name} is read-only: its Sessions are being moved to {mark.other}. Run the same `holdfast migrate` again to "
        "complete that, or `holdfast migrate --cancel` to use this one again"
    )
