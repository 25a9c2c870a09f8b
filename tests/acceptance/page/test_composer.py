"""The composer: files, completion, who answers, and a new Session."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from tests.acceptance.page.actions import conversation, is_idle, message_box, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Json, Machine
from tests.acceptance.page.provider import Provider, Reply

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

GIVE = """([kind, name, text]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], name, { type: 'text/plain' }));
    const area = document.querySelector('.composer textarea');
    area.dispatchEvent(kind === 'paste'
        ? new ClipboardEvent('paste', { clipboardData: transfer, bubbles: true, cancelable: true })
        : new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""
LARGE = 20_000_000
MAKE_LARGE = """(size) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(size)], 'film.bin'));
    document.querySelector('.composer textarea').dispatchEvent(
        new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


def chips(page: Page) -> Locator:
    return page.locator(".composer .filechip")


def options(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Completions").get_by_role("option")


def test_files_are_attached_by_choice_paste_and_drop(pages: Pages, machine: Machine, tmp_path: Path) -> None:
    """WEB-430: they are listed, can be removed, and go with the prompt."""
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    chosen = tmp_path / "chosen.txt"
    chosen.write_text("by choice", encoding="utf-8")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Attach files").click()
    chooser.value.set_files(chosen)
    expect(chips(page)).to_have_count(1)
    page.evaluate(GIVE, ["paste", "pasted.txt", "by paste"])
    expect(chips(page)).to_have_count(2)
    page.evaluate(GIVE, ["drop", "dropped.txt", "by drop"])
    expect(chips(page)).to_have_count(3)
    page.get_by_role("button", name="Remove pasted.txt").click()
    expect(chips(page)).to_have_count(2)
    send(page, "read these")

    expect(conversation(page)).to_contain_text("done")
    expect(chips(page)).to_have_count(0)
    shown = conversation(page).locator(".user .filechip")
    expect(shown).to_have_count(2)
    (prompt, _) = machine.messages(session)
    assert [file["name"] for file in prompt["files"]] == ["chosen.txt", "dropped.txt"]


def test_a_file_that_makes_them_too_large_is_refused(pages: Pages, machine: Machine) -> None:
    """WEB-430: with the size that they would have; the others stay."""
    page = pages.open(machine, f"/#/s/{machine.create()}")
    expect(message_box(page)).to_be_visible()
    page.evaluate(GIVE, ["paste", "small.txt", "x" * 1_000])
    expect(chips(page)).to_contain_text("small.txt")
    page.evaluate(MAKE_LARGE, LARGE)

    expect(page.locator("#alert")).to_contain_text("film.bin was not attached")
    expect(page.locator("#alert")).to_contain_text("20.0 MB")
    expect(chips(page)).to_have_count(1)


def test_a_mention_and_a_command_are_completed(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-430: files, agents and references after `@`; commands and skills after `/`, which calls them."""
    provider.on("Say hello to Ada", Reply("Hello, Ada."))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    box = message_box(page)
    box.press_sequentially("@")
    expect(options(page).filter(has_text=re.compile("file|directory")).first).to_be_visible()
    for typed, found in (("look at @hel", "@hello.txt"), ("ask @gen", "@general"), ("read @man", "@manual/")):
        box.fill("")
        box.press_sequentially(typed)
        expect(options(page).filter(has_text=found)).to_be_visible()
    box.fill("")
    box.press_sequentially("look at @hel")
    expect(options(page).first).to_contain_text("@hello.txt")
    page.keyboard.press("Tab")
    expect(box).to_have_value("look at @hello.txt ")
    box.fill("")
    box.press_sequentially("/")
    expect(options(page).filter(has_text="Tidies up")).to_be_visible()
    box.press_sequentially("gre")
    expect(options(page)).to_have_count(1)
    page.keyboard.press("Escape")
    expect(options(page)).to_have_count(0)
    box.press_sequentially("e")
    expect(options(page)).to_have_count(1)
    page.keyboard.press("Enter")
    expect(box).to_have_value("/greet ")
    box.press_sequentially("Ada")
    page.keyboard.press("Enter")

    expect(conversation(page)).to_contain_text("Hello, Ada.")
    (prompt, _) = machine.messages(session)
    assert prompt["text"] == "Say hello to Ada"


def test_a_model_and_an_agent_are_picked(pages: Pages, machine: Machine) -> None:
    """WEB-431: what the switch costs stands beside the model before it is made."""
    session = machine.create()
    machine.prompt(session, "something to remember")
    machine.wait(session)
    page = pages.open(machine, f"/#/s/{session}")
    page.get_by_role("button", name="Model:").click()
    dialog = page.get_by_role("dialog", name="Model")
    expect(dialog).to_contain_text("tokens are read anew")
    entries = dialog.get_by_role("menuitemradio")
    expect(entries.filter(has_text="current")).to_have_count(1)
    dialog.get_by_label("Find a model").fill("mock/n")
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("switch ≈ $")
    entries.click()
    expect(page.get_by_role("button", name="Model: n")).to_be_visible()
    page.get_by_role("button", name="Agent:").click()
    page.get_by_role("dialog", name="Agent").get_by_role("menuitemradio", name="plan").click()
    expect(page.get_by_role("button", name="Agent: plan")).to_be_visible()

    found = machine.get(f"/api/session/{session}")
    assert (found["model"]["id"], found["agent"]) == ("n", "plan")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A server without any provider."""
    machine = Machine(tmp_path_factory.mktemp("alone"), None)
    machine.start()
    yield machine
    machine.close()


def test_without_a_provider_the_offline_model_answers(pages: Pages, alone: Machine) -> None:
    """WEB-431, WEB-434, WEB-446: the empty page leads to a new Session, which says how to connect a provider."""
    page = pages.open(alone)
    expect(page.get_by_text("No session yet")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="New session").last.click()
    expect(page.get_by_role("main")).to_contain_text("No provider is connected.")
    expect(page.get_by_label("Directory")).to_have_value(str(alone.project))
    expect(page.get_by_role("button", name="Model: echo")).to_be_visible()
    send(page, "say something")

    expect(conversation(page).locator(".md")).to_have_count(2)
    is_idle(page)


def test_a_proposed_directory_does_not_replace_one_that_is_typed(pages: Pages, alone: Machine) -> None:
    """WEB-434: that of the server comes late; the field keeps what somebody wrote meanwhile."""
    pages.allowed.append("400")  # there is no such directory
    waiting: list[Route] = []
    page = pages.open(alone)
    page.route("**/api/overview*", lambda route: route.fulfill(json={"data": []}))  # nobody worked anywhere yet
    page.route("**/api/location*", lambda route: waiting.append(route))
    page.goto(alone.url + "/#/new")
    field = page.get_by_label("Directory")
    field.press_sequentially("/some")
    expect(field).to_have_value("/some")
    while not waiting:
        page.wait_for_timeout(20)
    with page.expect_response("**/api/location*"):
        waiting.pop().continue_()
    field.blur()
    message_box(page).press_sequentially("afterwards")

    expect(message_box(page)).to_have_value("afterwards")
    expect(field).to_have_value("/some")


def test_a_new_session_is_created_once(pages: Pages, machine: Machine) -> None:
    """WEB-434: with its directory, agent, model and first prompt, also if the first answer is lost."""
    pages.allowed.append("ERR_FAILED")
    page = pages.open(machine, "/#/new")
    asked: list[Json] = []

    def lose_the_first_answer(route: Route) -> None:
        asked.append(json.loads(route.request.post_data or "{}"))
        response = route.fetch()
        if len(asked) == 1:
            route.abort()
        else:
            route.fulfill(response=response)

    page.route("**/api/session", lose_the_first_answer)
    page.get_by_label("Directory").fill(str(machine.project))
    page.get_by_role("button", name="Agent:").click()
    page.get_by_role("dialog", name="Agent").get_by_role("menuitemradio", name="plan").click()
    page.get_by_role("button", name="Model:").click()
    page.get_by_role("dialog", name="Model").get_by_role("menuitemradio", name="mock").last.click()
    expect(page.get_by_role("button", name="Model: n")).to_be_visible()
    send(page, "begin once")
    expect(page.locator("#alert")).to_contain_text("No session was created")
    expect(message_box(page)).to_have_value("begin once")
    page.get_by_role("button", name="Send").click()

    expect(conversation(page)).to_contain_text("done")
    first, second = asked
    assert first == second
    session = page.url.rpartition("/")[2]
    assert session == first["id"]
    found = machine.get(f"/api/session/{session}")
    assert (found["location"]["directory"], found["agent"], found["model"]["id"]) == (str(machine.project), "plan", "n")
    assert [message["text"] for message in machine.messages(session) if message["type"] == "user"] == ["begin once"]
