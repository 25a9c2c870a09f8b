"""The questions of one Location in the hands of a test."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.conftest import ManualClock
from tests.core.event.samples import SES
from tests.core.permission.desk import HERE, Ear, soon

from holdfast.core.clock import Ids
from holdfast.core.database.database import Database
from holdfast.core.event.log import EventLog
from holdfast.core.permission.permission import Unattended
from holdfast.core.permission.requests import RequestServices
from holdfast.core.question.question import Questions
from holdfast.core.session.ancestors import Ancestors
from holdfast.schema.location import Location
from holdfast.schema.question import Answer, Question, QuestionOption, QuestionRequest

ASKED = "question.v2.asked"
REPLIED = "question.v2.replied"
REJECTED = "question.v2.rejected"


def question(*labels: str, **more: Any) -> Question:
    options = tuple(QuestionOption(label=label, description=f"means {label}") for label in labels or ("yes", "no"))
    return Question(question="Shall we?", header="Go", options=options, **more)


class QuestionDesk:
    def __init__(
        self,
        log: EventLog,
        database: Database,
        ids: Ids,
        clock: ManualClock,
        *,
        location: Location = HERE,
        unattended: Unattended = "wait",
    ) -> None:
        self.log = log
        self.database = database
        self.ear = Ear(log, ASKED, REPLIED, REJECTED)
        services = RequestServices(log, database, ids, clock, location, unattended)
        self.questions = Questions(services, Ancestors(database, log.signals))
        self._waiting: list[asyncio.Task[tuple[Answer, ...]]] = []

    async def ask(
        self, *questions: Question, session: str = SES
    ) -> tuple[asyncio.Task[tuple[Answer, ...]], QuestionRequest]:
        """A call that waits for a person, and the request that it made."""
        number = len([item for item in self.ear.heard if item.type == ASKED])
        task = asyncio.create_task(self.questions.ask(session, questions or (question(),)))
        self._waiting.append(task)
        asked = await self.ear.count(ASKED, number + 1)
        (request,) = [item for item in await self.questions.list() if item.id == asked[-1]["id"]]
        return task, request

    async def close(self) -> None:
        await soon(self.questions.close())
        await asyncio.gather(*self._waiting, return_exceptions=True)
        self.ear.stop()
