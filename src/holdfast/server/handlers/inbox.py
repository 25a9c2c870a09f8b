"""Handlers of `protocol/inbox.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.inbox import InboxUser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.prompt import Delivery
    from holdfast.server.types import ApiCall


async def list(call: ApiCall) -> Sequence[InboxUser]:
    return [
        InboxUser(
            id=pending.id,
            session_id=pending.session_id,
            time_created=pending.time_created,
            payload=pending.prompt,
            delivery=pending.delivery,
        )
        for pending in await call.runtime.sessions.pending(call.params.session_id)
    ]


async def cancel(call: ApiCall) -> None:
    await call.runtime.sessions.withdraw(call.params.session_id, call.params.inbox_id, once=True)


async def steer(call: ApiCall) -> None:
    await _deliver_as(call, "steer")


async def queue(call: ApiCall) -> None:
    await _deliver_as(call, "queue")


async def _deliver_as(call: ApiCall, delivery: Delivery) -> None:
    await call.runtime.sessions.deliver_as(call.params.session_id, call.params.inbox_id, delivery)
