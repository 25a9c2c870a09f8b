"""Who may use the page: a password, two halves of a sign-in, and their end."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.acceptance.page.conftest import Pages, sign_in
from tests.acceptance.page.machine import Machine

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

UNAUTHORIZED = r"status of 401"


def test_a_wrong_password_is_told_and_the_right_one_opens_the_page(pages: Pages, machine: Machine) -> None:
    """WEB-495: the page says what was wrong, and keeps the field for another try."""
    pages.allowed.append(UNAUTHORIZED)
    page = pages.open(machine, signed_in=False)
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").filter(has_text="not the password")).to_be_visible()
    sign_in(page)

    expect(page.get_by_role("navigation", name="Sessions").first).to_be_visible()
    expect(page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()


def test_signing_out_ends_the_sign_in_for_every_tab(pages: Pages, machine: Machine) -> None:
    """WEB-495: a copy of the cookie and the key is of no use afterwards."""
    pages.allowed.append(UNAUTHORIZED)
    page = pages.open(machine, signed_in=False)
    sign_in(page)
    stolen = page.context.storage_state()
    other = pages.tab(page.context, machine.url)
    expect(other.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    page.goto(f"{machine.url}/#/system")
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_label("Password")).to_be_visible()
    expect(other.get_by_label("Password")).to_be_visible()
    thief = pages.tab(pages.context(width=1000, height=700, scheme="light", storage_state=stolen), machine.url)
    expect(thief.get_by_label("Password")).to_be_visible()


def test_the_cookie_alone_opens_nothing(pages: Pages, machine: Machine) -> None:
    """WEB-495: a program on another port of this host gets the cookie, but not the key."""
    page = pages.open(machine)
    expect(page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    pages.allowed.append(UNAUTHORIZED)
    asked = "fetch('/api/session').then((answer) => [answer.status, answer.headers.get('www-authenticate')])"

    assert page.evaluate(asked) == [401, None]  # nor does the browser ask for a password by itself
