"""Prompts on their way: sent again, refused, kept, withdrawn and changed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from tests.acceptance.page.actions import conversation, is_idle, message_box, send
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine
from tests.acceptance.page.provider import Provider, Reply

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

FAILED = "ERR_FAILED"
PROMPTS = "**/api/session/*/prompt"


def rows(page: Page) -> Locator:
    """What is on its way or waits to be promoted."""
    return page.locator(".pendings > *")


def told(machine: Machine, session: str) -> list[str]:
    return [message["text"] for message in machine.messages(session) if message["type"] == "user"]


def test_a_prompt_that_was_lost_is_sent_again(pages: Pages, machine: Machine) -> None:
    """WEB-418: with the same id, so that it is admitted once, also if only the answer was lost."""
    pages.allowed.append(FAILED)
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    expect(message_box(page)).to_be_visible()
    sent: list[str] = []

    def lose_a_request_and_an_answer(route: Route) -> None:
        sent.append(route.request.post_data or "")
        if len(sent) == 2:
            route.fetch()
        route.abort()

    page.route(PROMPTS, lose_a_request_and_an_answer)
    send(page, "only once")
    expect(conversation(page)).to_contain_text("done")
    expect(rows(page)).to_have_count(0)
    assert len(sent) >= 2
    assert len(set(sent)) == 1
    repeated = machine.post(f"/api/session/{session}/prompt", **json.loads(sent[0]))
    assert repeated["id"] == json.loads(sent[0])["id"]
    assert told(machine, session) == ["only once"]


def test_a_prompt_that_cannot_be_sent_waits_for_a_click(pages: Pages, machine: Machine) -> None:
    """WEB-418, WEB-419: after 30 s, and after a reload; what is typed meanwhile is kept as well."""
    pages.allowed.append(FAILED)
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}", clock=True)
    expect(message_box(page)).to_be_visible()
    page.route(PROMPTS, lambda route: route.abort())
    send(page, "when you can")
    expect(rows(page)).to_contain_text("Sending")
    page.clock.fast_forward(31_000)
    expect(rows(page)).to_contain_text("Not sent")
    message_box(page).fill("half a thought")
    page.reload()

    expect(message_box(page)).to_have_value("half a thought")
    expect(rows(page)).to_contain_text("Not sent")
    expect(rows(page)).to_contain_text("when you can")
    page.unroute(PROMPTS)
    rows(page).get_by_role("button", name="Send now").click()
    expect(conversation(page)).to_contain_text("done")
    expect(rows(page)).to_have_count(0)
    assert told(machine, session) == ["when you can"]


def test_what_the_server_refuses_can_be_edited(pages: Pages, machine: Machine) -> None:
    """WEB-418: it is shown with the reason, and returns with its files."""
    pages.allowed.append("status of 400")
    session = machine.create()
    page = pages.open(machine, f"/#/s/{session}")
    expect(message_box(page)).to_be_visible()
    refusal = {"_tag": "InvalidRequestError", "message": "That is too much."}
    page.route(PROMPTS, lambda route: route.fulfill(status=400, json=refusal))
    file = {"name": "note.txt", "mimeType": "text/plain", "buffer": b"a note"}
    page.locator(".composer input[type=file]").set_input_files(file)  # type: ignore[arg-type]
    expect(page.locator(".composer .filechip")).to_have_count(1)
    send(page, "too much")
    expect(rows(page)).to_contain_text("Refused")
    expect(rows(page)).to_contain_text("That is too much.")
    rows(page).get_by_role("button", name="Edit").click()

    expect(rows(page)).to_have_count(0)
    expect(message_box(page)).to_have_value("too much")
    expect(page.locator(".composer .filechip")).to_contain_text("note.txt")
    expect(page.locator(".composer .filechip")).to_contain_text("6 B")
    page.unroute(PROMPTS)
    page.get_by_role("button", name="Send").click()
    expect(conversation(page)).to_contain_text("done")
    assert told(machine, session) == ["too much"]


@pytest.fixture
def busy(machine: Machine, provider: Provider) -> Iterator[tuple[str, threading.Event]]:
    """A Session that works until the event is set, and then for one turn more."""
    go_on = threading.Event()
    provider.on(
        "keep working", Reply("working", calls=(("read", {"path": "hello.txt"}),), end=go_on), Reply("finished")
    )
    session = machine.create()
    machine.prompt(session, "keep working")
    yield session, go_on
    go_on.set()
    machine.wait(session)


def test_a_pending_prompt_is_withdrawn_or_delivered_otherwise(
    pages: Pages, machine: Machine, busy: tuple[str, threading.Event]
) -> None:
    """WEB-432: a withdrawn one returns to an empty composer and never over what is typed."""
    session, go_on = busy
    page = pages.open(machine, f"/#/s/{session}")
    expect(conversation(page)).to_contain_text("working")
    send(page, "a first wish", delivery="Queue")
    send(page, "a second wish", delivery="Queue")
    first, second = rows(page).filter(has_text="a first wish"), rows(page).filter(has_text="a second wish")
    expect(first.locator(".tag")).to_have_text("Queued")
    expect(second.locator(".tag")).to_have_text("Queued")
    first.get_by_role("button", name="Withdraw").click()
    expect(first).to_have_count(0)
    expect(message_box(page)).to_have_value("a first wish")
    second.get_by_role("button", name="Steer instead").click()
    expect(second.locator(".tag")).to_have_text("Steer")
    second.get_by_role("button", name="Queue instead").click()
    expect(second.locator(".tag")).to_have_text("Queued")
    second.get_by_role("button", name="Withdraw").click()
    expect(rows(page)).to_have_count(0)
    expect(message_box(page)).to_have_value("a first wish")
    go_on.set()

    is_idle(page)
    assert told(machine, session) == ["keep working"]


def test_what_the_model_has_read_cannot_be_withdrawn(
    pages: Pages, machine: Machine, busy: tuple[str, threading.Event]
) -> None:
    """WEB-432: the page that did not know yet says so."""
    pages.allowed.append("status of 409")
    session, go_on = busy
    page = pages.open(machine, f"/#/s/{session}")
    expect(conversation(page)).to_contain_text("working")
    send(page, "too late for this", delivery="Steer")
    expect(rows(page).locator(".tag")).to_have_text("Steer")

    def first_let_it_be_read(route: Route) -> None:
        go_on.set()
        machine.wait(session)
        route.continue_()

    page.route("**/pending/*", first_let_it_be_read)
    rows(page).get_by_role("button", name="Withdraw").click()
    expect(page.locator("#alert")).to_contain_text("the model has already read it")
    expect(conversation(page)).to_contain_text("too late for this")
    expect(rows(page)).to_have_count(0)
