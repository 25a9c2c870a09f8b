"""`core/isolated-copy`: tells a Session whose isolated copy was removed that it has no files any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.context.source import ABSENT, Absent, JsonCodec, Source
from holdfast.core.context.system_context import make

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.context.system_context import SystemContext

KEY = "core/isolated-copy"
BACK = "Your isolated copy is there again."

_CODEC = JsonCodec(str)


def isolated_copy(why_gone: Callable[[], str | None]) -> SystemContext:
    """`why_gone` returns what the model is told, and None while the copy is there."""

    async def load() -> str | Absent:
        return why_gone() or ABSENT

    return make(
        Source(
            key=KEY,
            codec=_CODEC,
            load=load,
            baseline=str,
            update=lambda _, current: current,
            removed=lambda _: BACK,
            immediate=True,
        )
    )
