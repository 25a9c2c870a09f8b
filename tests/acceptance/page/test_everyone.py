"""The page for everyone: with the keyboard alone, on a phone, in both themes, and for assistive technology."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.conftest import npm_package
from tests.acceptance.page.actions import ask_cards, conversation, is_idle, message_box, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

AXE = "4.14.0"
PHONE: dict[str, Any] = {"width": 360, "height": 740, "has_touch": True, "is_mobile": True}
TAB_STOPS = 5
"""At most, inside a card."""
TABS = ("context", "cache", "timeline", "cost", "changes", "events")
OVERFLOW = "() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"


@pytest.fixture(scope="module")
def axe() -> Path:
    return npm_package("axe-core", AXE) / "axe-core" / "axe.min.js"


PAGES = {"/#/": "Sessions", "/#/inbox": "Needs you", "/#/new": "New session", "/#/system": "System"}
"""Addresses, and the headings of what is there."""


def views(page: Page, machine: Machine) -> Iterator[str]:
    """Shows one view after the other, each with everything in it."""
    session = f"/#/s/{machine.find('Fix the lost cent')}"
    for path, heading in PAGES.items():
        page.goto(machine.url + path)
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        yield settled(page)
    page.goto(machine.url + session)
    expect(conversation(page).get_by_role("article").last).to_be_visible()
    yield settled(page)
    for tab in TABS:
        page.goto(f"{machine.url}{session}/{tab}")
        panel = page.get_by_role("tabpanel", name=tab.capitalize())
        expect(panel.locator("h3, .stat, .evrow, details").first).to_be_visible()
        yield settled(page)


def settled(page: Page) -> str:
    """Nothing is being loaded any more."""
    expect(page.get_by_role("img", name="Loading"), page.url).to_have_count(0)
    return page.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(pages: Pages, demo: Machine, axe: Path, scheme: Literal["light", "dark"]) -> None:
    """WEB-500, WEB-444: in any view, contrast included. The policy of the page is left out here, because axe is a
    script from outside."""
    page = pages.open(demo, scheme=scheme, bypass_csp=True)
    found: list[str] = []
    for view in views(page, demo):
        found += [f"{view}: {problem}" for problem in problems(page, axe)]
    stranger = pages.open(demo, signed_in=False, scheme=scheme, bypass_csp=True)
    expect(stranger.get_by_label("Password")).to_be_visible()
    found += [f"sign-in: {problem}" for problem in problems(stranger, axe)]
    assert not found, "\n".join(found)


def problems(page: Page, axe: Path) -> list[str]:
    if not page.evaluate("typeof axe === 'object'"):
        page.add_script_tag(path=axe)
    report: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in report["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"][:3]
    ]


@pytest.mark.parametrize("width", [320, 360])
def test_no_view_is_wider_than_a_phone(pages: Pages, demo: Machine, width: int) -> None:
    """WEB-500, WEB-445: nothing has to be scrolled sideways, the navigation is at the bottom, and the inspector is
    reached by tabs."""
    page = pages.open(demo, **{**PHONE, "width": width})
    assert [view for view in views(page, demo) if page.evaluate(OVERFLOW) > 0] == []
    tabs = page.get_by_role("tablist", name="Views of this session")
    expect(tabs.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")
    expect(conversation(page)).to_be_hidden()
    tabs.get_by_role("tab", name="Conversation").click()
    expect(conversation(page)).to_be_visible()
    page.get_by_role("navigation", name="Sessions").get_by_role("link", name="All sessions").click()
    expect(page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    expect(page.locator("nav.side")).to_be_hidden()
    bar = page.locator("nav.tabbar").bounding_box()
    assert bar is not None
    assert round(bar["y"] + bar["height"]) == PHONE["height"]


def test_a_very_wide_screen_is_used(pages: Pages, demo: Machine) -> None:
    """WEB-445: at 4K lines stay readable and the inspector stands beside the conversation."""
    page = pages.open(demo, f"/#/s/{demo.find('Fix the lost cent')}", width=3840, height=2160)
    expect(conversation(page).get_by_role("article").last).to_be_visible()
    assert page.evaluate(OVERFLOW) <= 0
    widths = conversation(page).locator("article").evaluate_all("(all) => all.map((el) => el.clientWidth)")
    assert max(widths) < 1_000
    panel = page.get_by_role("tabpanel").bounding_box()
    assert panel is not None
    assert panel["x"] + panel["width"] > 3_700


def test_a_phone_prompts_and_approves(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-500, WEB-445: with targets that a thumb can hit."""
    provider.on("from my phone", calling("bash", command="git tag from-phone"), Reply("on its way"))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}", **PHONE)
    send(page, "from my phone")
    allow = ask_cards(page).get_by_role("button", name="Allow once")
    box = allow.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    allow.tap()

    expect(conversation(page)).to_contain_text("on its way")
    is_idle(page)


def test_the_theme_follows_the_system_and_can_be_chosen(pages: Pages, machine: Machine) -> None:
    """WEB-500, WEB-444: a choice is kept."""
    page = pages.open(machine, scheme="dark")
    page.get_by_role("navigation", name="Sessions").first.wait_for()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light or dark").click()
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    page.get_by_role("navigation", name="Sessions").first.wait_for()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


def test_a_prompt_and_an_approval_without_a_mouse(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-500, WEB-442: keys reach the composer and the card, and answer it."""
    provider.on("by keyboard", calling("bash", command="git tag by-keyboard"), Reply("typed well"))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    expect(message_box(page)).to_be_visible()
    page.keyboard.press("e")
    expect(message_box(page)).to_be_focused()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    card = ask_cards(page)
    expect(card).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(card).to_be_focused()
    for key, focused in (("A", page.get_by_role("button", name="Always allow")), ("d", page.get_by_label("Reason"))):
        page.keyboard.press(key)
        expect(focused).to_be_focused()
        back = page.get_by_role("button", name="Back")
        for _ in range(TAB_STOPS):
            if back.evaluate("(el) => el === document.activeElement"):
                break
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("n")
        expect(card).to_be_focused()
    expect(card.get_by_role("button", name="Allow once")).to_be_enabled()
    page.keyboard.press("a")

    expect(conversation(page)).to_contain_text("typed well")
    is_idle(page)


def test_every_key_is_told(pages: Pages, machine: Machine) -> None:
    """WEB-500, WEB-442: the map of keys opens with ? and closes with Escape, and ⌘K finds Sessions."""
    machine.create("Needle in the haystack")
    page = pages.open(machine)
    page.get_by_role("heading", name="Sessions", level=1).wait_for()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Interrupt", ignore_case=True)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("Needle")
    expect(page.get_by_role("option").first).to_contain_text("Needle in the haystack")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Needle in the haystack", level=1)).to_be_visible()


def test_the_focus_can_always_be_seen(pages: Pages, demo: Machine) -> None:
    """WEB-500: what Tab reaches has an outline or a ring."""
    page = pages.open(demo, "/#/inbox")
    expect(ask_cards(page).first).to_be_visible()
    unseen = []
    for _ in range(25):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => {
                const el = document.activeElement, style = getComputedStyle(el);
                const seen = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
                return seen || el === document.body ? null : el.outerHTML.slice(0, 120);
            }"""
        )
        if found:
            unseen.append(found)
    assert unseen == []
