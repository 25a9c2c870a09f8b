"""Questions and forms of every kind, as cards that are answered where they stand."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.acceptance.page.actions import conversation, look_away, press
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Json, Machine
from tests.acceptance.page.provider import Provider, Reply, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

BIDI = "\u202e"
COLOURS = [{"value": "r", "label": "Red"}, {"value": "g", "label": "Green", "description": "as grass"}]
FIELDS: list[Json] = [
    {"key": "name", "type": "string", "title": "Name", "required": True, "minLength": 2},
    {"key": "mail", "type": "string", "title": "Mail", "format": "email"},
    {"key": "day", "type": "string", "title": "Day", "format": "date"},
    {"key": "when", "type": "string", "title": "When", "format": "date-time", "default": "2026-03-01T12:00:00Z"},
    {"key": "colour", "type": "string", "title": "Colour", "options": COLOURS, "custom": True},
    {"key": "many", "type": "multiselect", "title": "Many", "options": COLOURS, "custom": True},
    {"key": "count", "type": "integer", "title": "Count", "minimum": 1, "maximum": 9, "default": 3},
    {"key": "share", "type": "number", "title": "Share"},
    {"key": "deep", "type": "boolean", "title": "Deeper"},
    {
        "key": "depth",
        "type": "integer",
        "title": "Depth",
        "required": True,
        "when": [{"key": "deep", "op": "eq", "value": True}],
    },
    {
        "key": "reason",
        "type": "string",
        "title": "Reason for it",
        "required": True,
        "when": [{"key": "depth", "op": "neq", "value": 1}],
    },
    {"key": "seen", "type": "external", "title": "Terms", "url": "https://example.org/terms", "required": True},
]


def ask(machine: Machine, title: str, fields: list[Json], **more: Any) -> tuple[str, str]:
    """The ids of a Session and of its form."""
    session = machine.create(title)
    form = machine.post(f"/api/session/{session}/form", title=title, fields=fields, **more)
    return session, form["id"]


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("main").get_by_role("article").filter(has_text=title)


def test_a_form_takes_all_kinds_of_fields(pages: Pages, machine: Machine) -> None:
    """WEB-438: with conditions on conditions; a required field that is not shown is neither asked for nor sent."""
    session, form = ask(machine, "Everything at once", FIELDS)
    page = pages.open(machine, f"/#/s/{session}", timezone_id="Asia/Tokyo")
    here = card(page, "Everything at once")
    reason = here.get_by_label("Reason for it")
    expect(here.get_by_label("When")).to_have_value("2026-03-01T21:00")
    expect(here.get_by_label("Depth")).to_be_hidden()
    here.get_by_label("Deeper").check()
    here.get_by_label("Depth").fill("1")
    expect(reason).to_be_hidden()
    here.get_by_label("Depth").fill("2")
    expect(reason).to_be_visible()
    here.get_by_label("Deeper").uncheck()
    expect(reason).to_be_hidden()
    link = here.get_by_role("link", name="Open the page")
    expect(link).to_have_attribute("href", "https://example.org/terms")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    answer = here.get_by_role("button", name="Answer")
    press(answer)
    expect(here.get_by_label("Name")).to_be_focused()  # what is missing
    here.get_by_label("Name").fill("Ada")
    here.get_by_label("Mail").fill("ada@example.org")
    here.get_by_label("Day").fill("2026-02-03")
    here.get_by_label("Colour optional").select_option("Something else")
    here.get_by_label("Colour, in your words").fill("mauve")
    here.get_by_role("checkbox", name="Green").check()
    here.get_by_label("Many, in your words").fill("teal")
    here.get_by_label("Share").fill("0.25")
    here.get_by_label("Done").check()
    press(answer)

    look_away(page)
    expect(here).to_have_count(0)
    state = machine.get(f"/api/session/{session}/form/{form}/state")
    assert state == {
        "status": "answered",
        "answer": {
            **{"name": "Ada", "mail": "ada@example.org", "day": "2026-02-03", "when": "2026-03-01T12:00:00.000Z"},
            **{"colour": "mauve", "many": ["g", "teal"], "count": 3, "share": 0.25, "deep": False, "seen": True},
        },
    }


def test_a_form_is_declined_and_a_refused_answer_is_told(pages: Pages, machine: Machine) -> None:
    """WEB-438: what the browser does not check, the server does; the card stays with what was typed."""
    pages.allowed.append("status of 400")
    need = {"key": "all", "type": "multiselect", "title": "All of them", "options": COLOURS, "minItems": 2}
    session, form = ask(machine, "Both, please", [need])
    page = pages.open(machine, "/#/inbox")
    here = card(page, "Both, please")
    here.get_by_role("checkbox", name="Red").check()
    press(here.get_by_role("button", name="Answer"))
    expect(here.get_by_role("alert")).to_contain_text("all")
    expect(here.get_by_role("checkbox", name="Red")).to_be_checked()
    press(here.get_by_role("button", name="Decline"))

    look_away(page)
    expect(here).to_have_count(0)
    assert machine.get(f"/api/session/{session}/form/{form}/state")["status"] == "cancelled"


def test_questions_take_several_answers_and_free_text(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-438: in one card; nothing can be sent before each of them has an answer."""
    pets = [{"label": "Cat", "description": "quiet"}, {"label": "Dog", "description": "loud"}]
    questions = [
        {"question": "Which pets?", "header": "Pets", "options": pets, "multiple": True},
        {"question": "Where to?", "header": "Place", "options": [{"label": "Home", "description": "near"}]},
    ]
    provider.on("ask about pets", calling("question", questions=questions), Reply("packed"))
    session = machine.create()
    machine.prompt(session, "ask about pets")
    page = pages.open(machine, f"/#/s/{session}")
    here = card(page, "Which pets?")
    answer = here.get_by_role("button", name="Answer")
    here.get_by_role("checkbox", name="Cat").check()
    here.get_by_role("checkbox", name="Dog").check()
    expect(answer).to_be_disabled()
    here.get_by_label("Your own answer in words").last.fill("to the sea")
    expect(answer).to_be_enabled()
    press(answer)

    expect(conversation(page)).to_contain_text("packed")
    said = str(machine.messages(session))
    assert all(word in said for word in ("Cat", "Dog", "to the sea"))


