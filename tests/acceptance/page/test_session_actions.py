"""What a person does with a Session as a whole: rename, compact, revert, archive, delete."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.page.actions import conversation, is_idle, message_box
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]


def choose(page: Page, entry: str) -> None:
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name=entry).click()


def answered(machine: Machine, *prompts: str, title: str = "") -> str:
    session = machine.create(title)
    for prompt in prompts:
        machine.prompt(session, prompt)
        machine.wait(session)
    return session


def articles(page: Page, text: str) -> Locator:
    return conversation(page).get_by_role("article").filter(has_text=text)


def test_a_session_is_renamed_and_compacted(pages: Pages, machine: Machine) -> None:
    """WEB-433: the conversation shows where the model reads a summary instead."""
    session = answered(machine, "one thing " * 8_000, "another thing " * 8_000, title="Before")
    page = pages.open(machine, f"/#/s/{session}")
    expect(page.get_by_role("heading", name="Before", level=1)).to_be_visible()
    choose(page, "Rename")
    dialog = page.get_by_role("dialog", name="Rename the session")
    dialog.get_by_label("Title").fill("After")
    dialog.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", name="After", level=1)).to_be_visible()
    choose(page, "Compact now")

    expect(conversation(page).get_by_role("article", name="Compaction")).to_contain_text("Compacted")
    is_idle(page)
    assert machine.get(f"/api/session/{session}")["title"] == "After"


def test_a_session_is_archived_and_taken_out_again(pages: Pages, machine: Machine) -> None:
    """WEB-433, WEB-435: it leaves the list and is found among the archived ones."""
    session = answered(machine, "put this away", title="For the archive")
    page = pages.open(machine, f"/#/s/{session}")
    expect(message_box(page)).to_be_visible()
    choose(page, "Archive")
    expect(page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    row = page.get_by_role("main").get_by_role("link", name="For the archive")
    expect(row).to_have_count(0)
    page.get_by_role("button", name="Archived sessions").click()
    row.click()
    choose(page, "Take out of the archive")
    expect(page.locator("#say")).to_contain_text("Taken out of the archive")

    assert "archived" not in machine.get(f"/api/session/{session}")["time"]


def test_a_deletion_asks_first(pages: Pages, machine: Machine) -> None:
    """WEB-433, WEB-415: a page that is open elsewhere says that it was deleted and keeps the draft."""
    session = answered(machine, "soon gone", title="To be deleted")
    page = pages.open(machine, f"/#/s/{session}")
    other = pages.tab(page.context, f"{machine.url}/#/s/{session}")
    message_box(other).fill("a thought worth keeping")
    page.bring_to_front()
    choose(page, "Delete")
    dialog = page.get_by_role("dialog", name="Delete this session?")
    expect(dialog).to_contain_text("To be deleted")
    dialog.get_by_role("button", name="Cancel").click()
    assert machine.get(f"/api/session/{session}")["id"] == session
    choose(page, "Delete")
    page.goto(f"{machine.url}/#/system")
    expect(page.get_by_role("heading", name="System", level=1)).to_be_visible()
    expect(dialog).to_have_count(0)  # the question belongs to the page that was left
    page.go_back()
    choose(page, "Delete")
    dialog.get_by_role("button", name="Delete").click()

    expect(page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    expect(other.get_by_text("There is no such session")).to_be_visible()
    expect(other.get_by_role("main")).to_contain_text("a thought worth keeping")
    expect(message_box(other)).to_have_count(0)
    other.get_by_role("link", name="Start a session with the draft").click()
    expect(message_box(other)).to_have_value("a thought worth keeping")
    assert machine.api.get(f"/api/session/{session}").status_code == 404


def test_a_revert_of_a_later_prompt(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-433, WEB-415: it is staged before that prompt; what leaves is faded, and is gone with the commit."""
    provider.on("make the second file", calling("bash", command="echo 2 > second.txt"), Reply("the second is made"))
    session = answered(machine, "the first prompt", "make the second file")
    second = machine.project / "second.txt"
    assert second.exists()
    page = pages.open(machine, f"/#/s/{session}")
    kept, leaves = articles(page, "the first prompt"), articles(page, "make the second file")
    expect(leaves).to_be_visible()
    leaves.hover()
    leaves.get_by_role("button", name="Revert").click()
    banner = page.get_by_role("status").filter(has_text="Revert is staged")
    expect(banner).to_contain_text("1 file")
    expect(leaves).to_have_class("it k-user ghost")
    expect(articles(page, "the second is made")).to_have_class("it k-text ghost")
    expect(kept).to_have_class("it k-user")
    assert not second.exists()
    banner.get_by_role("button", name="Clear").click()
    expect(banner).to_have_count(0)
    expect(leaves).to_have_class("it k-user")
    assert second.exists()
    leaves.hover()
    leaves.get_by_role("button", name="Revert").click()
    banner.get_by_role("button", name="Commit").click()

    expect(leaves).to_have_count(0)
    expect(articles(page, "the second is made")).to_have_count(0)
    expect(kept).to_be_visible()
    assert [message["text"] for message in machine.messages(session) if message["type"] == "user"] == [
        "the first prompt"
    ]
