"""Work in one Session: prompts, streams, deliveries, interruption, forks and reverts."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import expect
from tests.acceptance.page.actions import conversation, is_idle, message_box, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Held, Provider, Reply, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]


def test_a_session_is_created_and_its_answer_streams(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-496, WEB-423, WEB-434: text is shown while it is written, as finished Markdown and an open end."""
    rest = threading.Event()
    provider.on("tell me a story", Reply(text=Held("# A title\n\nA beginning.\n\nOnce *upon* a ", rest, "time.")))
    page = pages.open(machine, "/#/new")
    directory = page.get_by_label("Directory")
    expect(directory).not_to_have_value("")  # the page suggests one
    directory.fill(str(machine.project))
    send(page, "tell me a story")

    expect(conversation(page).get_by_role("heading", name="A title")).to_be_visible()
    expect(conversation(page)).to_contain_text("upon")
    assert "time." not in conversation(page).inner_text()
    expect(page.get_by_role("button", name="Interrupt")).to_be_visible()
    rest.set()
    expect(conversation(page).locator("em", has_text="upon")).to_be_visible()
    expect(conversation(page)).to_contain_text("Once upon a time.")
    is_idle(page)


def test_a_steer_joins_the_work_and_a_queued_prompt_follows_it(
    pages: Pages, machine: Machine, provider: Provider
) -> None:
    """WEB-496, WEB-432: both are shown as pending until they are promoted, and a queued one can be withdrawn."""
    go_on = threading.Event()
    begins = Reply(text="working", calls=(("read", {"path": "hello.txt"}),), end=go_on)
    provider.on("a long piece of work", begins, Reply("finished the work"))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "a long piece of work")
    expect(conversation(page)).to_contain_text("working")
    send(page, "mind the gap", delivery="Steer")
    send(page, "and then tidy up", delivery="Queue")
    send(page, "never mind this", delivery="Queue")
    withdraw = page.get_by_role("button", name="Withdraw")
    expect(withdraw).to_have_count(3)
    withdraw.last.click()
    expect(withdraw).to_have_count(2)
    go_on.set()

    expect(conversation(page)).to_contain_text("finished the work")
    expect(conversation(page)).to_contain_text("and then tidy up")
    is_idle(page)
    expect(withdraw).to_have_count(0)
    texts = [message["text"] for message in machine.messages(session) if message["type"] == "user"]
    assert texts == ["a long piece of work", "mind the gap", "and then tidy up"]
    assert [text for text in conversation(page).locator(".user .md").all_inner_texts()] == texts


def test_an_interruption_ends_the_turn_and_is_told(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-496, WEB-433: what was written stays, and the Session takes the next prompt."""
    never = threading.Event()
    provider.on("write without end", Reply(text="some words, then", end=never))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "write without end")
    expect(conversation(page)).to_contain_text("some words")
    page.get_by_role("button", name="Interrupt").click()

    is_idle(page)
    expect(conversation(page)).to_contain_text("interrupted", ignore_case=True)
    expect(conversation(page)).to_contain_text("some words")
    send(page, "something else")
    expect(conversation(page)).to_contain_text("done")
    never.set()


def test_a_fork_begins_with_the_history_before_a_message(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-496, WEB-433: the page shows the new Session with what it shares, and goes on there."""
    session = machine.create("original")
    for text in ("first thing", "second thing"):
        machine.prompt(session, text)
        machine.wait(session)
    page = pages.open(machine, f"/#/s/{session}")
    second = conversation(page).get_by_role("article").filter(has_text="second thing")
    second.hover()
    second.get_by_role("button", name="Fork").click()

    page.wait_for_url(lambda url: "/s/ses_" in url and session not in url)
    expect(conversation(page)).to_contain_text("first thing")
    expect(conversation(page)).not_to_contain_text("second thing")
    send(page, "another way")
    expect(conversation(page)).to_contain_text("another way")
    is_idle(page)


def test_a_revert_is_staged_shown_and_cleared_or_committed(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-496, WEB-433: files go back at once; what followed the message leaves with the commit."""
    provider.on("write a note", calling("bash", command="echo noted > note.txt"), Reply("noted"))
    session = machine.create()
    machine.prompt(session, "write a note")
    machine.wait(session)
    note = machine.project / "note.txt"
    assert note.exists()
    page = pages.open(machine, f"/#/s/{session}")
    mine = conversation(page).get_by_role("article").filter(has_text="write a note")
    mine.hover()
    mine.get_by_role("button", name="Revert").click()
    banner = page.get_by_role("status").filter(has_text="evert")
    expect(banner).to_be_visible()
    assert not note.exists()
    banner.get_by_role("button", name="Clear").click()
    expect(banner).to_have_count(0)
    assert note.exists()
    mine.hover()
    mine.get_by_role("button", name="Revert").click()
    banner.get_by_role("button", name="Commit").click()

    expect(conversation(page)).not_to_contain_text("noted > note.txt")
    assert [message["type"] for message in machine.messages(session)] == ["user"]


def test_a_draft_survives_leaving_the_session(pages: Pages, machine: Machine) -> None:
    """WEB-496, WEB-419: and a prompt that was sent leaves nothing behind."""
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    message_box(page).fill("half a thought")
    page.goto(f"{machine.url}/#/system")
    expect(page.get_by_role("heading", name="System", level=1)).to_be_visible()
    page.go_back()

    expect(message_box(page)).to_have_value("half a thought")
