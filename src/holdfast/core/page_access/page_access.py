"""What a server needs to know who may use its page, and the name of this database among those on a host."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Unit
from holdfast.core.page_access.approval_links import ApprovalLinks
from holdfast.core.page_access.codes import SignInCodes
from holdfast.core.page_access.sign_ins import PageSignIns

if TYPE_CHECKING:
    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database

AGGREGATE = "page_instance"
NAME_BYTES = 6


class PageAccess:
    def __init__(self, database: Database, ids: Ids, clock: Clock) -> None:
        self._database = database
        self.clock = clock
        self.sign_ins = PageSignIns(database, ids, clock)
        self.codes = SignInCodes(database, clock)
        self.links = ApprovalLinks(database, clock)
        self._instance: str | None = None

    async def instance(self) -> str:
        """The same for all servers on this database, also after a restart."""
        if self._instance is None:
            if not (rows := await self._database.fetch("page_instance.get", {})):
                made = Statement("page_instance.make", {"id": secrets.token_hex(NAME_BYTES)})
                await self._database.submit(Unit(AGGREGATE, local=(made,)))
                rows = await self._database.fetch("page_instance.get", {})
            self._instance = str(rows[0][0])
        return self._instance
