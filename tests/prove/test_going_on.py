"""Two nodes with much under way, of which one is killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, Provider, Server
from tests.outside import test_left_behind
from tests.prove.going_on import kill_one_of_two

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(600)]


async def test_sixty_answers_go_on_and_no_command_is_repeated(
    holdfast: Machine, serve: Callable[..., Server], provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-139, SES-453: sixty answers and twenty commands on two nodes; nobody is asked about an answer."""
    monkeypatch.setattr(test_left_behind, "PATIENCE", 300.0)
    seconds = await kill_one_of_two(holdfast, serve, provider, answers=60, commands=20)
    print(f"the last of 30 answers was asked for again {seconds:.2f} s after the kill")
