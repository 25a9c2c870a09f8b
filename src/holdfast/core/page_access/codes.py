"""Codes that sign in once, for `holdfast web`. They expire after a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Unit
from holdfast.core.page_access.token import hashed, new_token
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value

AGGREGATE = "page_code"
LIFETIME = 60 * 1000
MOST = 100
"""Codes that wait to be used. A further one replaces the oldest."""


class NewCode(Frozen):
    code: str
    expires: int


class _Unusable(HoldfastError):
    """The code was used, has expired, or never existed."""


class SignInCodes:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def make(self) -> NewCode:
        now = self._clock.now()
        made = NewCode(new_token(), now + LIFETIME)
        row: dict[str, Value] = {"code": hashed(made.code), "expires": made.expires}
        trim = Statement("page_code.trim", {"now": now, "most": MOST})
        await self._database.submit(Unit(AGGREGATE, local=(Statement("page_code.insert", row), trim)))
        return made

    async def use(self, code: str) -> bool:
        """Whether the code was good. Of several callers with the same code, one gets True."""
        params: dict[str, Value] = {"code": hashed(code), "now": self._clock.now()}
        if not await self._database.fetch("page_code.get", params):  # anybody can ask: nothing is written for them
            return False
        used = Statement("page_code.use", params, changes=1, error=_Unusable)
        try:
            await self._database.submit(Unit(AGGREGATE, local=(used,)))
        except _Unusable:
            return False
        return True
