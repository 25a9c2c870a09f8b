"""A Session with everything in it, explained: its figures, and what it was at any sequence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.acceptance.page.actions import conversation, message_box
from tests.acceptance.page.conftest import Pages
from tests.acceptance.page.machine import Machine

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

TALL = 6_000
"""Pixels: everything that the Session had said is in the document."""


def test_the_past_is_what_the_api_rebuilds(pages: Pages, demo: Machine) -> None:
    """WEB-499, WEB-426: prompts and answers at sequences all over the Session; the past cannot be written to."""
    session = demo.find("Fix the lost cent")
    head = _head(demo, session)
    page = pages.open(demo, f"/#/s/{session}", height=TALL)
    expect(message_box(page)).to_be_visible()
    for seq in range(5, head, head // 6):
        page.goto(f"{demo.url}/#/s/{session}/events?at={seq}")
        expect(page.get_by_role("status").filter(has_text=f"#{seq}").first).to_be_visible()
        past: dict[str, Any] = demo.get(f"/api/session/{session}/at/{seq}")
        assert past["seq"] == seq
        expect(conversation(page).locator(".user")).to_have_count(len(_texts(past, "user")))
        assert conversation(page).locator(".user .md").all_inner_texts() == _plain(_texts(past, "user"))
        _shows_answers(page, past)
        expect(message_box(page)).to_have_count(0)
    page.get_by_role("button", name="Back to now").first.click()
    expect(message_box(page)).to_be_visible()


def _head(machine: Machine, session: str) -> int:
    """The newest sequence."""
    with machine.api.stream("GET", "/web/stream", params={"session": session}) as stream:
        for line in stream.iter_lines():
            if '"hello"' in line:
                return int(json.loads(line.removeprefix("data: "))["head"])
    raise AssertionError("the stream said nothing")


def _texts(past: dict[str, Any], type: str) -> list[str]:
    return [message["text"] for message in past["messages"] if message["type"] == type]


def _plain(texts: list[str]) -> list[str]:
    return [text.replace("`", "") for text in texts]


def _shows_answers(page: Page, past: dict[str, Any]) -> None:
    """Words of each text that was complete by then, once."""
    shown = conversation(page).inner_text()
    for message in past["messages"]:
        for part in message.get("content", ()):
            if part["type"] == "text" and part["text"]:
                words = max(part["text"].split("\n")[0].split("`"), key=len)[:40].strip()
                assert shown.count(words) == 1, words
