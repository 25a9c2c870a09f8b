"""Everything that only a person can decide, of all Sessions and Locations: permissions, questions, forms, and turns
whose process ended. The number of queries does not depend on how many there are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from holdfast.schema.codec import decoder
from holdfast.schema.form import GLOBAL, Form
from holdfast.schema.frozen import Frozen
from holdfast.schema.overview import OpenRequest
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.database.database import Database
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.runtime.recovery import Recovery
    from holdfast.core.session.stored_trees import LineRow, StoredTrees
    from holdfast.schema.insight import InterruptedActivity

MOST_TOLD = 500
"""The oldest are told."""


class OpenRequests:
    def __init__(
        self,
        database: Database,
        trees: StoredTrees,
        recovery: Recovery,
        locations: ServiceMap[LocationServices],
    ) -> None:
        self._database = database
        self._trees = trees
        self._recovery = recovery
        self._locations = locations

    async def list(self) -> list[OpenRequest]:
        """Oldest first. Of forms without a Session, those that this process asked."""
        rows = await self._database.fetch_large("overview.requests", {"limit": MOST_TOLD}, into=_Row)
        undecided = await self._recovery.undecided()
        lines = await self._trees.lines(
            {*(row.session_id for row in rows), *(status.session_id for status in undecided)}
        )
        found = [
            *(row.request(lines[row.session_id]) for row in rows if row.session_id in lines),
            *(_decision(status, lines[status.session_id]) for status in undecided if status.session_id in lines),
            *self._forms_without_session(),
        ]
        return sorted(found, key=lambda request: (request.since, request.id))[:MOST_TOLD]

    async def counts(self) -> Counter[str]:
        """How many requests each Session has, together with those of its descendants."""
        asking = {
            row.session_id: row.requests for row in await self._database.fetch("overview.askers", {}, into=_Asker)
        }
        own = Counter(asking)
        own.update(status.session_id for status in await self._recovery.undecided())
        counts: Counter[str] = Counter()
        for id, line in (await self._trees.lines(own)).items():
            for above in line:
                counts[above.above_id] += own[id]
        return counts

    def _forms_without_session(self) -> Iterator[OpenRequest]:
        for location, services in self._locations.built().items():
            for form, since in services.global_forms.waiting():
                yield OpenRequest(
                    id=form.id, kind="form", session_id=GLOBAL, directory=location.directory, since=since, form=form
                )


class _Asker(Frozen):
    session_id: str
    requests: int


class _Row(Frozen):
    session_id: str
    id: str
    kind: Literal["permission", "question", "form"]
    agent: str | None
    data: str
    since: int

    def request(self, line: list[LineRow]) -> OpenRequest:
        return OpenRequest(
            id=self.id,
            kind=self.kind,
            session_id=self.session_id,
            ancestors=tuple(above.above_id for above in line[:-1]),
            titles=tuple(above.title for above in line),
            directory=line[-1].directory,
            agent=self.agent,
            since=self.since,
            permission=decoder(PermissionRequest).decode(self.data) if self.kind == "permission" else None,
            question=decoder(QuestionRequest).decode(self.data) if self.kind == "question" else None,
            form=decoder(Form).decode(self.data) if self.kind == "form" else None,
        )


def _decision(status: InterruptedActivity, line: list[LineRow]) -> OpenRequest:
    return OpenRequest(
        id=status.session_id,
        kind="recovery",
        session_id=status.session_id,
        ancestors=tuple(above.above_id for above in line[:-1]),
        titles=tuple(above.title for above in line),
        directory=line[-1].directory,
        agent=status.agent or line[-1].agent,
        since=status.since,
        activity=status,
    )
