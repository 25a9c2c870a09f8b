"""Reading a conversation: where it opens, what stays in place, what unfolds, and what a turn was."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.page.actions import conversation, is_idle, message_box, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

MESSAGES = 160
TOP = "(el) => el.getBoundingClientRect().top"
FROM_END = "(log) => log.scrollHeight - log.scrollTop - log.clientHeight"


@pytest.fixture(scope="module")
def long(machine: Machine) -> str:
    """A Session of many prompts of different heights."""
    session = machine.create("A long one")
    machine.say(
        session, (f"Message {number}.\n\n" + "And more of it.\n\n" * (number % 4) for number in range(MESSAGES))
    )
    return session


def article(page: Page, number: int) -> Locator:
    return conversation(page).get_by_role("article").filter(has_text=f"Message {number}.")


def scroll(page: Page, pixels: int) -> None:
    conversation(page).evaluate("(log, by) => { log.scrollTop += by; }", pixels)


def test_a_session_opens_at_its_end_and_reads_older_pages(pages: Pages, machine: Machine, long: str) -> None:
    """WEB-420, WEB-421: what is looked at stays where it is; only what is near is in the document."""
    page = pages.open(machine)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/rendered?" in request.url else None)
    page.goto(f"{machine.url}/#/s/{long}")
    newest = article(page, MESSAGES - 1)
    expect(newest).to_be_in_viewport()
    assert conversation(page).evaluate(FROM_END) < 2
    assert len(asked) == 1
    assert "limit=50" in asked[0]
    newest.locator("button").first.focus()
    while len(asked) < 2:
        scroll(page, -600)
        page.evaluate("() => new Promise(requestAnimationFrame)")
    assert "cursor=" in asked[1]
    expect(newest).to_have_count(0)  # it left the document, and the focus did not fall to the body
    expect(conversation(page)).to_be_focused()
    seen = page.evaluate(READ_WHILE_LOADING)
    assert seen["moved"] < 3, seen
    assert conversation(page).get_by_role("article").count() < 60


READ_WHILE_LOADING = """async () => {
    const log = document.querySelector('[role=log]');
    const rows = [...log.querySelectorAll('article.k-user')];
    const row = rows.find((el) => el.getBoundingClientRect().top > log.getBoundingClientRect().top + 40);
    const key = row.dataset.key;
    const at = () => log.querySelector(`[data-key="${key}"]`).getBoundingClientRect().top;
    const before = at();
    let moved = 0;
    for (let frame = 0; frame < 20; frame++) {
        await new Promise(requestAnimationFrame);
        moved = Math.max(moved, Math.abs(at() - before));
    }
    return { moved, key };
}"""


def test_a_reader_who_went_up_is_not_moved(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-422, WEB-420: what is new is counted on a button that leads back; at the end the page follows."""
    session = machine.create()
    machine.say(session, (f"Message {number}.\n\nwith a second line" for number in range(30)))
    page = pages.open(machine, f"/#/s/{session}")
    expect(article(page, 29)).to_be_in_viewport()
    machine.say(session, ["Message 30."])
    expect(article(page, 30)).to_be_in_viewport()
    jump = page.locator("button.jump")
    expect(jump).to_be_hidden()
    scroll(page, -900)
    expect(jump).to_be_visible()
    expect(page.locator(".dock")).to_have_class("dock slim")
    looked_at = conversation(page).get_by_role("article").filter(has_text="Message 2").first
    before = looked_at.evaluate(TOP)
    machine.say(session, ["Message 31.", "Message 32."])
    expect(jump).to_have_text("2 new")
    assert abs(looked_at.evaluate(TOP) - before) < 2
    jump.click()

    expect(article(page, 32)).to_be_in_viewport()
    expect(jump).to_be_hidden()
    expect(page.locator(".dock")).to_have_class("dock")


class Steps:
    """Pieces of a text, each when its event is set."""

    def __init__(self, *pieces: str) -> None:
        self._pieces = pieces
        self.events = [threading.Event() for _ in pieces]

    def __iter__(self) -> Iterator[str]:
        for piece, event in zip(self._pieces, self.events, strict=True):
            event.wait(30)
            yield piece


