"""The stream of a page: silence, hidden tabs, many tabs, other versions and other clocks."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from tests.acceptance.page.actions import ask_cards, connection, conversation, is_idle, message_box, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Held, Provider, Reply, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

FAILED = "ERR_FAILED"
STREAM = "**/web/stream*"
HIDE = """(hidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event('visibilitychange'));
}"""
NOTIFICATIONS = """
window.notified = [];
window.Notification = class { constructor(title, { body }) { window.notified.push(`${title}: ${body}`); } };
window.Notification.permission = 'granted';
"""
SECONDS = re.compile(r"^(<1 ms|[\d.]+ m?s)$")
CLOCK = "([ms, timeZone]) => new Date(ms).toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit', timeZone})"


def streams(page: Page) -> list[str]:
    """The addresses of all streams that the page will open."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url) if "/web/stream" in request.url else None)
    return found


def test_a_silent_stream_counts_as_lost(pages: Pages, machine: Machine) -> None:
    """WEB-411, WEB-412, WEB-446: the page says up to where it is complete, then since when nobody answers, and goes
    on from there."""
    pages.allowed.append(FAILED)
    session = machine.create()
    machine.say(session, ["before"])
    page = pages.open(machine, f"/#/s/{session}", clock=True)
    expect(connection(page)).to_have_text("Live")
    head = page.locator(".head").inner_text()
    opened = streams(page)
    page.clock.fast_forward(30_000)
    assert opened == []
    page.route(STREAM, lambda route: route.abort())
    page.clock.fast_forward(11_000)
    expect(connection(page)).to_contain_text("Connection lost.")
    expect(connection(page)).to_contain_text(f"everything up to #{head}")
    machine.say(session, ["meanwhile"])
    page.clock.fast_forward(31_000)
    expect(connection(page)).to_contain_text("The server does not answer since")
    page.unroute(STREAM)
    connection(page).get_by_role("button", name="Try now").click()

    expect(connection(page)).to_contain_text("Connected again.")
    expect(conversation(page).locator(".user .md")).to_have_text(["before", "meanwhile"])
    assert f"after={head}" in opened[-1]
    page.clock.fast_forward(6_000)
    expect(connection(page)).to_have_text("Live")


