"""Handlers of `protocol/inbox.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.inbox import InboxSynthetic, InboxUser
from holdfast.schema.prompt import SyntheticInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.inbox import InboxInput
    from holdfast.schema.prompt import Admission, Delivery
    from holdfast.server.types import ApiCall


async def list(call: ApiCall) -> Sequence[InboxInput]:
    return [_shown(pending) for pending in await call.runtime.sessions.pending(call.params.session_id)]


async def cancel(call: ApiCall) -> None:
    await call.runtime.sessions.withdraw(call.params.session_id, call.params.inbox_id, once=True)


async def steer(call: ApiCall) -> None:
    await _deliver_as(call, "steer")


async def queue(call: ApiCall) -> None:
    await _deliver_as(call, "queue")


async def _deliver_as(call: ApiCall, delivery: Delivery) -> None:
    await call.runtime.sessions.deliver_as(call.params.session_id, call.params.inbox_id, delivery)


def _shown(pending: Admission) -> InboxInput:
    id, session_id, time, delivery = pending.id, pending.session_id, pending.time_created, pending.delivery
    prompt = pending.prompt
    if pending.type == "synthetic":
        payload = SyntheticInput(text=prompt.text, description=prompt.description, metadata=prompt.metadata)
        return InboxSynthetic(id=id, session_id=session_id, time_created=time, payload=payload, delivery=delivery)
    return InboxUser(id=id, session_id=session_id, time_created=time, payload=prompt, delivery=delivery)