def test_what_is_decided_about_hides_nothing(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-403: characters that reorder others are shown by their numbers in commands, questions and forms, and a
    long command is all there."""
    command = f"git tag {BIDI}gnp.exe # " + "x" * 20_000 + " the end"
    provider.on("tag in disguise", calling("bash", command=command), Reply("refused"))
    options = [{"label": f"Yes{BIDI}on", "description": f"a{BIDI}b"}]
    question = {"question": f"Sure{BIDI}?", "header": "Sure", "options": options}
    provider.on("ask in disguise", calling("question", questions=[question]), Reply("fine"))
    sessions = [machine.create("Disguise"), machine.create("Another disguise")]
    machine.prompt(sessions[0], "tag in disguise")
    machine.prompt(sessions[1], "ask in disguise")
    field = {"key": "f", "type": "string", "title": f"Field{BIDI}x", "description": f"hint{BIDI}x"}
    form_session, _ = ask(machine, f"Form{BIDI}mrof", [field])
    page = pages.open(machine, "/#/inbox")
    cards = page.get_by_role("main").get_by_role("article")
    asked = cards.filter(has_text="gnp.exe")
    expect(asked.locator(".ask-code")).to_contain_text("git tag ⟨U+202E⟩gnp.exe")
    asked.get_by_role("button", name="Read on").click()
    asked.locator(".ask-view").evaluate("(view) => (view.scrollTop = view.scrollHeight)")
    expect(asked.locator(".ask-code")).to_contain_text("x the end")
    expect(cards.filter(has_text="Sure⟨U+202E⟩?")).to_contain_text("Yes⟨U+202E⟩on")
    expect(cards.filter(has_text="Form⟨U+202E⟩mrof")).to_contain_text("Field⟨U+202E⟩x")

    assert BIDI not in cards.filter(has_text="U+202E").all_inner_texts()
    assert [name for name in page.locator("article.ask").evaluate_all(LABELS) if BIDI in name] == []
    rename = {"title": f"Title{BIDI}eltit"}
    machine.post(f"/api/session/{form_session}/rename", **rename)
    page.goto(f"{machine.url}/#/")
    title = page.get_by_role("main").locator(".s-title").filter(has_text="eltit").first
    expect(title).to_be_visible()
    assert title.evaluate("(el) => getComputedStyle(el).unicodeBidi") == "isolate"
    for session in (*sessions, form_session):
        machine.api.post(f"/api/session/{session}/interrupt").raise_for_status()
        machine.api.delete(f"/api/session/{session}").raise_for_status()


LABELS = "(all) => all.map((el) => el.getAttribute('aria-label') + el.textContent)"


def test_a_sign_in_opens_without_another_password(pages: Pages, machine: Machine) -> None:
    """WEB-438: a form that waits for a sign-in leads a new tab to the service; a navigation would lack the key."""
    url = {"key": "signedIn", "type": "external", "title": "Sign in", "url": "/api/session/x/integration/docs/sign-in"}
    session, _ = ask(machine, "Sign in to docs", [url], metadata={"integrationID": "docs"})
    page = pages.open(machine, f"/#/s/{session}")
    known = {"data": {"id": "docs", "methods": [{"type": "oauth", "id": "m", "label": "Browser"}], "connections": []}}
    service = f"{machine.url}/web/nothing-here?state=1"
    page.route("**/api/integration/docs?*", lambda route: route.fulfill(json=known))
    page.route("**/connect/oauth?*", lambda route: route.fulfill(json={"data": {"url": service}}))
    pages.allowed.append("status of 404")
    with page.expect_popup() as opened:
        card(page, "Sign in to docs").get_by_role("link", name="Open the page").click()
    opened.value.wait_for_url(service)

    expect(card(page, "Sign in to docs").get_by_label("Done")).to_be_checked()
    assert opened.value.evaluate("window.opener") is None
    machine.api.delete(f"/api/session/{session}").raise_for_status()
