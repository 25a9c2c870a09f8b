"""One Session that has begun: `session.created` stands at sequence 0."""

from __future__ import annotations

import pytest
from tests.core.event.samples import Story
from tests.stores.stores import OpenedDatabase

from holdfast.core.event.log import EventLog


@pytest.fixture
async def story(database: OpenedDatabase, log: EventLog) -> Story:
    story = Story(database, log)
    await story.begin()
    return story


@pytest.fixture
async def turn(story: Story) -> Story:
    """The same, with an assistant message open."""
    await story.step(at=100)
    return story
