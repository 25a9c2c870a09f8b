"""What the page offers to somebody whose token may not do everything."""

from __future__ import annotations

import itertools
import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.page.conftest import Pages, sign_in
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

ROLES = ("read", "prompt", "approve", "admin")
NUMBERS = itertools.count()
ACTIONS = ("Rename", "Fork", "Compact now", "Archive", "Delete…")


@pytest.fixture(scope="module")
def waiting(machine: Machine, provider: Provider) -> str:
    """A Session that waits for an approval."""
    provider.on("tag the release", calling("bash", command="git tag release"))
    session = machine.create("Release")
    machine.prompt(session, "tag the release")
    return session


def card(page: Page) -> Locator:
    return page.get_by_role("main").get_by_role("article", name="git tag release")


def opened(pages: Pages, machine: Machine, session: str, role: str) -> Page:
    """The page of the Session, for a token with this role."""
    token = machine.run("token", "create", f"{role}-{next(NUMBERS)}", "--role", role).strip()
    page = pages.open(machine, f"/#/s/{session}", signed_in=False)
    sign_in(page, token)
    expect(card(page)).to_be_visible()
    return page


@pytest.mark.parametrize("role", ROLES)
def test_a_person_is_offered_what_the_role_allows(pages: Pages, machine: Machine, waiting: str, role: str) -> None:
    """WEB-447: and is told which role the rest needs."""
    page = opened(pages, machine, waiting, role)
    prompts, approves, admin = role != "read", role in ("approve", "admin"), role == "admin"

    expect(page.get_by_role("textbox", name="Message")).to_have_count(int(prompts))
    expect(page.get_by_role("button", name=re.compile("^Interrupt"))).to_have_count(int(prompts))
    expect(page.get_by_text("needs a token with the role prompt").first).to_be_visible(visible=not prompts)
    expect(card(page).get_by_role("button", name=re.compile("^Allow once"))).to_have_count(int(approves))
    expect(page.get_by_text("needs a token with the role approve").first).to_be_visible(visible=not approves)
    page.get_by_role("button", name="More", exact=True).click()
    expect(page.get_by_role("menuitem", name="Copy session id")).to_be_visible()
    offered = [action for action in ACTIONS if page.get_by_role("menuitem", name=action).count()]
    assert offered == [action for action in ACTIONS if prompts and (admin or action != "Delete…")]


def test_keys_do_nothing_that_is_not_offered(pages: Pages, machine: Machine, waiting: str) -> None:
    """WEB-447: the server is not even asked."""
    page = opened(pages, machine, waiting, "read")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method))
    card(page).focus()
    for key in ("a", "A", "d", "Enter", "Escape", "Escape"):
        page.keyboard.press(key)
    expect(card(page)).to_be_visible()

    assert "POST" not in asked
