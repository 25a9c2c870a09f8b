"""The inspector shows what the API says, in a real browser on a real server."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling

pytestmark = pytest.mark.acceptance

HOSTILE = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
VIEWS = ("context", "cache", "timeline", "cost", "changes", "events")


_numbers = itertools.count(1)


class Inspected(str):
    """The id of a Session in which the model wrote and read `file`."""

    file: str


@pytest.fixture
def session(machine: Machine, provider: Provider) -> Inspected:
    """Three turns: a file with hostile content is written and read, then the model answers."""
    session = Inspected(machine.create())
    session.file = f"hostile-{next(_numbers)}.html"
    written = calling("bash", command=f"printf '%s\\n' {_quoted(HOSTILE)} > {session.file}", description="write a file")
    prompt = f"write {session.file}"
    provider.on(prompt, written, calling("read", path=session.file), Reply("It is written."))
    machine.prompt(session, prompt)
    machine.wait(session)
    return session


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def value(place: Page | Locator, name: str) -> float:
    """The unrounded value of a figure."""
    found = place.locator(f'[data-figure="{name}"]').first.get_attribute("data-value")
    assert found is not None
    return float(found)


def show(pages: Pages, machine: Machine, session: str, view: str, **options: Any) -> Locator:
    page = pages.open(machine, f"/#/s/{session}/{view}", **options)
    panel = page.get_by_role("tabpanel")
    expect(panel.locator("h3, .stat, .evrow").first).to_be_visible()
    return panel


def test_tabs_are_chosen_by_arrow_keys(pages: Pages, machine: Machine, session: str) -> None:
    """WEB-450"""
    panel = show(pages, machine, session, "context")
    tabs = panel.page.get_by_role("tablist", name="Inspector").get_by_role("tab")
    assert tabs.all_inner_texts() == ["Context", "Cache", "Timeline", "Cost", "Changes", "Events"]
    assert [tab.get_attribute("tabindex") for tab in tabs.all()] == ["0", *(["-1"] * 5)]
    tabs.first.focus()
    panel.page.keyboard.press("ArrowRight")
    expect(panel.page.get_by_role("tab", name="Cache")).to_have_attribute("aria-selected", "true")
    expect(panel.locator('[data-figure="cache-share"]')).to_be_visible()


def test_a_new_session_says_what_will_appear(pages: Pages, machine: Machine) -> None:
    """WEB-450"""
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}/cache")
    for view in ("cache", "timeline", "cost", "changes", "context"):
        page.get_by_role("tab", name=view.capitalize()).click()
        expect(page.get_by_role("tabpanel").locator(".empty")).to_be_visible()


def test_a_view_that_failed_can_be_tried_again(pages: Pages, machine: Machine, session: str) -> None:
    """WEB-450"""
    pages.allowed.append("503")
    page = pages.open(machine, f"/#/s/{session}/context")
    page.route("**/ledger*", lambda route: route.fulfill(status=503, json={"_tag": "X", "message": "No database."}))
    page.get_by_role("tab", name="Cache").click()
    panel = page.get_by_role("tabpanel")
    expect(panel.get_by_role("alert")).to_contain_text("No database.")
    page.unroute("**/ledger*")
    panel.get_by_role("button", name="Try again").click()
    expect(panel.locator('[data-figure="cache-share"]')).to_be_visible()


def test_the_context_view_equals_the_window(pages: Pages, machine: Machine, session: str) -> None:
    """WEB-451, WEB-452"""
    panel = show(pages, machine, session, "context")
    window = machine.get(f"/api/session/{session}/window")
    assert value(panel, "window-used") == window["used"]
    for part in window["parts"]:
        assert value(panel, f"window-{part['name']}") == part["tokens"]
    context = machine.get(f"/api/session/{session}/request-context")
    assert value(panel, "baseline-sources") == len(context["sources"])
    source = context["sources"][0]
    assert value(panel, f"source-{source['key']}") == source["bytes"]
    panel.locator("summary", has_text=source["key"]).click()
    expect(panel.locator(".sources pre")).to_be_visible()


def test_the_window_of_a_selected_turn_is_shown(pages: Pages, machine: Machine, session: str) -> None:
    """WEB-452, WEB-459"""
    panel = show(pages, machine, session, "cache")
    panel.get_by_role("button", name="Turn 1:").click()
    expect(panel.get_by_text("Turn 1 is selected")).to_be_visible()
    panel.page.get_by_role("tab", name="Context").click()
    expect(panel.get_by_text("Window in turn 1")).to_be_visible()
    first = machine.get(f"/api/session/{session}/ledger")[0]
    window = machine.get(f"/api/session/{session}/window", seq=first["seq"])
    assert value(panel, "window-used") == window["used"]
    for view in ("Timeline", "Cost"):
        panel.page.get_by_role("tab", name=view).click()
        expect(panel.get_by_text("Turn 1 is selected")).to_be_visible()


def test_cache_and_cost_equal_the_ledger(pages: Pages, machine: Machine, session: str) -> None:
    """WEB-451, WEB-453, WEB-455"""
    panel = show(pages, machine, session, "cache")
    entries = [entry for entry in machine.get(f"/api/session/{session}/ledger") if "tokens" in entry]
    used = [entry["tokens"] for entry in entries]
    sent = sum(one["input"] + one["cache"]["read"] + one["cache"]["write"] for one in used)
    assert value(panel, "cache-share") == pytest.approx(sum(one["cache"]["read"] for one in used) / sent)
    assert value(panel, "cache-breaks") == sum(bool(entry.get("causes")) for entry in entries)
    assert value(panel, "cache-extra") == pytest.approx(sum(entry.get("extra", 0) for entry in entries))

    panel.page.get_by_role("tab", name="Cost").click()
    expect(panel.locator('[data-figure="cost-total"]')).to_be_visible()
    usage = machine.get(f"/api/session/{session}/usage")
    assert value(panel, "cost-total") == usage["tree"]["cost"]
    rows = panel.get_by_role("region", name="For what").locator("[data-figure]").all()
    shown = [float(row.get_attribute("data-value") or 0) for row in rows]
    assert sum(shown) == pytest.approx(usage["tree"]["cost"])
    assert value(panel, "tokens-output") == usage["own"]["tokens"]["output"]


def test_a_switch_of_the_model_is_told_as_the_cause(pages: Pages, machine: Machine, session: str) -> None:
    """WEB-453"""
    machine.api.post(
        f"/api/session/{session}/model", json={"model": {"providerID": "mock", "id": "n"}}
    ).raise_for_status()
    machine.prompt(session, "go on")
    machine.wait(session)
    panel = show(pages, machine, session, "cache")
    expect(panel.locator(".breaks")).to_contain_text("model switch")
    expect(panel.locator(".breaks")).to_contain_text("Another model has a cache of its own.")


def test_the_timeline_adds_up_and_explains_a_span(pages: Pages, machine: Machine, session: str) -> None:
    """WEB-451, WEB-454, WEB-461"""
    panel = show(pages, machine, session, "timeline")
    timeline = machine.get(f"/api/session/{session}/timeline")
    for lane in ("provider", "tool"):
        spans = [span for span in timeline["spans"] if span["lane"] == lane]
        assert value(panel, f"time-{lane}") == sum(span["end"] - span["start"] for span in spans)
    chart = panel.get_by_role("group", name="Timeline")
    stops = chart.locator('[tabindex="0"]')
    assert stops.count() == 1
    stops.focus()
    panel.page.keyboard.press("Home")
    panel.page.keyboard.press("Enter")
    chosen = panel.get_by_role("region", name="Chosen span")
    expect(chosen).to_contain_text(timeline["spans"][0]["why"])
    assert chart.locator('[tabindex="0"]').count() == 1
    expect(panel.page.locator(":focus")).to_have_attribute("role", "button")


def test_changes_show_hostile_files_as_text(pages: Pages, machine: Machine, session: Inspected) -> None:
    """WEB-456, WEB-464"""
    panel = show(pages, machine, session, "changes")
    assert value(panel, "changes-files") == 1
    row = panel.locator(f'[data-path="{session.file}"]')
    expect(row.locator("tr.add .cd")).to_have_text(HOSTILE)
    assert panel.locator("script, img").count() == 0
    assert panel.page.title() != "taken"


def test_events_are_filtered_by_the_server_and_shown_whole(pages: Pages, machine: Machine, session: Inspected) -> None:
    """WEB-457"""
    panel = show(pages, machine, session, "events")
    newest = machine.get(f"/api/session/{session}/log", limit=1)[0]
    expect(panel.locator(".evrow").last).to_contain_text(f"#{newest['seq']}")
    panel.get_by_role("listbox", name="Events").focus()
    panel.page.keyboard.press("End")
    expect(panel.get_by_role("region", name="Event")).to_contain_text(newest["id"])
    panel.get_by_role("button", name="Asked").click()
    expect(panel.get_by_text("No event matches")).to_be_visible()
    panel.get_by_role("button", name="All").click()
    panel.get_by_role("searchbox", name="Search events").fill(session.file)
    found = machine.get(f"/api/session/{session}/log", search=session.file, limit=200)
    expect(panel.locator(".evrow")).to_have_count(len(found))


def test_the_slider_shows_the_session_as_it_was(pages: Pages, machine: Machine, session: str) -> None:
    """WEB-458"""
    panel = show(pages, machine, session, "events")
    slider = panel.get_by_role("slider")
    slider.fill("4")
    expect(panel.locator(".evrow.here")).to_contain_text("#4")
    panel.get_by_role("button", name="One event on").click()
    expect(panel.locator(".evrow.here")).to_contain_text("#5")
    expect(panel.page.get_by_role("log", name="Conversation")).not_to_contain_text("It is written.")
    panel.get_by_role("button", name="Now").click()
    expect(panel.page.get_by_role("log", name="Conversation")).to_contain_text("It is written.")


def test_a_view_follows_the_session_and_keeps_its_place(
    pages: Pages, machine: Machine, provider: Provider, session: str
) -> None:
    """WEB-460"""
    panel = show(pages, machine, session, "context", height=500)
    asked: list[str] = []
    panel.page.on("request", lambda request: asked.append(request.url))
    panel.locator("summary", has_text="core/environment").click()
    panel.locator("summary", has_text="core/environment").focus()
    panel.evaluate("element => element.scrollTop = 60")
    release = threading.Event()
    provider.on("and again", Reply("Yes.", end=release))
    machine.prompt(session, "and again")
    expect(panel.get_by_text("Window in turn 4")).to_be_visible()
    release.set()
    machine.wait(session)
    expect(panel.get_by_text("request #")).not_to_contain_text("estimated until")
    assert panel.evaluate("element => element.scrollTop") == 60
    assert panel.locator("details[open]").count() == 1
    expect(panel.page.locator(":focus")).to_have_attribute("data-key", "source-core/environment")
    assert not [url for url in asked if url.endswith(("/timeline", "/changes"))]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_views_fit_a_narrow_screen(
    pages: Pages, machine: Machine, session: str, scheme: Literal["light", "dark"]
) -> None:
    """WEB-465"""
    page = pages.open(machine, f"/#/s/{session}/context", width=320, height=640, scheme=scheme)
    for view in VIEWS:
        page.goto(page.url.rsplit("/", 1)[0] + f"/{view}")
        panel = page.locator(f'[role="tabpanel"][aria-labelledby="tab-{view}"]')
        expect(panel.locator("h3, .stat, .evrow").first).to_be_visible()
        widths = panel.evaluate("element => [element.scrollWidth, element.clientWidth, document.body.scrollWidth]")
        assert widths == [320, 320, 320], view