def test_text_that_is_being_written(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-423, WEB-443: a finished block is drawn once, an open one is text of a bounded length; nothing of it is
    announced, but its end is."""
    text = Steps("A first block.\n\n", "A second block.\n\n", "z" * 30_000, "the end")
    provider.on("write slowly", Reply(text=text))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    expect(message_box(page)).to_be_visible()
    page.evaluate(LISTEN)
    send(page, "write slowly")
    text.events[0].set()
    block = conversation(page).locator(".blk, .md p").filter(has_text="A first block.").last
    expect(block).to_be_visible()
    text.events[1].set()
    expect(conversation(page).locator(".blk")).to_have_text("A first block.")
    page.evaluate("() => { document.querySelector('.blk').marked = true; }")
    text.events[2].set()
    tail = conversation(page).locator(".tail")
    expect(tail).to_contain_text("zzz")
    page.wait_for_function("() => document.querySelector('.tail')?.textContent.length === 20000")
    assert page.evaluate("() => document.querySelector('.blk').marked")
    assert conversation(page).evaluate(FROM_END) < 60
    text.events[3].set()
    is_idle(page)

    expect(tail).to_have_count(0)
    expect(conversation(page).get_by_text("A first block.")).to_have_count(1)
    expect(conversation(page)).to_have_attribute("aria-live", "off")
    page.wait_for_function("() => window.heard.includes('The answer is complete')")
    assert [said for said in page.evaluate("window.heard") if "block" in said or "zzz" in said] == []


LISTEN = """() => {
    window.heard = [];
    const keep = (records) => window.heard.push(...records.map(({ target }) => target.textContent).filter(Boolean));
    for (const region of document.querySelectorAll('#say, #alert')) {
        new MutationObserver(keep).observe(region, { childList: true });
    }
}"""


def test_calls_unfold_and_levels_of_detail(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-424: a body is asked for when it is unfolded, and stays so when it leaves the viewport and returns."""
    delegate = calling("subagent", agent="general", description="look closely", prompt="please look closely")
    provider.on("please look closely", calling("read", path="hello.txt"), Reply("nothing strange here"))
    provider.on("use two tools", calling("read", path="hello.txt"), delegate, Reply("that is all"))
    session = machine.create()
    machine.prompt(session, "use two tools")
    machine.wait(session)
    page = pages.open(machine)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/rendered/" in request.url else None)
    page.goto(f"{machine.url}/#/s/{session}")
    call = conversation(page).locator("details.call").first
    expect(call.locator("summary")).to_contain_text("hello.txt")
    assert asked == []
    call.locator("summary").click()
    expect(call).to_contain_text("hello world")
    assert len(asked) == 1
    task = conversation(page).get_by_role("button", name="look closely")
    task.click()
    expect(conversation(page)).to_contain_text("nothing strange here")
    expect(conversation(page).get_by_role("link", name="Open this subagent")).to_be_visible()
    task.click()
    expect(conversation(page)).not_to_contain_text("nothing strange here")
    machine.say(session, ("A long text.\n\n" * 20 for _ in range(10)))
    expect(call).to_have_count(0)
    conversation(page).evaluate("(log) => (log.scrollTop = 0)")
    expect(call).to_have_attribute("open", "")
    detail = page.get_by_role("group", name="Detail")
    detail.get_by_role("button", name="Outline").click()
    expect(conversation(page).locator("details.call")).to_have_count(0)
    expect(conversation(page)).to_contain_text("use two tools")
    detail.get_by_role("button", name="Full").click()
    expect(conversation(page).locator("details.call")).to_have_attribute("open", "")
    detail.get_by_role("button", name="Normal").click()
    expect(detail.get_by_role("button", name="Normal")).to_have_attribute("aria-pressed", "true")


def test_a_selected_turn_is_marked_with_what_it_took(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-425: in the conversation and in the inspector; once more clears it."""
    provider.on("two turns", calling("read", path="hello.txt"), Reply("read it"))
    session = machine.create()
    machine.prompt(session, "two turns")
    machine.wait(session)
    page = pages.open(machine, f"/#/s/{session}/cost")
    turn = conversation(page).get_by_role("button", name="Turn 2", exact=True)
    turn.click()
    about = conversation(page).locator(".turninfo")
    expect(about).to_contain_text("Turn 2")
    answer = machine.messages(session)[-1]
    expect(about).to_contain_text(f"{answer['tokens']['output']} out · $")
    expect(about).to_contain_text("% cached")
    expect(conversation(page).locator("article.sel").first).to_contain_text("read it")
    panel = page.get_by_role("tabpanel", name="Cost")
    expect(panel).to_contain_text("Turn 2")
    expect(panel.locator(".sel").first).to_be_visible()
    turn.click()

    expect(about).to_have_count(0)
    expect(conversation(page).locator("article.sel")).to_have_count(0)
