"""What waits for a person, and who answers it: here, at the root of a tree, in another tab, or elsewhere."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.acceptance.page.actions import ask_cards, conversation, is_idle, look_away, press, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply, calling

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]


def test_an_edit_is_approved_with_its_change_in_sight(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-497, WEB-436: the file changes only after the answer."""
    file = machine.project / "greeting.txt"
    file.write_text("good morning\n", encoding="utf-8")
    change = calling("edit", path="greeting.txt", oldString="good morning", newString="good evening")
    provider.on("change the greeting", change, Reply("it is evening"))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "change the greeting")
    card = ask_cards(page)

    expect(card).to_contain_text("greeting.txt")
    expect(card.locator("ins, .add, [class*=add]").filter(has_text="good evening").first).to_be_visible()
    assert file.read_text(encoding="utf-8") == "good morning\n"
    card.get_by_role("button", name="Allow once").click()
    expect(conversation(page)).to_contain_text("it is evening")
    expect(card).to_have_count(0)
    assert file.read_text(encoding="utf-8") == "good evening\n"


def test_a_denial_with_a_reason_is_read_by_the_model(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-497, WEB-436: the turn goes on, and the tool was not executed."""
    provider.on("tag it", calling("bash", command="git tag denied"), Reply("understood"))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "tag it")
    ask_cards(page).get_by_role("button", name="Deny").click()
    page.get_by_role("textbox", name="Reason").fill("not on a Friday")
    page.get_by_role("button", name="Deny", exact=True).click()

    expect(conversation(page)).to_contain_text("understood")
    is_idle(page)
    assert not (machine.project / ".git" / "refs" / "tags" / "denied").exists()
    assert "not on a Friday" in str(machine.messages(session))


def test_always_saves_the_patterns_that_were_chosen(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-497, WEB-436: the page shows what it will save, and the next call is not asked for."""
    once_more = (calling("bash", command="mkdir -p made"), calling("bash", command="mkdir -p made/again"))
    provider.on("make two folders", *once_more, Reply("both are there"))
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "make two folders")
    card = ask_cards(page)
    card.get_by_role("button", name="Always").click()
    boxes = page.get_by_role("checkbox")
    expect(boxes.first).to_be_visible()
    for box in boxes.all():
        box.check()
    page.get_by_role("button", name="Always allow").click()

    expect(conversation(page)).to_contain_text("both are there")
    is_idle(page)


def test_a_question_is_answered(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-497, WEB-438: by an option, from the list of everything that needs a person."""
    question = {
        "question": "Which colour?",
        "header": "Colour",
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    }
    provider.on("paint it", calling("question", questions=[question]), Reply("painted"))
    session = machine.create("Painting")
    machine.prompt(session, "paint it")
    page = pages.open(machine, "/#/inbox")
    card = page.get_by_role("article").filter(has_text="Which colour?")
    card.get_by_role("radio", name="Blue").check()
    press(card.get_by_role("button", name="Answer"))
    look_away(page)
    expect(card).to_have_count(0)
    page.goto(f"{machine.url}/#/s/{session}")

    expect(conversation(page)).to_contain_text("painted")
    assert "Blue" in str(machine.messages(session))


def test_a_request_of_a_subagent_is_answered_at_the_root(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-497, WEB-436: the card says who asks, in the inbox, beside the list, and at the pages of the root and of the
    child; the child goes on."""
    delegate = calling("subagent", agent="general", description="tag quietly", prompt="make the tag please")
    provider.on("delegate the tag", delegate, Reply("all done at the root"))
    provider.on("make the tag please", calling("bash", command="git tag from-child"), Reply("tagged"))
    session = machine.create("Root of the tree")
    page = pages.open(machine, f"/#/s/{session}")
    send(page, "delegate the tag")
    card = ask_cards(page)

    expect(card).to_contain_text("tag quietly")
    (request,) = machine.get(f"/api/session/{session}/permission")
    for place in ("/#/inbox", "/#/", f"/#/s/{request['sessionID']}", f"/#/s/{session}"):
        page.goto(machine.url + place)
        expect(card.filter(has_text="git tag from-child")).to_be_visible()
    card.get_by_role("button", name="Allow once").click()
    expect(conversation(page)).to_contain_text("all done at the root")
    assert (machine.project / ".git" / "refs" / "tags" / "from-child").exists()


def test_a_request_that_was_answered_elsewhere_says_so(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-497, WEB-437: in a second tab as well; what is typed into another card stays, and the answered one leaves."""
    provider.on("ask both tabs", calling("bash", command="git tag elsewhere"), Reply("somebody allowed it"))
    provider.on("ask something else", calling("bash", command="git tag another"), Reply("as you say"))
    session, second = machine.create(), machine.create()
    page = pages.open(machine, f"/#/s/{session}", clock=True)
    other = pages.tab(page.context, f"{machine.url}/#/inbox")
    machine.prompt(second, "ask something else")
    typed = other.get_by_role("textbox", name="Reason")
    ask_cards(other).filter(has_text="git tag another").get_by_role("button", name="Deny").click()
    typed.fill("half a reason")
    machine.prompt(session, "ask both tabs")
    expect(ask_cards(page)).to_have_count(1)
    expect(ask_cards(other).filter(has_text="git tag elsewhere")).to_have_count(1)
    (request,) = machine.get(f"/api/session/{session}/permission")
    machine.post(f"/api/session/{session}/permission/{request['id']}/reply", reply="once")

    for tab in (page, other):
        answered = tab.get_by_role("article").filter(has_text="Answered elsewhere")
        expect(answered).to_contain_text("git tag elsewhere")
        expect(ask_cards(tab).filter(has_text="git tag elsewhere")).to_have_count(0)
    expect(conversation(page)).to_contain_text("somebody allowed it")
    for tab in (page, other):
        look_away(tab)
    page.clock.fast_forward(7_000)
    for tab in (page, other):
        expect(tab.get_by_role("article").filter(has_text="Answered elsewhere")).to_have_count(0)
    expect(typed).to_have_value("half a reason")
    other.get_by_role("button", name="Deny", exact=True).click()
    machine.wait(second)
    assert "half a reason" in str(machine.messages(second))


def test_two_tabs_show_the_same(pages: Pages, machine: Machine, provider: Provider) -> None:
    """WEB-497: a prompt of one is the prompt of both, with its answer."""
    provider.on("for both tabs", Reply("the same answer"))
    session = machine.create()
    one = pages.open(machine, f"/#/s/{session}")
    two = pages.tab(one.context, f"{machine.url}/#/s/{session}")
    expect(two.get_by_role("textbox", name="Message")).to_be_visible()
    send(one, "for both tabs")

    for tab in (one, two):
        expect(conversation(tab)).to_contain_text("for both tabs")
        expect(conversation(tab)).to_contain_text("the same answer")
        is_idle(tab)
    assert conversation(one).inner_text() == conversation(two).inner_text()
