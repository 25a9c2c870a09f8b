"""What the page says about work is so: how it ended, what it waits for, and that nothing runs where nothing runs."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.page.actions import conversation, is_idle, look_away, message_box, press, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Held, Provider, Reply, calling
from tests.acceptance.page.test_reconnecting import REFUSED

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]


def header(page: Page) -> Locator:
    return page.locator(".s-state")


def row(page: Page, title: str) -> Locator:
    """In the list of Sessions."""
    return page.get_by_role("main").locator(".srow").filter(has_text=title)


def test_failed_stopped_and_finished_work_is_told_apart(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-530: in the header and in the list; a new try is offered only while nothing came after the failure."""
    end = threading.Event()
    provider.on("be refused", Reply(status=401))
    provider.on("something else", Reply("fine"))
    provider.on("be stopped", Reply(text=Held("on and on", end, "")))
    failed, stopped, finished = (machine.create(title) for title in ("It failed", "It stopped", "It ended"))
    page = pages.open(machine, f"/#/s/{failed}")
    send(page, "be refused")
    expect(header(page)).to_contain_text("Failed")
    expect(header(page)).to_contain_text("refused with 401")
    expect(conversation(page).get_by_role("button", name="Try again")).to_have_count(1)
    page.goto(f"{machine.url}/#/s/{stopped}")
    send(page, "be stopped")
    expect(conversation(page)).to_contain_text("on and on")
    page.get_by_role("button", name="Interrupt").click()
    expect(header(page)).to_contain_text("Stopped")
    end.set()
    page.goto(f"{machine.url}/#/s/{finished}")
    send(page, "be brief")
    expect(header(page)).to_contain_text("Finished")
    page.goto(f"{machine.url}/#/")
    for title, word in (("It failed", "Failed"), ("It stopped", "Stopped"), ("It ended", "Finished")):
        expect(row(page, title).locator("svg.dot")).to_have_attribute("aria-label", word)
        expect(row(page, title)).to_contain_text(word)
    page.get_by_role("group", name="State").get_by_role("button", name="Failed").click()
    expect(row(page, "It failed")).to_be_visible()
    expect(row(page, "It ended")).to_have_count(0)
    page.goto(f"{machine.url}/#/s/{failed}")
    send(page, "something else")
    expect(header(page)).to_contain_text("Finished")
    expect(conversation(page)).to_contain_text("refused with 401")
    expect(conversation(page).get_by_role("button", name="Try again")).to_have_count(0)


