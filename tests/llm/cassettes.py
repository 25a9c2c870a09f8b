"""Exchanges with providers: those written for these tests, and those recorded where there are any."""

from __future__ import annotations

import pytest
from tests.conftest import FIXTURES, RECORDINGS

CASSETTES = (
    pytest.param(FIXTURES / "cassettes", id="written"),
    pytest.param(RECORDINGS / "cassettes", id="recorded", marks=pytest.mark.recorded),
)
either_cassettes = pytest.mark.parametrize("cassettes", CASSETTES)
