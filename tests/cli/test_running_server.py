"""`holdfast run` beside a server on the same data, and what it says while it waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from tests.cli.conftest import PATIENCE, Machine, Provider, Ran, Server, finish

from holdfast.cli import following
from holdfast.cli.screen import Screen
from holdfast.schema.model import ModelRef

ECHO = ("run", "--model", "demo/echo")


def test_a_run_goes_through_the_server_on_the_same_data(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-046: found by itself, with its password; and not when that is not wanted."""
    server = serve()
    through, alone = holdfast(*ECHO, "one"), holdfast(*ECHO, "--standalone", "two")

    assert (through.code, through.out, alone.code, alone.out) == (0, "one\n", 0, "two\n")
    assert server.url in through.err
    assert server.url not in alone.err
    assert holdfast.healthy()


def test_another_data_directory_has_another_server(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """Only the same data counts."""
    url = serve().url
    ran = holdfast(*ECHO, "one", HOLDFAST_DATA=str(holdfast.home / "other"))

    assert (ran.code, ran.out) == (0, "one\n")
    assert url not in ran.err


def test_a_server_that_was_killed_is_no_obstacle(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """What it left behind is recognised."""
    server = serve()
    server.process.kill()
    server.process.wait()
    ran = holdfast(*ECHO, "one")

    assert (ran.code, ran.out) == (0, "one\n")
    assert server.url not in ran.err


def test_a_server_that_does_not_let_us_in_is_no_obstacle(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """This process does the work then, which is as safe."""
    server = serve(OPENCODE_SERVER_PASSWORD="theirs")
    ran = holdfast(*ECHO, "one")

    assert (ran.code, ran.out) == (0, "one\n")
    assert server.url not in ran.err


def test_a_server_that_hangs_is_no_obstacle(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """It is asked for a sign of life, for a bounded time."""
    server = serve()
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        ran = holdfast(*ECHO, "one")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)

    assert (ran.code, ran.out) == (0, "one\n")


def test_through_a_server_without_models_the_offline_one_answers(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """A first run works, server or not."""
    serve()
    ran = holdfast("run", "hello")

    assert (ran.code, ran.out) == (0, "hello\n")
    assert "demo/echo" in ran.err


def test_interrupting_a_run_through_a_server(
    holdfast: Machine, provider: Provider, serve: Callable[..., Server]
) -> None:
    """API-124: the turn ends there, the server lives on."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    server = serve()
    process = holdfast.start("run", "hello")
    assert provider.asked.acquire(timeout=PATIENCE)
    process.send_signal(signal.SIGINT)
    ran = finish(process)

    assert ran.code == 130
    assert server.url in ran.err
    assert server.process.poll() is None


def test_a_run_says_what_it_waits_for_after_a_silence(
    holdfast: Machine, here: Callable[..., Ran], provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-209: after a silence, with what ends it."""
    monkeypatch.setattr(following, "SILENCE_SECONDS", 0.05)
    holdfast.use_provider(provider.url)
    provider.behave = provider.answer_later
    note = Screen.note

    def noted(screen: Screen, text: str) -> None:
        note(screen, text)
        if "waiting for" in text:
            provider.released.set()

    monkeypatch.setattr(Screen, "note", noted)
    ran = here("run", "hello")

    assert (ran.code, ran.out) == (0, "fine\n")
    assert "waiting for the first byte from mock/m, until the provider answers" in ran.err


def test_agent_model_and_variant_of_a_session_can_be_changed(
    holdfast: Machine, here: Callable[..., Ran], provider: Provider
) -> None:
    """API-115, API-116: before the prompt is admitted; a variant alone is one of the model that it has."""
    variants = {"high": {"reasoningEffort": "high"}}
    holdfast.use_provider(provider.url, models={"m": {"variants": variants}})
    session = here(*ECHO, "one").session
    for options in (("--model", "mock/m", "--agent", "plan"), ("--variant", "high")):
        assert here("run", "--session", session, *options, "two").out == "fine\n"
    found, _ = holdfast.look(session)

    assert (found.agent, found.model) == ("plan", ModelRef(id="m", provider_id="mock", variant="high"))
    assert [body.get("reasoning_effort") for body in provider.bodies] == [None, "high"]


def test_a_variant_needs_a_model(here: Callable[..., Ran]) -> None:
    """A usage error, and no session is left behind."""
    ran = here("run", "--variant", "high", "x")

    assert (ran.code, ran.out) == (2, "")
    assert "--model" in ran.complaint
    assert here("sessions").out == ""


def test_a_prompt_can_come_from_standard_input(here: Callable[..., Ran]) -> None:
    """However long it is."""
    text = "word " * 50_000
    ran = here(*ECHO, "-q", "-", given=text)

    assert (ran.code, ran.out.strip()) == (0, text.strip())


def test_a_prompt_can_be_one_long_word(here: Callable[..., Ran]) -> None:
    """The offline model does not look for a file in every part of it."""
    ran = here(*ECHO, "-q", "-", given="a" * 300_000)

    assert (ran.code, len(ran.out)) == (0, 300_001)


@pytest.mark.parametrize("more", [("--standalone",), ("--sandbox", "off")])
def test_attached_and_alone_exclude_each_other(here: Callable[..., Ran], more: tuple[str, ...]) -> None:
    """A usage error."""
    ran = here("run", "--attach", "http://127.0.0.1:1", *more, "x")

    assert ran.code == 2
    assert "--attach" in ran.complaint
