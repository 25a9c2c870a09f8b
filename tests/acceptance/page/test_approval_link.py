"""Pages for those who are not signed in: a link that answers one request, and a code of the command line."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.page.actions import ask_cards, conversation, is_idle, send
from tests.acceptance.page.conftest import Pages, sign_in
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling
from tests.acceptance.page.test_connection import HIDE

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

GONE = "status of 404"


def open_link(pages: Pages, link: str) -> Page:
    """On a phone that was never here."""
    phone = pages.context(width=360, height=740, scheme="light", has_touch=True, is_mobile=True)
    return pages.tab(phone, link)


def test_a_link_answers_one_request_once(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-440, WEB-436: it is made on the card, shows the request with the call, and is used up by the answer."""
    pages.allowed.append(GONE)
    provider.on("tag by link", calling("bash", command="git tag by-link"), Reply("tagged by link"))
    session = machine.create("On the way")
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "tag by link")
    ask_cards(page).get_by_role("button", name="Make a link for a phone").click()
    share = page.get_by_role("dialog", name="Link for a phone")
    expect(share).to_contain_text("until")
    link = share.get_by_label("Link").input_value()
    phone = open_link(pages, link)
    expect(phone.get_by_role("heading", level=1)).to_contain_text("wants to run a command")
    expect(phone.get_by_role("main")).to_contain_text("git tag by-link")
    expect(phone.get_by_role("main")).to_contain_text("On the way")
    expect(phone.get_by_role("button", name="Always")).to_have_count(0)
    box = phone.get_by_role("button", name="Allow once").bounding_box()
    assert box is not None
    assert box["height"] >= 44
    phone.get_by_role("button", name="Allow once").tap()

    expect(phone.get_by_role("heading", name="Allowed once")).to_be_focused()
    assert link.rpartition("/")[2] not in phone.url
    expect(conversation(page)).to_contain_text("tagged by link")
    is_idle(page)
    expect(open_link(pages, link).get_by_role("heading", name="This link cannot be used")).to_be_visible()


def test_a_link_denies_with_a_reason_and_tells_that_it_came_too_late(
    pages: Pages, machine: Machine, provider: Provider
) -> None:
    """WEB-440: the model reads the reason; of two links for a request, the second cannot be used."""
    pages.allowed.append(GONE)
    provider.on("tag with a doubt", calling("bash", command="git tag doubt"), Reply("I let it be"))
    session = machine.create()
    machine.prompt(session, "tag with a doubt")
    page = pages.open(machine, f"/#/s/{session}")
    expect(ask_cards(page)).to_have_count(1)
    first, second = (machine.run("sessions", "link", session).strip() for _ in range(2))
    late = open_link(pages, second)
    expect(late.get_by_role("button", name="Allow once")).to_be_visible()
    phone = open_link(pages, first)
    phone.get_by_label("Reason").fill("not while I am away")
    phone.get_by_role("button", name="Deny").tap()
    expect(phone.get_by_role("heading", name="Denied")).to_be_visible()
    late.get_by_role("button", name="Allow once").tap()

    expect(late.get_by_role("heading", name="This link cannot be used")).to_be_visible()
    machine.wait(session)
    assert "not while I am away" in str(machine.messages(session))
    assert not (machine.project / ".git" / "refs" / "tags" / "doubt").exists()


def test_a_link_keeps_what_is_typed_while_the_page_is_hidden(
    pages: Pages, machine: Machine, provider: Provider
) -> None:
    """WEB-440: also in a browser that is signed in, whose tabs reconnect when they are seen again."""
    provider.on("tag from the train", calling("bash", command="git tag train"), Reply("arrived"))
    session = machine.create()
    machine.prompt(session, "tag from the train")
    expect(ask_cards(pages.open(machine, f"/#/s/{session}"))).to_have_count(1)
    link = machine.run("sessions", "link", session).strip()
    page = pages.open(machine, link.removeprefix(machine.url), clock=True)
    page.get_by_label("Reason").fill("let me look up something")
    page.evaluate(HIDE, True)
    page.clock.fast_forward(10_100)
    page.evaluate(HIDE, False)
    expect(page.get_by_label("Reason")).to_have_value("let me look up something")
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("heading", name="Denied")).to_be_visible()
    machine.wait(session)
    assert "let me look up something" in str(machine.messages(session))


def test_a_code_signs_in_and_leaves_the_address(pages: Pages, machine: Machine) -> None:
    """WEB-439: before it is used; a second use is told, and the password still opens the page."""
    pages.allowed.append("status of 401")
    link = machine.run("web", "--print-url").strip()
    context = pages.context(width=1200, height=800, scheme="light")
    page = context.new_page()
    used: list[str] = []
    page.on("request", lambda request: used.append(page.url) if request.url.endswith("/web/sign-in") else None)
    page.goto(link)
    expect(page.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    code = link.rpartition("/")[2]
    assert len(used) == 1
    assert code not in used[0]
    assert page.evaluate("localStorage.getItem('holdfast.key')")

    again = pages.tab(pages.context(width=1200, height=800, scheme="light"), link)
    expect(again.get_by_role("alert").first).to_contain_text("was used before, or has expired")
    again.get_by_role("button", name="Sign in with the password").click()
    sign_in(again)
    expect(again.get_by_role("heading", name="Sessions", level=1)).to_be_visible()


def test_a_sign_in_that_ended_leads_back_to_the_same_page(pages: Pages, machine: Machine) -> None:
    """WEB-439: a 401 shows the sign-in in place of what was asked for."""
    pages.allowed.append("status of 401")
    session = machine.create("Asked for")
    page = pages.open(machine, f"/#/s/{session}", signed_in=False)
    sign_in(page)
    expect(page.get_by_role("heading", name="Asked for", level=1)).to_be_visible()
    current = next(found for found in sign_ins(page) if found["current"])
    machine.api.delete(f"/web/sign-ins/{current['id']}", headers={"origin": machine.url}).raise_for_status()

    expect(page.get_by_label("Password")).to_be_visible()
    sign_in(page)
    expect(page.get_by_role("heading", name="Asked for", level=1)).to_be_visible()


def sign_ins(page: Page) -> list[dict[str, object]]:
    script = """() => fetch('/web/sign-ins', { headers: { 'x-holdfast-key': localStorage.getItem('holdfast.key') } })
        .then((answer) => answer.json()).then((body) => body.data ?? body)"""
    found: list[dict[str, object]] = page.evaluate(script)
    return found
