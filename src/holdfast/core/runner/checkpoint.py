"""A look at a checkpoint: what it replaced for the model, and how much smaller that became."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.runner.lowering import checkpoint
from holdfast.core.session.transcript import characters, tokens
from holdfast.schema.insight import CheckpointInfo
from holdfast.schema.session_message import CompactionMessage

if TYPE_CHECKING:
    from holdfast.core.session.store import SessionStore

PAGE = 200


async def inspect(store: SessionStore, session_id: str) -> CheckpointInfo | None:
    newest = await store.newest_checkpoint(session_id)
    if newest is None:
        return None
    message = newest.decode()
    assert isinstance(message, CompactionMessage)
    stays = {row.id for row in await store.open_input(session_id, before=newest.seq)}
    replaced: list[str] = []
    size, anchor = 0, newest.seq
    while rows := await store.messages(session_id, order="desc", limit=PAGE, anchor=anchor):
        for row in rows:
            if row.id in stays:
                continue
            earlier = row.decode()
            replaced.append(row.id)
            if isinstance(earlier, CompactionMessage):
                size += len(checkpoint(earlier.summary, earlier.recent))
                followed = await store.open_input(session_id, before=row.seq)
                dropped = [item for item in followed if item.id not in stays]
                replaced[-1:] = [item.id for item in reversed(dropped)] + replaced[-1:]
                size += sum(characters(item.decode()) for item in dropped)
                break
            size += characters(earlier)
        else:
            anchor = rows[-1].seq
            continue
        break
    return CheckpointInfo(
        message_id=message.id,
        reason=message.reason,
        summary=message.summary,
        recent=message.recent,
        replaced=tuple(reversed(replaced)),
        tokens_before=tokens(size),
        tokens_after=tokens(len(checkpoint(message.summary, message.recent))),
    )
