"""The lineage of a Session: its conversation as segments of messages, its own and those of the Sessions it was forked
from. Here are the statements that projectors use to change it.

Invariants
- The segments of a Session follow from its own log alone.
- A message exists as long as a segment of any Session covers it. Whoever gives up a range of messages deletes those
  that no other Session shows, in the same commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Value
from holdfast.core.session.errors import UnknownBoundary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.schema.fork_event import SessionForked

SHARED = ("lineage", "messages", "parts", "attachments")
"""Projections of which a part may stay when their Session is deleted."""
OPEN = 2**62
"""The end of the segment that takes the Session's new messages."""

Boundary = dict[str, Value]
"""The last message that stays: `session_id`, and either `after`, its sequence, or `message_id` of one of the Session's
own."""


def taken_over(fork: SessionForked) -> tuple[Statement, ...]:
    """What a fork begins with."""
    shared = [_segment(fork.session_id, part.source_id, part.after_seq, part.through_seq) for part in fork.segments]
    own = _segment(fork.session_id, fork.session_id, fork.through_seq, OPEN)
    return (*shared, own, *_instructions(fork), *_todos(fork))


def remove_after(boundary: Boundary) -> tuple[Statement, ...]:
    """Take everything after a message out of the conversation. Messages to come follow. Nothing happens if the message
    is not the Session's own and has no sequence."""
    return (
        # What the model was told after the boundary, it is not told any more.
        Statement("session.clear_epoch_after", boundary, operational=True),
        Statement("task.take_back", boundary),
        Statement("inbox.delete_after", boundary),
        Statement("task.delete_after", boundary),
        Statement("lineage.release_messages", boundary),
        Statement("lineage.release_parts", boundary),
        Statement("lineage.release_attachments", boundary),
        Statement("lineage.remove_after", boundary),
        Statement("lineage.end_at", boundary),
        Statement("lineage.reopen", boundary),
        Statement("lineage.find_newest_answer", boundary),
    )


def leave_out(session_id: str, message_id: str, seq: int | None) -> tuple[Statement, ...]:
    """Take one checkpoint out of the conversation."""
    place: Mapping[str, Value] = {"session_id": session_id, "message_id": message_id, "position": seq}
    condition = {"session_id": session_id, "message_id": message_id, "after": seq}
    check = "message.undoable_checkpoint" if seq is None else "lineage.covers"
    return (
        Statement(check, condition, found=True, error=UnknownBoundary),
        Statement("lineage.split", place),
        Statement("lineage.shorten", place),
        Statement("lineage.remove_empty", place),
        Statement("lineage.release_checkpoint", place),
    )


def release_all(session_id: str) -> tuple[Statement, ...]:
    """Delete the messages that only this Session shows."""
    everything: Boundary = {"session_id": session_id, "message_id": None, "after": -1}
    return (
        Statement("lineage.release_messages", everything),
        Statement("lineage.release_parts", everything),
    )


def forget(session_id: str) -> tuple[Statement, ...]:
    """Delete the attachments of messages that are gone, and the segments. The row of the Session is gone by then."""
    return (
        Statement("lineage.release_attachments", {"session_id": session_id}),
        Statement("projection.clear_lineage", {"id": session_id}),
    )


def _segment(session_id: str, source_id: str, after: int, through: int) -> Statement:
    row: dict[str, Value] = {"session_id": session_id, "source_id": source_id, "after": after, "through": through}
    return Statement("lineage.insert", row)


def _instructions(fork: SessionForked) -> Iterator[Statement]:
    for found in fork.instructions:
        row: dict[str, Value] = {
            "session_id": fork.session_id,
            "directory": fork.location.directory,
            "workspace_id": fork.location.workspace_id or "",
            "path": found.path,
            "discovered_seq": found.seq,
        }
        yield Statement("instruction.take_over", row)


def _todos(fork: SessionForked) -> Iterator[Statement]:
    for position, todo in enumerate(fork.todos):
        row: dict[str, Value] = {
            "session_id": fork.session_id,
            "position": position,
            "content": todo.content,
            "status": todo.status,
            "priority": todo.priority,
            "timestamp": fork.timestamp,
            "written_seq": fork.todos_seq,
        }
        yield Statement("todo.take_over", row)
