"""A connection that breaks: what the page shows meanwhile, and that nothing is lost or doubled afterwards."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import expect
from tests.acceptance.page.actions import connection, conversation, is_idle, message_box, send, shown_text
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Held, Provider, Reply

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

REFUSED = r"ERR_(CONNECTION_REFUSED|CONNECTION_RESET|SOCKET_NOT_CONNECTED|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)"


def test_a_server_that_is_killed_in_mid_answer(pages: Pages, own_machine: Machine, provider: Provider) -> None:
    """WEB-498, WEB-411: the page says so, comes back by itself, and shows what a fresh page and the log show."""
    pages.allowed.append(REFUSED)
    machine, never = own_machine, threading.Event()
    provider.on("the first question", Reply("the first answer"))
    provider.on("the second question", Reply(text=Held("half of the second answer", never, "")))
    session = machine.create("Killed")
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "the first question")
    expect(conversation(page)).to_contain_text("the first answer")
    is_idle(page)
    send(page, "the second question")
    expect(conversation(page)).to_contain_text("half of the second answer")
    machine.kill()
    expect(connection(page)).not_to_have_text("Live")
    provider.on("the second question", Reply("the whole second answer"))
    never.set()
    machine.start()

    expect(connection(page)).to_have_text("Live", timeout=20_000)
    expect(conversation(page)).to_contain_text("the whole second answer")
    is_idle(page)
    send(page, "the third question")
    expect(conversation(page)).to_contain_text("done")
    is_idle(page)
    fresh = pages.open(machine, f"/#/s/{session}")
    expect(conversation(fresh)).to_contain_text("done")
    is_idle(fresh)
    assert shown_text(page) == shown_text(fresh)
    told = [message["text"] for message in machine.messages(session) if message["type"] == "user"]
    assert told == ["the first question", "the second question", "the third question"]
    assert conversation(page).locator(".user .md").all_inner_texts() == told
    assert shown_text(page).count("the first answer") == 1


def test_a_prompt_that_was_sent_while_the_server_was_gone(pages: Pages, own_machine: Machine) -> None:
    """WEB-498, WEB-418: it is admitted once, when the server is back."""
    pages.allowed.append(REFUSED)
    machine = own_machine
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    expect(message_box(page)).to_be_visible()
    expect(connection(page)).to_have_text("Live")
    machine.kill()
    expect(connection(page)).not_to_have_text("Live")
    send(page, "are you there?")
    expect(page.get_by_role("main")).to_contain_text("are you there?")
    machine.start()

    expect(conversation(page)).to_contain_text("done", timeout=20_000)
    is_idle(page)
    assert [message["type"] for message in machine.messages(session)] == ["user", "assistant"]
    assert conversation(page).locator(".user").count() == 1


def test_a_server_that_was_stopped(pages: Pages, own_machine: Machine) -> None:
    """WEB-411, WEB-446: it announced its end, which the page tells; nothing is said about a lost connection."""
    pages.allowed.append(REFUSED)
    session = own_machine.create()
    page = pages.open(own_machine, f"/#/s/{session}")
    expect(connection(page)).to_have_text("Live")
    own_machine.stop()
    expect(connection(page)).to_contain_text("holdfast serve was stopped.")
    own_machine.start()
    connection(page).get_by_role("button", name="Try now").click()

    expect(connection(page)).not_to_contain_text("was stopped")
    expect(page.get_by_role("navigation", name="Sessions").first).to_contain_text("Live")
