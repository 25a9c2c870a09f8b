"""What `holdfast run` says about work that other processes left unfinished."""

from __future__ import annotations

import asyncio
import signal

import pytest
from tests.cli.conftest import PATIENCE, Machine, Provider, finish

NOTE = "unfinished work that no process continues; `holdfast sessions --interrupted` lists them"


@pytest.fixture
def killed(holdfast: Machine, provider: Provider) -> str:
    """A session whose process was killed while the provider was silent."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    process = holdfast.start("run", "hello")
    assert provider.asked.acquire(timeout=PATIENCE)
    process.send_signal(signal.SIGKILL)
    ran = finish(process)
    provider.behave = Provider.answer
    return ran.session


def test_a_run_says_that_another_session_is_unfinished(holdfast: Machine, killed: str) -> None:
    """SES-262, SES-253: one line with the number, and the command that it names lists the session."""
    ran = holdfast("run", "again")

    assert (ran.code, ran.out) == (0, "fine\n")
    assert [line for line in ran.err.splitlines() if "unfinished" in line] == [
        f"1 session of this directory has {NOTE}"
    ]
    assert killed in holdfast("sessions", "--interrupted").out


def test_a_run_says_nothing_where_nothing_is_unfinished(holdfast: Machine, killed: str) -> None:
    """SES-262: in another directory, about the session that it continues itself, and with --quiet."""
    (elsewhere := holdfast.home / "elsewhere").mkdir()
    there = holdfast("run", "--dir", str(elsewhere), "again")
    quiet = holdfast("run", "-q", "again")
    same = holdfast("run", "--session", killed, "again")

    assert [ran.code for ran in (there, quiet, same)] == [0, 0, 0]
    assert "unfinished" not in there.err + quiet.err + same.err


def test_interrupted_sessions_of_one_directory(holdfast: Machine, killed: str) -> None:
    """SES-262: the list of the API, for one directory or for all."""

    async def listed(directory: str | None) -> list[str]:
        async with holdfast.host(recover=False) as client:
            return [activity.session_id for activity in await client.sessions.interrupted(directory=directory)]

    assert asyncio.run(listed(str(holdfast.project))) == [killed]
    assert asyncio.run(listed(str(holdfast.home))) == []
    assert asyncio.run(listed(None)) == [killed]
