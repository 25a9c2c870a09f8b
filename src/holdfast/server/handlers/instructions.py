"""Handlers of `protocol/instructions.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.instruction import InstructionEntry
    from holdfast.server.types import ApiCall


async def list(call: ApiCall) -> Sequence[InstructionEntry]:
    return await call.runtime.instructions.list(call.params.session_id)


async def put(call: ApiCall) -> None:
    await call.runtime.instructions.put(call.params.session_id, call.params.key, call.payload.value)


async def remove(call: ApiCall) -> None:
    await call.runtime.instructions.remove(call.params.session_id, call.params.key)
