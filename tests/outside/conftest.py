"""What a user has: the command line, the HTTP API, the generated clients and the embedded host. Nothing of core is used
here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cli.conftest import here, holdfast, provider, serve
from tests.outside.scripted_provider import Model
from tests.outside.world import World

__all__ = ["here", "holdfast", "model", "provider", "serve", "world"]


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    """A provider that plays what the test wrote down."""
    model = Model()
    async with model.serving():
        yield model


@pytest.fixture
def world(tmp_path: Path, model: Model) -> World:
    return World(tmp_path, model)
