"""The System page shows what the API says, and acts on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply
from tests.acceptance.page.test_inspector_views import value

pytestmark = pytest.mark.acceptance


@pytest.fixture
def running(machine: Machine, provider: Provider) -> Iterator[str]:
    """A Session whose answer does not end by itself."""
    release = threading.Event()
    provider.on("take your time", Reply("Well", end=release))
    session = machine.create("A long answer")
    machine.prompt(session, "take your time")
    yield session
    release.set()


def test_the_system_page_equals_the_api(pages: Pages, machine: Machine, running: str) -> None:
    """WEB-451, WEB-462"""
    page = pages.open(machine, "/#/system")
    drains = page.get_by_role("region", name="Drains")
    expect(drains.locator(f'[data-id="{running}"]')).to_contain_text("A long answer")
    info = machine.get("/api/system")
    assert value(page, "drains") == len(info["drains"])
    assert value(page, "waits") == len(info["waits"])
    expect(page.get_by_role("region", name="Processes")).to_contain_text(str(info["processes"][0]["pid"]))
    expect(page.get_by_role("region", name="Waits")).to_contain_text("A long answer")
    expect(page.get_by_role("region", name="Providers")).to_contain_text("mock")


def test_a_part_that_fails_leaves_the_others(pages: Pages, machine: Machine, running: str) -> None:
    """WEB-462"""
    pages.allowed.append("503")
    page = pages.open(machine, "/")
    page.route("**/api/mcp*", lambda route: route.fulfill(status=503, json={"_tag": "X", "message": "No servers."}))
    page.goto(page.url.split("#")[0] + "#/system")
    expect(page.get_by_role("region", name="MCP servers")).to_contain_text("No servers.")
    expect(page.get_by_role("region", name="Drains")).to_contain_text("A long answer")


def test_a_drain_is_interrupted(pages: Pages, machine: Machine, running: str) -> None:
    """WEB-463"""
    page = pages.open(machine, "/#/system")
    page.get_by_role("button", name="Interrupt A long answer").first.click()
    machine.wait(running)
    expect(page.locator(f'[data-id="{running}"]')).to_have_count(0)


def test_the_doctor_reports(pages: Pages, machine: Machine) -> None:
    """WEB-463"""
    page = pages.open(machine, "/#/system")
    doctor = page.get_by_role("region", name="Doctor")
    doctor.get_by_role("button", name="Check").click()
    expect(doctor.locator('[data-figure="doctor-findings"]')).to_be_visible()
    expect(doctor).to_contain_text("Session")


def test_a_sign_in_of_another_browser_is_ended(pages: Pages, machine: Machine) -> None:
    """WEB-463"""
    other = machine.api.post(
        "/web/sign-in",
        json={"password": machine.environment["OPENCODE_SERVER_PASSWORD"]},
        headers={"user-agent": "Mozilla/5.0 (X11; Linux) Firefox/140"},
    )
    other.raise_for_status()
    page = pages.open(machine, "/#/system")
    row = page.get_by_role("region", name="Signed in").locator(f'[data-id="{other.json()["id"]}"]')
    expect(row).to_contain_text("Firefox on Linux")
    row.get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)


def test_the_page_fits_a_narrow_screen(pages: Pages, machine: Machine, running: str) -> None:
    """WEB-465"""
    page = pages.open(machine, "/#/system", width=320, height=640)
    expect(page.get_by_role("region", name="Drains")).to_contain_text("A long answer")
    assert page.evaluate("document.querySelector('main').scrollWidth") == 320
