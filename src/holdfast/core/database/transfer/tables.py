"""What becomes of each table in a transfer. A test fails while a table is in neither list."""

from __future__ import annotations

from typing import NamedTuple

EVENTS = "event"
SEQUENCES = "event_sequence"


class Table(NamedTuple):
    name: str
    key: tuple[str, ...]
    """The columns of its primary key. Rows are read in this order."""


COPIED = (
    Table("project", ("id",)),
    Table(SEQUENCES, ("aggregate_id",)),
    Table("session", ("id",)),
    Table("session_lineage", ("session_id", "after_seq")),
    Table("session_message", ("session_id", "seq")),
    Table("session_message_part", ("session_id", "message_seq", "idx")),
    Table("session_input", ("session_id", "admitted_seq")),
    Table("session_attachment", ("session_id", "message_id", "idx")),
    Table("todo", ("session_id", "position")),
    Table("session_instruction", ("session_id", "directory", "workspace_id", "path")),
    Table("session_instruction_entry", ("session_id", "key")),
    Table("session_turn", ("session_id",)),
    Table("session_activity", ("session_id",)),
    Table("session_request", ("session_id", "seq")),
    Table("session_task", ("session_id", "seq")),
    Table("session_budget", ("session_id",)),
    Table("context_text", ("id",)),
    Table("session_context_epoch", ("session_id",)),
    Table("session_context_change", ("session_id", "seq")),
    Table("session_attempt", ("session_id",)),
    Table("session_import", ("session_id", "first_seq")),
    Table("session_blocked", ("session_id",)),
    Table("session_partial", ("session_id", "message_id", "kind", "key", "start")),
    Table("session_wake", ("input_id",)),
    Table("permission", ("id",)),
    Table("session_work", ("session_id",)),
    Table("session_pause", ("session_id",)),
    Table("budget_total", ("budget_id",)),
    Table("budget_share", ("session_id", "budget_id")),
    Table("budget_revision", ("id",)),
    Table("deleted_session", ("id",)),
    Table("mcp_manifest", ("hash",)),
    Table("mcp_server", ("key",)),
    Table("audit_entry", ("id",)),
)
"""In the order in which they are copied: a row comes after the rows that it refers to. Events come last."""

LEFT = {
    "owner": "processes on the source; none of them lives",
    "session_lease": "rights of these processes; whoever executes a Session next takes a new one",
    "session_control": "requests to these processes",
    "node_secret": "nodes on the target make one of their own",
    "access_token": "tokens are made for the source; the target has its own",
    "page_instance": "the target has a name of its own",
    "page_sign_in": "people sign in again at the target",
    "page_code": "good for a minute",
    "approval_link": "good for minutes, and part of an address on the source",
    "retention_run": "servers on the target begin to count anew",
    "holdfast_schema": "the version of the tables",
    "holdfast_writer": "flights of writers on the source",
    "sqlite_sequence": "the file's own count of positions",
    "holdfast_transfer": "the mark of a transfer",
    "holdfast_transfer_progress": "how far a transfer has come",
}
"""What stays behind, and why."""

GUARDED = (*(table.name for table in COPIED), EVENTS, "owner", "session_lease")
"""Tables to which nobody else writes during a transfer. A process that cannot announce itself in `owner` does not
serve, and one that gets no lease does not execute."""

ALWAYS_THERE = "budget_revision"
"""Has a row in a new store."""
