"""One press answers one request, and only what could be seen can be allowed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from tests.acceptance.page.actions import look_away
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

STOOD = 500
"""Milliseconds for which a request has stood unmoved before it can be answered."""
NOTE_CARDS = """() => {
    // When each card last moved, and which answers were sent how long after that.
    const places = new Map();
    window.answers = [];
    const look = () => {
        for (const button of document.querySelectorAll('.ask:not(.gone) [data-do=once]')) {
            const card = button.closest('.ask');
            const { left, top } = button.getBoundingClientRect();
            const before = places.get(card.dataset.key);
            if (!before || Math.abs(before.left - left) > 2 || Math.abs(before.top - top) > 2) {
                places.set(card.dataset.key, { left, top, since: performance.now() });
            }
        }
        // After the frame was painted: before it, what the browser scrolls back in the same frame seems to move.
        requestAnimationFrame(() => setTimeout(look));
    };
    look();
    const send = window.fetch;
    window.fetch = (url, options) => {
        const id = /permission\\/(per[^/]+)\\/reply/.exec(String(url))?.[1];
        if (id) window.answers.push([id, performance.now() - (places.get(id)?.since ?? performance.now())]);
        return send(url, options);
    };
}"""


@pytest.fixture
def open_requests(machine: Machine) -> Iterator[list[str]]:
    """The Sessions of a test, whose requests are declined at its end."""
    sessions: list[str] = []
    yield sessions
    for session in sessions:
        machine.api.post(f"/api/session/{session}/interrupt")
        machine.api.delete(f"/api/session/{session}")


def wish(machine: Machine, sessions: list[str], count: int) -> list[str]:
    """Requests of one Session, each for a command of its own."""
    session = machine.create(f"Many {len(sessions)}")
    sessions.append(session)
    ids = []
    for number in range(count):
        metadata = {"command": f"git tag many-{number}", "workdir": "."}
        body = {"action": "bash", "resources": [f"git tag many-{number}"], "metadata": metadata}
        ids.append(machine.post(f"/api/session/{session}/permission", **body)["id"])
    return ids


def still_open(machine: Machine, session: str) -> set[str]:
    return {request["id"] for request in machine.get(f"/api/session/{session}/permission")}


def ready(page: Page) -> Locator:
    """The first card, once it can be answered."""
    card = page.locator(".ask:not(.gone)").first
    expect(card.get_by_role("button", name="Allow once")).to_be_enabled()
    return card


def test_a_held_key_answers_one_request(pages: Pages, machine: Machine, open_requests: list[str]) -> None:
    """WEB-512: also Enter on the button itself, and on the button that opens a panel."""
    wish(machine, open_requests, 6)
    page = pages.open(machine, f"/#/s/{open_requests[0]}")
    for key, answered in (("a", 1), ("Enter", 2)):
        ready(page).focus()
        for _ in range(20):  # the first press and nineteen repetitions
            page.keyboard.down(key)
            page.wait_for_timeout(60)
        page.keyboard.up(key)
        expect(page.locator(".ask:not(.gone)")).to_have_count(6 - answered)
        assert len(still_open(machine, open_requests[0])) == 6 - answered
    ready(page).get_by_role("button", name="Always").focus()
    for _ in range(20):
        page.keyboard.down("Enter")
        page.wait_for_timeout(60)
    page.keyboard.up("Enter")
    assert len(still_open(machine, open_requests[0])) == 4


@pytest.mark.parametrize("apart", [50, 120, 250, 400, 450])
def test_a_second_click_never_reaches_the_next_request(
    pages: Pages, machine: Machine, open_requests: list[str], apart: int
) -> None:
    """WEB-512, WEB-513: what was answered keeps its place under the pointer."""
    wish(machine, open_requests, 4)
    page = pages.open(machine, f"/#/s/{open_requests[0]}")
    box = ready(page).get_by_role("button", name="Allow once").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(x, y)
    page.wait_for_timeout(apart)
    page.mouse.click(x, y)
    expect(page.locator(".ask.gone")).to_have_count(1)
    page.wait_for_timeout(600)
    assert len(still_open(machine, open_requests[0])) == 3
    expect(page.locator(".ask.gone")).to_contain_text("Allowed once")
    look_away(page)
    expect(page.locator(".ask.gone")).to_have_count(0)


def test_what_is_answered_elsewhere_moves_nothing_under_the_pointer(
    pages: Pages, machine: Machine, open_requests: list[str]
) -> None:
    """WEB-513: the card stays while the pointer is over the cards, and leaves when it has gone."""
    ids = wish(machine, open_requests, 3)
    page = pages.open(machine, "/#/inbox", clock=True)
    second = page.locator(".ask").filter(has_text="many-1").get_by_role("button", name="Allow once")
    second.hover()
    before = second.bounding_box()
    machine.post(f"/api/session/{open_requests[0]}/permission/{ids[0]}/reply", reply="once")
    gone = page.locator(".ask.gone").filter(has_text="Answered elsewhere")
    expect(gone).to_have_count(1)
    page.clock.fast_forward(9_000)
    page.wait_for_timeout(400)
    expect(gone).to_have_count(1)
    assert second.bounding_box() == before
    look_away(page)
    page.clock.fast_forward(1_000)
    expect(gone).to_have_count(0)


def test_a_request_that_has_just_come_cannot_be_answered_yet(
    pages: Pages, machine: Machine, open_requests: list[str]
) -> None:
    """WEB-512: a click that was meant for something else does not allow it."""
    page = pages.open(machine, "/#/inbox")
    page.evaluate(
        """() => new MutationObserver(() => {
            const button = document.querySelector('.ask [data-do=once]');
            if (button && !window.tried) { window.tried = true; button.click(); }
        }).observe(document.body, { childList: true, subtree: true })"""
    )
    wish(machine, open_requests, 1)
    ready(page)
    assert page.evaluate("window.tried")
    assert len(still_open(machine, open_requests[0])) == 1


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.prove)])
def test_each_request_gets_one_answer(pages: Pages, machine: Machine, open_requests: list[str], count: int) -> None:
    """WEB-512: with held keys and double clicks, in two tabs and by two persons. No request is answered that had not
    stood for half a second."""
    ids = [id for _ in range(count // 10) for id in wish(machine, open_requests, 10)]
    dice = random.Random(7)
    noting = f"addEventListener('DOMContentLoaded', {NOTE_CARDS})"
    first = pages.open(machine, "/#/inbox", script=noting)
    tabs = [
        first,
        pages.tab(first.context, f"{machine.url}/#/inbox"),
        pages.open(machine, "/#/inbox", script=noting),  # somebody else, in another browser
        pages.open(machine, "/#/", script=noting),
    ]
    for tab in tabs:
        expect(tab.locator(".ask").first).to_be_visible()
    sent: list[tuple[str, float]] = []
    deadline = time.monotonic() + 4 * count
    pages.allowed.append("status of 404")  # the other person was faster
    while (waiting := machine.get("/api/request")) and time.monotonic() < deadline:
        tab = tabs[dice.randrange(len(tabs))]
        tab.bring_to_front()
        cards = tab.locator(".ask:not(.gone)")
        if not cards.count():
            look_away(tab)
            tab.wait_for_timeout(100)
            continue
        card = cards.nth(dice.randrange(min(3, cards.count())))
        button = card.get_by_role("button", name="Allow once")
        try:
            if dice.random() < 0.5:
                card.focus(timeout=2000)
                for _ in range(dice.randrange(2, 6)):
                    tab.keyboard.down("a")
                    tab.wait_for_timeout(30)
                tab.keyboard.up("a")
            else:
                button.hover(timeout=2000)
                box = button.bounding_box(timeout=2000)
                if box is None:
                    continue
                tab.wait_for_timeout(dice.choice((0, 300, 550, 700)))
                for _ in range(2):
                    tab.mouse.click(box["x"] + 20, box["y"] + 10)
                    tab.wait_for_timeout(dice.randrange(50, 450))
                if dice.random() < 0.3:
                    look_away(tab)
        except PlaywrightTimeout:
            continue  # the card left while somebody else answered it
    assert not waiting
    for tab in tabs:
        sent += [(id, stood) for id, stood in tab.evaluate("window.answers")]
    stood_too_short = [(id, stood) for id, stood in sent if stood < STOOD - 20]
    assert stood_too_short == []
    answered = set()
    for session in open_requests:
        log = machine.api.get(f"/api/session/{session}/log", params={"limit": 200})
        assert log.is_success, log.text
        for event in log.json()["data"]:
            if "permission" in event["type"] and "replied" in event["type"]:
                id = event["data"]["requestID"]
                assert id not in answered
                answered.add(id)
    assert answered == set(ids)
