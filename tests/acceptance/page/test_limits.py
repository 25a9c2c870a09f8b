"""What the page may cost: bytes, requests, memory and time."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page, Response, expect
from tests.acceptance.page.actions import conversation, message_box, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply

from holdfast import Holdfast
from holdfast.core.database import sqlite

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

ASSETS = Path(__file__).parents[3] / "src" / "holdfast" / "server" / "web" / "assets"
MOST_BYTES = 150_000
FIRST_FILES = 6
MESSAGES = 10_000
INTERACTIVE_SECONDS = 1.0
ATTEMPTS = 3
"""Other work on the machine may delay some of them."""
HEAP_BYTES = 60_000_000
TABS = 50
DELTAS_A_SECOND = 500
DELTA_SECONDS = 4
SCRIPTING_SECONDS = 0.005
"""For each frame."""
COUNT_FRAMES = """() => {
    window.shownFrames = 0;
    const count = () => {
        window.shownFrames += 1;
        requestAnimationFrame(count);
    };
    count();
}"""
PARAGRAPH = (
    "Message {number}: some *Markdown* with `code`, and a [link](https://example.org/{number}).\n\n- one\n- two\n"
)


def test_the_files_of_the_page_are_small() -> None:
    """WEB-502: all of them together, compressed one by one as they are sent."""
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in ASSETS.iterdir()}
    assert sum(sizes.values()) <= MOST_BYTES, sizes


@pytest.mark.parametrize("signed_in", [True, False])
def test_the_first_view_needs_few_files(pages: Pages, machine: Machine, signed_in: bool) -> None:
    """WEB-502: the document, a stylesheet and scripts; also to sign in."""
    context = pages.open(machine, signed_in=signed_in).context
    page, files = context.new_page(), list[str]()

    def keep(response: Response) -> None:
        if response.request.resource_type in ("document", "script", "stylesheet", "image"):
            files.append(response.url)

    page.on("response", keep)
    page.goto(machine.url)
    expect(page.get_by_role("heading", name="Sessions" if signed_in else "Sign in", level=1)).to_be_attached()
    assert len([url for url in files if url.startswith(machine.url)]) <= FIRST_FILES, files


@pytest.fixture(scope="module")
def long_session(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[tuple[Machine, str]]:
    """A server with a Session of 10,000 messages."""
    machine = Machine(tmp_path_factory.mktemp("long"), provider.url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "SYNCHRONOUS", "synchronous=off")
        with ThreadPoolExecutor(1) as thread:  # the browser's driver has the loop of this one
            session = thread.submit(lambda: asyncio.run(_fill(machine))).result()
    machine.start()
    yield machine, session
    machine.close()


async def _fill(machine: Machine) -> str:
    host = Holdfast(machine.project, data=machine.data, environment=machine.environment, recover=False)
    async with host:
        session = await host.sessions.create()
        for start in range(0, MESSAGES, 50):
            texts = [PARAGRAPH.format(number=number) for number in range(start, start + 50)]
            await asyncio.gather(*(host.sessions.prompt(session.id, text=text, no_reply=True) for text in texts))
        await host.sessions.wait(session.id)
        return session.id


def test_a_long_session_is_usable_at_once(pages: Pages, long_session: tuple[Machine, str]) -> None:
    """WEB-502, WEB-420, WEB-421: from the address to the newest message and a composer that takes text; then all of it
    is read."""
    machine, session = long_session
    page = pages.open(machine)
    expect(page.get_by_role("main")).to_be_visible()
    assert min(_seconds_to_use(page, f"{machine.url}/#/s/{session}") for _ in range(ATTEMPTS)) <= INTERACTIVE_SECONDS
    _read_to_the_beginning(page)
    assert page.evaluate("document.querySelectorAll('article').length") < 200
    assert _heap(page) <= HEAP_BYTES


def _seconds_to_use(page: Page, url: str) -> float:
    page.goto("about:blank")
    began = time.monotonic()
    page.goto(url)
    conversation(page).get_by_text(f"Message {MESSAGES - 1}:").wait_for()
    message_box(page).fill("a word")
    return time.monotonic() - began


def _read_to_the_beginning(page: Page) -> None:
    """Scroll up until the first message is there, as fast as pages come."""
    log = conversation(page)
    first = log.get_by_text("The session begins here")
    deadline = time.monotonic() + 60
    while not first.count() and time.monotonic() < deadline:
        log.evaluate(
            """(log) => new Promise((resolve) => {
                const before = log.scrollHeight;
                log.scrollTop = 0;
                let frames = 0;
                const look = () => {
                    frames += 1;
                    if (log.scrollHeight !== before || frames > 30) resolve();
                    else requestAnimationFrame(look);
                };
                look();
            })"""
        )
    expect(first).to_be_visible()


def _heap(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return _metric(session, "JSHeapUsedSize")


def _metric(session: CDPSession, name: str) -> float:
    session.send("Performance.enable")
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == name))


class Paced:
    """Words at a steady rate."""

    def __init__(self, rate: int, seconds: float) -> None:
        self._rate = rate
        self._count = int(rate * seconds)
        self.begun = threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.begun.set()
        began = time.monotonic()
        for number in range(self._count):
            yield f"word{number} " if number % 40 else "\n\n"
            ahead = began + number / self._rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)  # the pace of the provider


def test_many_deltas_cost_little_per_frame(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-502: scripting of the page during a stream, divided by the frames in that time."""
    words = Paced(DELTAS_A_SECOND, DELTA_SECONDS)
    provider.on("five hundred words a second", Reply(text=words))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    expect(message_box(page)).to_be_visible()
    page.evaluate(COUNT_FRAMES)
    devtools = page.context.new_cdp_session(page)
    send(page, "five hundred words a second")
    expect(conversation(page)).to_contain_text("word39")
    scripted, frames = _metric(devtools, "ScriptDuration"), page.evaluate("window.shownFrames")
    expect(conversation(page)).to_contain_text(f"word{DELTAS_A_SECOND * DELTA_SECONDS - 1}")
    scripted = _metric(devtools, "ScriptDuration") - scripted
    frames = page.evaluate("window.shownFrames") - frames
    assert frames > DELTA_SECONDS * 10
    assert scripted / frames <= SCRIPTING_SECONDS


def test_fifty_tabs_keep_working(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-502, WEB-414: more than a browser has connections; every tab shows the answer."""
    provider.on("to all tabs", Reply("heard everywhere"))
    session = machine.create()
    first = pages.open(machine, f"/#/s/{session}")
    expect(message_box(first)).to_be_visible()
    tabs = [pages.tab(first.context, f"{machine.url}/#/s/{session}") for _ in range(TABS - 1)]
    send(first, "to all tabs")
    for tab in (first, *tabs):
        tab.bring_to_front()
        expect(conversation(tab)).to_contain_text("heard everywhere")
