"""Fixtures for pytest. They are there wherever Holdfast is installed; the runtime is imported when one is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast import Holdfast, HoldfastSync
    from holdfast.testing import ScriptedModel


@pytest.fixture
def holdfast_model() -> ScriptedModel:
    """A scripted model without replies. `holdfast_model.reply(...)` adds some."""
    from holdfast.testing import ScriptedModel

    return ScriptedModel()


@pytest.fixture
def holdfast_host(holdfast_model: ScriptedModel, tmp_path: Path) -> Holdfast:
    """A host with the scripted model, in the test's own folder: `async with holdfast_host as hf`."""
    return holdfast_model.host(tmp_path)


@pytest.fixture
def holdfast_sync(holdfast_model: ScriptedModel, tmp_path: Path) -> Iterator[HoldfastSync]:
    """An open blocking host with the scripted model, in the test's own folder."""
    with holdfast_model.host_sync(tmp_path) as hf:
        yield hf