def test_a_reached_budget_is_a_card_that_raises_it(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-531: it says whose budget, what was used of which limit; the counts include it; the same work goes on."""
    provider.on("spend it", calling("read", path="hello.txt"), Reply("it was worth it"))
    session = machine.create("Expensive")
    machine.api.put(f"/api/session/{session}/budget", json={"budget": {"money": 0.0001}}).raise_for_status()
    machine.prompt(session, "spend it")
    page = pages.open(machine, "/#/inbox")
    card = page.get_by_role("main").get_by_role("article").filter(has_text="A budget is used up")
    expect(card).to_contain_text("Expensive")
    expect(card).to_contain_text("of $0.0001 used")
    count = page.get_by_role("main").locator(".count").inner_text()
    expect(page.get_by_role("navigation", name="Sessions").first.locator(".badge")).to_contain_text(count)
    page.goto(f"{machine.url}/#/s/{session}")
    expect(header(page)).to_contain_text("Budget reached")
    expect(conversation(page).locator(".spin")).to_have_count(0)
    card.get_by_label("New limit, dollars").fill("0.00005")
    expect(card.get_by_role("button", name="Raise the budget")).to_be_disabled()
    card.get_by_label("New limit, dollars").fill("5")
    press(card.get_by_role("button", name="Raise the budget"))
    expect(conversation(page)).to_contain_text("it was worth it")
    expect(header(page)).to_contain_text("Finished")
    look_away(page)
    expect(card).to_have_count(0)


def test_the_counts_of_what_needs_somebody_agree(pages: Pages, own_machine: Machine, provider: Provider) -> None:
    """WEB-532: the badge, the chip above the list and the inbox."""
    pages.allowed.append(REFUSED)
    provider.on("ask twice", Reply(calls=(("bash", {"command": "git tag a1"}), ("bash", {"command": "git tag a2"}))))
    session = own_machine.create("Two questions")
    own_machine.prompt(session, "ask twice")
    page = pages.open(own_machine, "/#/")
    chip = page.get_by_role("group", name="State").get_by_role("button", name="Needs you")
    badge = page.get_by_role("navigation", name="Sessions").first.locator(".badge")
    expect(page.locator(".home-side .ask").filter(has_text="git tag a")).to_have_count(2)
    number = badge.inner_text().split()[0]
    expect(chip).to_have_text(f"Needs you{number}")
    expect(page.locator("#needs .count")).to_have_text(number)
    own_machine.api.post(f"/api/session/{session}/interrupt").raise_for_status()


def test_what_streamed_before_a_kill_stays_and_is_marked(
    pages: Pages, own_machine: Machine, provider: Provider
) -> None:
    """WEB-533: no cursor and no spinner stays at what nobody writes any more."""
    pages.allowed.append(REFUSED)
    never = threading.Event()
    provider.on("tell me a lot", Reply(text=Held("The first paragraph.\n\nand half of", never, "")))
    session = own_machine.create("Killed")
    page = pages.open(own_machine, f"/#/s/{session}")
    send(page, "tell me a lot")
    expect(conversation(page)).to_contain_text("and half of")
    page.wait_for_timeout(1_500)  # what was seen for a second is kept
    provider.on("tell me a lot", Reply("told"))
    own_machine.kill()
    never.set()
    own_machine.api.close()
    own_machine.start()
    expect(conversation(page)).to_contain_text("and half of", timeout=20_000)
    expect(conversation(page).locator(".broken")).to_contain_text("broke off here", timeout=20_000)
    expect(conversation(page)).to_contain_text("The first paragraph.")
    expect(conversation(page).locator(".streaming")).to_have_count(0)
    expect(conversation(page).locator(".spin")).to_have_count(0)


def test_a_call_of_a_killed_process_runs_no_clock(pages: Pages, own_machine: Machine, provider: Provider) -> None:
    """WEB-533: its outcome is unknown, in the conversation and on the card that asks what to do."""
    pages.allowed.append(REFUSED)
    provider.on("work long", calling("bash", command="sleep 45"), Reply("slept"))
    session = own_machine.create("Killed in a call")
    page = pages.open(own_machine, f"/#/s/{session}")
    send(page, "work long")
    expect(conversation(page).locator(".call .spin")).to_have_count(1)
    own_machine.kill()
    own_machine.start()
    expect(conversation(page).locator(".call")).to_contain_text("outcome unknown", timeout=20_000)
    expect(conversation(page).locator(".spin, time[data-since]")).to_have_count(0)
    expect(header(page)).to_contain_text("Broken off")


def test_a_stopped_server_offers_no_new_try_beside_work_that_goes_on(
    pages: Pages, own_machine: Machine, provider: Provider
) -> None:
    """WEB-534"""
    pages.allowed.append(REFUSED)
    end = threading.Event()
    provider.on("go on later", Reply(text=Held("the first half", end, "")))
    session = own_machine.create("Stopped server")
    page = pages.open(own_machine, f"/#/s/{session}")
    send(page, "go on later")
    expect(conversation(page)).to_contain_text("the first half")
    own_machine.stop()
    end.set()
    provider.on("go on later", Reply("all of it"))
    own_machine.start()
    page.reload()
    expect(conversation(page)).to_contain_text("all of it", timeout=20_000)
    expect(conversation(page)).to_contain_text("The server was stopped here")
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    expect(conversation(page)).not_to_contain_text("The turn failed")


def test_a_prompt_that_waits_after_an_interruption_can_be_started(
    pages: Pages, machine: Machine, provider: Provider
) -> None:
    """WEB-535, WEB-536: the page says that nothing runs; its state has the size of every other."""
    end = threading.Event()
    provider.on("hold on", Reply(text=Held("holding", end, "")))
    session = machine.create("Waiting prompt")
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "hold on")
    expect(conversation(page)).to_contain_text("holding")
    usual = header(page).bounding_box()
    send(page, "and this", delivery="Queue")
    expect(page.locator(".pending .tag")).to_have_text("Queued")  # admitted, not only sent
    page.get_by_role("button", name="Interrupt").click()
    end.set()
    expect(header(page)).to_contain_text("Not started")
    size, dot = header(page).bounding_box(), header(page).locator("svg.dot").bounding_box()
    assert usual is not None
    assert size is not None
    assert dot is not None
    assert (size["height"], dot["width"], dot["height"]) == (usual["height"], 12, 12)
    expect(page.locator(".pending")).to_contain_text("nothing runs")
    page.get_by_role("button", name="Run it now").click()
    expect(conversation(page)).to_contain_text("done")
    is_idle(page)


def test_the_past_runs_no_clock(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-533: a call that ran at the shown moment is told as such."""
    provider.on("look back", calling("bash", command="echo seen"), Reply("seen"))
    session = machine.create("Past")
    machine.prompt(session, "look back")
    machine.wait(session)
    log = machine.api.get(f"/api/session/{session}/log", params={"limit": 200}).json()["data"]
    called = next(event["seq"] for event in log if "tool.called" in event["type"])
    page = pages.open(machine, f"/#/s/{session}?at={called}")
    expect(conversation(page).locator(".call")).to_contain_text("was running")
    expect(conversation(page).locator(".spin, time[data-since]")).to_have_count(0)


def test_a_retry_says_when_the_next_attempt_is(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-537"""
    provider.on("be busy", Reply(status=503))
    session = machine.create("Busy")
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "be busy")
    expect(header(page)).to_contain_text("next attempt in")
    page.get_by_role("button", name="Interrupt").click()
    is_idle(page)


def test_what_is_typed_after_the_key_for_a_new_session_is_kept(pages: Pages, machine: Machine) -> None:
    """WEB-538: also before its page has been loaded."""
    page = pages.open(machine)
    expect(page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    page.locator("main").focus()
    page.keyboard.type("cplease fix it")
    expect(message_box(page)).to_have_value("please fix it")
    expect(message_box(page)).to_be_focused()
