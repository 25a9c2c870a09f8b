"""What the page promises in each state: names, keys, announcements, motion, empty and failed views, and paper."""

from __future__ import annotations

import re
import threading
from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.page.actions import ask_cards, connection, conversation, is_idle, message_box, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling
from tests.acceptance.page.test_reading import LISTEN

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

TABS = ("Context", "Cache", "Timeline", "Cost", "Changes", "Events")


def test_the_names_that_others_rely_on(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-402"""
    provider.on("name everything", calling("bash", command="git tag named"), Reply("named"))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("navigation", name="Sessions").first).to_be_visible()
    expect(page.get_by_role("log", name="Conversation")).to_have_count(1)
    expect(page.get_by_role("textbox", name="Message")).to_have_count(1)
    expect(page.get_by_role("status", name="Connection")).to_have_count(1)
    delivery = page.get_by_role("group", name="Delivery")
    assert delivery.get_by_role("button").all_inner_texts() == ["Steer", "Queue"]
    for tab in TABS:
        expect(page.get_by_role("tab", name=tab, exact=True)).to_be_visible()
    send(page, "name everything")
    for name in ("Send", "Interrupt", "Allow once", "Always", "Deny"):
        expect(page.get_by_role("button", name=name).first).to_be_visible()
        shown = page.get_by_role("button", name=name).first
        assert (shown.get_attribute("aria-label") or shown.inner_text().strip()).startswith(name)
    page.get_by_role("button", name="Interrupt").click()
    is_idle(page)


def test_every_key_does_what_the_map_says(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-442: on a Session and on any page; single letters are text while somebody types."""
    never = threading.Event()
    provider.on("never end", Reply("on and on", end=never))
    session = machine.create("Keys")
    machine.say(session, (f"Message {number}.\n\nline\n\nline" for number in range(20)))
    page = pages.open(machine, f"/#/s/{session}")
    press = page.keyboard.press
    expect(conversation(page)).to_contain_text("Message 19.")
    for number, tab in enumerate(TABS, 1):
        press(str(number))
        expect(page.get_by_role("tabpanel", name=tab)).to_be_visible()
    press("i")
    expect(page.get_by_role("tabpanel")).to_be_hidden()
    press("i")
    expect(page.get_by_role("tabpanel")).to_be_visible()
    detail = page.get_by_role("group", name="Detail")
    press("]")
    expect(detail.get_by_role("button", name="Full")).to_have_attribute("aria-pressed", "true")
    press("[")
    expect(detail.get_by_role("button", name="Normal")).to_have_attribute("aria-pressed", "true")
    press("k")
    press("k")
    focused = page.locator("article:focus")
    expect(focused).to_contain_text("Message")
    above = focused.inner_text()
    press("j")
    expect(focused).not_to_have_text(above)
    press("G")
    expect(conversation(page).get_by_role("article").filter(has_text="Message 19.")).to_be_in_viewport()
    press("e")
    page.keyboard.type("ginc[]?/jkG123")
    expect(message_box(page)).to_have_value("ginc[]?/jkG123")
    assert "/s/" in page.url
    message_box(page).fill("never end")
    press("Shift+Enter")
    expect(message_box(page)).to_have_value("never end\n")
    press("Enter")
    expect(conversation(page)).to_contain_text("on and on")
    message_box(page).fill("queued by a key")
    press("Alt+Enter")
    expect(page.locator(".pending .tag")).to_have_text("Queued")
    press("Escape")
    expect(message_box(page)).not_to_be_focused()
    press("Escape")
    expect(conversation(page)).to_contain_text("Interrupted")
    never.set()
    for keys, heading in (("gn", "Needs you"), ("gy", "System"), ("c", "New session"), ("gs", "Sessions")):
        page.locator("main").focus()
        for key in keys:
            press(key)
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
    press("/")
    expect(page.get_by_role("searchbox", name="Search sessions")).to_be_focused()


def test_requests_and_changes_are_announced(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-443: a new request urgently, an answer and an end politely."""
    provider.on("announce it aloud", calling("bash", command="git tag told"), Reply("told you"))
    session = machine.create("Announced")
    page = pages.open(machine, f"/#/s/{session}")
    expect(message_box(page)).to_be_visible()
    page.evaluate(LISTEN)
    send(page, "announce it aloud")
    ask_cards(page).get_by_role("button", name="Allow once").click()
    expect(conversation(page)).to_contain_text("told you")
    heard = ["Sent", "Something needs you: Announced", "Allowed once", "The answer is complete"]
    page.wait_for_function("(wanted) => wanted.every((said) => window.heard.includes(said))", arg=heard)
    expect(page.locator("#say")).to_have_attribute("aria-live", "polite")
    expect(page.locator("#alert")).to_have_attribute("role", "alert")


def test_nothing_moves_where_that_is_asked_for(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-444: while an answer is written, which otherwise shows itself by motion."""
    end = threading.Event()
    provider.on("spin for a while", Reply("moving", end=end))
    session = machine.create()
    machine.prompt(session, "spin for a while")
    moving = "() => document.getAnimations().filter((one) => one.playState === 'running').length"
    page = pages.open(machine, f"/#/s/{session}")
    expect(conversation(page)).to_contain_text("moving")
    assert page.evaluate(moving) > 0
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moving) == 0
    end.set()
    is_idle(page)


def test_views_that_have_nothing_and_views_that_failed(pages: Pages, machine: Machine) -> None:
    """WEB-446: each says what is the matter and offers the next step."""
    pages.allowed.append("status of (503|404)")
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    expect(page.get_by_text("Nothing was said yet")).to_be_visible()
    failure = {"_tag": "ServiceUnavailableError", "message": "The disk is full."}
    page.route("**/rendered?*", lambda route: route.fulfill(status=503, json=failure))
    page.reload()
    expect(page.get_by_text("The conversation cannot be read")).to_be_visible()
    expect(page.get_by_text("The disk is full.")).to_be_visible()
    page.unroute("**/rendered?*")
    page.get_by_role("main").get_by_role("button", name="Try again").first.click()
    expect(page.get_by_text("Nothing was said yet")).to_be_visible()
    page.goto(f"{machine.url}/#/inbox")
    page.reload()
    expect(connection(page)).to_have_text("Live")  # with a new stream the list would be read again by itself
    page.route("**/api/overview?limit*", lambda route: route.fulfill(status=503, json=failure))
    page.goto(f"{machine.url}/#/")
    expect(page.get_by_text("Sessions cannot be read")).to_be_visible()
    page.unroute("**/api/overview?limit*")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("searchbox").fill("no such title anywhere")
    expect(page.get_by_text("No session matches “no such title anywhere”")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_role("main").locator(".srow").first).to_be_visible()
    page.goto(f"{machine.url}/#/s/ses_000000000000aaaaaaaaaaaaaa")
    expect(page.get_by_text("There is no such session")).to_be_visible()
    page.get_by_role("link", name="All sessions").last.click()
    expect(page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()


def test_sessions_are_listed_searched_and_filtered(pages: Pages, demo: Machine) -> None:
    """WEB-435: those that need somebody first; open work stays in view on every page."""
    page = pages.open(demo)
    row = page.get_by_role("main").locator(".srow")
    expect(row.filter(has_text="Fix the lost cent").first).to_be_visible()
    states = row.locator("svg.dot").evaluate_all("(all) => all.map((el) => el.getAttribute('aria-label'))")
    assert states == sorted(states, key=lambda state: ORDER.index(state) if state in ORDER else len(ORDER))
    assert set(states) <= {*ORDER, *AT_REST}
    assert "Needs you" in states
    first = row.filter(has_text="Fix the lost cent").first
    expect(first.locator(".s-cost")).to_contain_text("$")
    expect(first.locator(".s-ctx [role=img]")).to_be_attached()
    expect(first.locator("time")).not_to_be_empty()
    page.get_by_role("group", name="State").get_by_role("button", name="At rest").click()
    shown = row.locator("svg.dot").evaluate_all("(all) => all.map((el) => el.getAttribute('aria-label'))")
    assert shown
    assert set(shown) <= {*AT_REST, "Not started"}
    page.get_by_role("group", name="State").get_by_role("button", name="All").click()
    page.get_by_role("searchbox").fill("LOST CENT")
    expect(row.filter(has_not_text="cent")).to_have_count(0)
    page.get_by_role("searchbox").fill("")
    work = page.get_by_role("navigation", name="Sessions").first.locator(".work a")
    for place in ("inbox", "system", "new"):
        page.goto(f"{demo.url}/#/{place}")
        expect(work.first).to_be_visible()


ORDER = [
    "Needs you",
    "Budget reached",
    "Broken off",
    "Blocked",
    "Retrying",
    "Running",
    "Goes on by itself",
    "Not started",
]
AT_REST = ["Finished", "Failed", "Stopped", "New"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_conversation_prints_without_controls(pages: Pages, demo: Machine, scheme: Literal["light", "dark"]) -> None:
    """WEB-446: all that is loaded, dark on white in both themes."""
    page = pages.open(demo, f"/#/s/{demo.find('Fix the lost cent')}", scheme=scheme)
    expect(conversation(page).get_by_role("article").last).to_be_visible()
    mounted = conversation(page).locator("article").count()
    page.emulate_media(media="print")
    for control in (message_box(page), page.locator(".s-acts"), page.locator(".insp"), page.locator("nav.side")):
        expect(control).to_be_hidden()
    expect(conversation(page).get_by_role("button", name="Fork from before this").first).to_be_hidden()
    assert _darkness(page) == ("rgb(255, 255, 255)", True)
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    everything = conversation(page).locator("article").count()
    assert everything > mounted
    assert len(re.findall(rb"/Type /Page\b(?!s)", page.pdf())) > 1  # not only what the screen shows
    page.emulate_media(media="screen")
    page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
    assert conversation(page).locator("article").count() < everything


def _darkness(page: Page) -> tuple[str, bool]:
    """The ground, and whether the text on it is dark."""
    ground, ink = page.evaluate(
        "() => { const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]; }"
    )
    return ground, sum(map(int, ink.removeprefix("rgb(").removesuffix(")").split(","))) < 200
