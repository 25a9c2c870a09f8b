"""A Session at `/w/here`, and the questions of that Location."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.conftest import ManualClock
from tests.core.event.samples import Story
from tests.core.question.desk import QuestionDesk
from tests.stores.stores import OpenedDatabase

from holdfast.core.clock import Ids
from holdfast.core.event.log import EventLog


@pytest.fixture
async def story(database: OpenedDatabase, log: EventLog) -> Story:
    story = Story(database, log)
    await story.begin()
    return story


@pytest.fixture
async def desk(story: Story, ids: Ids, clock: ManualClock) -> AsyncIterator[QuestionDesk]:
    desk = QuestionDesk(story.log, story.database, ids, clock)
    yield desk
    await desk.close()
