"""What becomes of a restored database that somebody else may have made.

Invariants
- It lets nobody in and approves nothing: tokens, sign-ins, links, secrets of nodes and saved approvals are removed.
- Its Sessions are as imported ones: their requests are closed, and what they owe waits for a person."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from holdfast.core.database.sqlite import BusyWait, connect, migrate
from holdfast.core.session.activity import HELD
from holdfast.core.session.activity_projector import CLOSED

if TYPE_CHECKING:
    from pathlib import Path

    import apsw

ACCESS = {
    "access_token": "tokens",
    "page_sign_in": "page sign-ins",
    "page_code": "",
    "page_instance": "",
    "approval_link": "approval links",
    "node_secret": "secrets of nodes",
    "permission": "saved approvals",
    "session_wake": "",
}
"""Tables that let somebody in, approve something or start work, with the name of their rows in a report. Rows without
one mean nothing to a person."""
DIGEST = "backup"
"""In place of the digest of a bundle."""
IMPORTED = """
insert or replace into session_import (session_id, first_seq, last_seq, time, digest)
select session.id, min(event.seq), max(event.seq), :now, :digest
from session join event on event.aggregate_id = session.id group by session.id
"""
HOLD = """
insert or replace into session_attempt (session_id, seq, count)
select session.id, coalesce((select seq from session_activity where session_id = session.id), -1), :held from session
"""
CLOSE = """
update session_request set resumable = 0, reply = coalesce(
  reply, case kind when 'permission' then :permission when 'question' then :question else :form end)
"""


def remove_access(path: Path) -> dict[str, int]:
    """Returns what was removed and closed, and how much of it. Blocks."""
    with closing(connect(str(path), BusyWait())) as connection:
        migrate(connection, str(path))  # an earlier version has fewer tables
        # One file without companions, in which removed secrets are overwritten.
        connection.execute("pragma journal_mode=delete; pragma secure_delete=on").fetchall()
        with connection:
            removed = {name: _count(connection, f"select count(*) from {table}") for table, name in ACCESS.items()}
            removed["open requests"] = _count(connection, "select count(*) from session_request where reply is null")
            for table in ACCESS:
                connection.execute(f"delete from {table}").fetchall()
            connection.execute(IMPORTED, {"now": round(time.time() * 1000), "digest": DIGEST}).fetchall()
            connection.execute(HOLD, {"held": HELD}).fetchall()
            connection.execute(CLOSE, CLOSED).fetchall()
    return {name: count for name, count in removed.items() if name and count}


def _count(connection: apsw.Connection, query: str) -> int:
    ((count,),) = connection.execute(query)
    assert isinstance(count, int)
    return count
