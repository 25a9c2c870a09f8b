from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.core.web.site import Site, running_site, watched_connections


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as site:
        yield site


@pytest.fixture
def connections() -> Iterator[list[tuple[Any, ...]]]:
    with watched_connections() as seen:
        yield seen
