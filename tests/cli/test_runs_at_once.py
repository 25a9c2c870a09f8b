"""Several `holdfast run` on one session: the drain belongs to one process, the answers to all."""

from __future__ import annotations

import signal
import subprocess

import pytest
from tests.cli.conftest import PATIENCE, Machine, Provider, eventually, finish
from tests.stores.stores import STORES

from holdfast.schema.session_message import AssistantMessage, UserMessage


@pytest.fixture
def busy(holdfast: Machine, provider: Provider) -> tuple[subprocess.Popen[str], str]:
    """A run that waits for its model, and its session."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.answer_later
    process = holdfast.start("run", "one")
    assert provider.asked.acquire(timeout=PATIENCE)
    assert process.stderr is not None
    return process, process.stderr.readline().split()[1]


def admitted(machine: Machine, text: str) -> bool:
    with STORES.rows(machine.data / "holdfast.db") as run:
        return bool(run("select 1 from event where data like ?", f"%{text}%"))


def test_two_runs_on_one_session_both_end(
    holdfast: Machine, provider: Provider, busy: tuple[subprocess.Popen[str], str]
) -> None:
    """API-405, SES-079: the second prompt joins the first one's drain; both commands end, and nothing runs twice."""
    first, session = busy
    second = holdfast.start("run", "--session", session, "number two")
    eventually(lambda: admitted(holdfast, "number two"))
    provider.released.set()
    ran = [finish(process) for process in (first, second)]

    assert [item.code for item in ran] == [0, 0]
    assert "fine" in ran[1].out
    assert holdfast.healthy()


def test_a_second_run_can_be_interrupted_while_it_waits(
    holdfast: Machine, provider: Provider, busy: tuple[subprocess.Popen[str], str]
) -> None:
    """API-124: Ctrl-C ends it, though the drain belongs to another process."""
    _, session = busy
    second = holdfast.start("run", "--session", session, "number two")
    eventually(lambda: admitted(holdfast, "number two"))
    second.send_signal(signal.SIGINT)
    ran = finish(second)

    assert ran.code == 130
    assert "Traceback" not in ran.err


def test_many_runs_at_once_on_one_session(holdfast: Machine) -> None:
    """SES-079: each prompt is answered once, whoever's process does it."""
    session = holdfast("run", "--model", "demo/echo", "start").session
    started = [holdfast.start("run", "--session", session, f"prompt {number}") for number in range(4)]
    ran = [finish(process) for process in started]
    _, messages = holdfast.look(session)

    assert [item.code for item in ran] == [0] * 4
    asked = sorted(message.text for message in messages if isinstance(message, UserMessage))
    assert asked == [*(f"prompt {number}" for number in range(4)), "start"]
    assert isinstance(messages[-1], AssistantMessage)
    assert holdfast.healthy()
