"""Two servers on one database that are called the same."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, Server, finish
from tests.outside.test_left_behind import client_of, new_session

pytestmark = pytest.mark.anyio


async def test_a_name_that_another_server_has_is_told_at_the_start(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """STO-183: both work, and the second one says who the other is."""
    first = serve("--node-name", "left")
    second = serve("--node-name", "left")
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        session_id = await new_session(here, holdfast)
        assert (await there.sessions.get(session_id)).id == session_id
    second.process.send_signal(signal.SIGTERM)
    told = finish(second.process).err
    assert f"another server is called left too: process {first.process.pid} at {first.url}" in told
    first.process.send_signal(signal.SIGTERM)
    assert "called left" not in finish(first.process).err