def test_a_hidden_tab_asks_only_for_requests(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-413: it gives its stream up, tells what needs somebody, and shows what it missed when it is seen again."""
    provider.on("while I am away", calling("bash", command="git tag away"), Reply("welcome back"))
    session = machine.create("Away")
    page = pages.open(machine, f"/#/s/{session}", clock=True, script=NOTIFICATIONS)
    expect(connection(page)).to_have_text("Live")
    others = len(machine.get("/api/request"))
    before = page.title()
    opened = streams(page)
    page.evaluate(HIDE, True)
    page.clock.fast_forward(10_100)
    expect(connection(page)).to_have_text("Paused")
    machine.prompt(session, "while I am away")
    (request,) = waiting(machine, session)
    assert page.title() == before
    page.clock.fast_forward(20_000)
    expect(page).to_have_title(f"({others + 1}) Away · Holdfast")
    assert page.evaluate("window.notified") == ["Holdfast needs you: Away"]
    assert opened == []
    page.evaluate(HIDE, False)

    expect(connection(page)).not_to_have_text("Paused")
    expect(conversation(page)).to_contain_text("while I am away")
    assert "after=" in opened[0]
    machine.post(f"/api/session/{session}/permission/{request['id']}/reply", reply="once")
    expect(conversation(page)).to_contain_text("welcome back")


def waiting(machine: Machine, session: str) -> list[Any]:
    """The requests of a Session, when there are some."""
    with machine.api.stream("GET", "/web/stream", params={"session": session}) as stream:
        for _ in stream.iter_lines():
            if found := machine.get(f"/api/session/{session}/permission"):
                return list(found)
    raise AssertionError("the stream ended")


def test_a_fifth_tab_asks_instead(pages: Pages, machine: Machine) -> None:
    """WEB-414, WEB-411: it shows the same, tells a lost connection, and takes the stream of a tab that is closed."""
    pages.allowed.append(FAILED)
    session = machine.create()
    first = pages.open(machine, f"/#/s/{session}", clock=True)
    expect(connection(first)).to_have_text("Live")
    others = [pages.tab(first.context, f"{machine.url}/#/s/{session}") for _ in range(3)]
    for tab in others:
        expect(connection(tab)).to_have_text("Live")
    fifth = pages.tab(first.context, f"{machine.url}/#/s/{session}")
    expect(connection(fifth)).to_have_text("Live, every 2 s")
    machine.prompt(session, "to the fifth")
    machine.wait(session)
    fifth.clock.fast_forward(2_100)
    expect(conversation(fifth)).to_contain_text("done")
    fifth.route("**/api/request", lambda route: route.abort())
    fifth.clock.fast_forward(2_100)
    expect(connection(fifth)).to_contain_text("Connection lost.")
    fifth.unroute("**/api/request")
    connection(fifth).get_by_role("button", name="Try now").click()
    expect(connection(fifth)).to_have_text("Live, every 2 s")
    others[0].close()
    fifth.clock.fast_forward(2_100)

    expect(connection(fifth)).to_have_text("Live")
    machine.prompt(session, "once more")
    expect(conversation(fifth).locator(".user .md")).to_have_text(["to the fifth", "once more"])
    is_idle(fifth)


def test_a_page_of_another_version_offers_to_reload(pages: Pages, machine: Machine) -> None:
    """WEB-416: and does nothing by itself."""
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    expect(message_box(page)).to_be_visible()
    notice = page.get_by_role("status").filter(has_text="The server was updated.")
    expect(notice).to_have_count(0)

    def older(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, body=response.text().replace('data-version="', 'data-version="older-'))

    page.route(f"{machine.url}/", older)
    page.reload()
    expect(notice).to_be_visible()
    message_box(page).fill("typed on the old page")
    page.evaluate("window.still = true")
    send(page, "it still works")
    expect(conversation(page)).to_contain_text("done")
    assert page.evaluate("window.still")
    page.unroute(f"{machine.url}/")
    notice.get_by_role("button", name="Reload").click()

    expect(conversation(page)).to_contain_text("done")
    expect(notice).to_have_count(0)
    assert page.evaluate("window.still") is None


def test_times_are_the_servers_in_the_zone_of_the_browser(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-417: a clock that is a day off changes neither ages nor what is today."""
    provider.on("what time is it", calling("bash", command="git tag clock"), Reply("late"))
    session = machine.create()
    machine.prompt(session, "what time is it")
    (request,) = waiting(machine, session)
    off = "(() => { const real = Date.now; Date.now = () => real() - 86_400_000; })()"
    page = pages.open(machine, f"/#/s/{session}", script=off, timezone_id="Asia/Tokyo")
    age = ask_cards(page).locator("time")
    expect(age).to_have_text(SECONDS)
    (prompt, _) = machine.messages(session)
    shown = conversation(page).locator(".user time")
    expect(shown).to_have_text(page.evaluate(CLOCK, [prompt["time"]["created"], "Asia/Tokyo"]))
    machine.post(f"/api/session/{session}/permission/{request['id']}/reply", reply="once")
    is_idle(page)


def test_a_page_on_its_way_does_not_replace_what_is_newer(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-410: the stream brings the end of an answer before a slow page brings its beginning."""
    rest = threading.Event()
    provider.on("a close race", Reply(text=Held("the beginning", rest, " and the end")))
    session = machine.create()
    machine.prompt(session, "a close race")
    page = pages.open(machine)
    held: list[Route] = []
    page.route("**/rendered?*", lambda route: held.append(route))
    with page.expect_request("**/rendered?*"):
        page.goto(f"{machine.url}/#/s/{session}")
    expect(page.get_by_role("button", name="Interrupt")).to_be_visible()
    (slow,) = held
    response = slow.fetch()
    rest.set()
    machine.wait(session)
    is_idle(page)
    assert "and the end" not in response.text()
    slow.fulfill(response=response)

    expect(conversation(page)).to_contain_text("the beginning and the end")
    expect(conversation(page).locator(".user .md")).to_have_text(["a close race"])
    expect(conversation(page).get_by_text("the beginning")).to_have_count(1)
