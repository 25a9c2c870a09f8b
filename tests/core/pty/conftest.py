"""Terminals in the project directory, gone when the test is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.core.pty.desk import PtyDesk

from holdfast.core.clock import Ids

SECRETS = {
    "ANTHROPIC_API_KEY": "canary-anthropic",
    "OPENCODE_SERVER_PASSWORD": "canary-password",
    "EXA_API_KEY": "canary-exa",
    "AWS_SECRET_ACCESS_KEY": "canary-aws",
}


@pytest.fixture
async def desk(project: Path, ids: Ids) -> AsyncIterator[PtyDesk]:
    desk = PtyDesk(project, ids, SECRETS)
    yield desk
    await desk.ptys.close()
