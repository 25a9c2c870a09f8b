"""Handlers of `protocol/budgets.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.schema.budget import BudgetInfo, UsageInfo
    from holdfast.server.types import ApiCall


async def list(call: ApiCall) -> Sequence[BudgetInfo]:
    return await call.runtime.budgets.of(call.params.session_id)


async def set(call: ApiCall) -> BudgetInfo:
    return await call.runtime.budgets.set(call.params.session_id, call.payload.budget)


async def remove(call: ApiCall) -> None:
    await call.runtime.budgets.remove(call.params.session_id)


async def usage(call: ApiCall) -> UsageInfo:
    return await call.runtime.store.usage(call.params.session_id)
