"""Forms in an editor: pages to visit, answers that do not fit."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from holdfast.acp.elicitation import ATTEMPTS, Elicitation
from holdfast.acp.requests import ClientCapabilities, ElicitationCapabilities
from holdfast.schema.exceptions import InvalidFormAnswer
from holdfast.schema.form import ExternalField, Form, StringField
from holdfast.schema.question import QuestionTool

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
TOOL = QuestionTool(message_id="msg_1", call_id="call_0")
OFFERS = ClientCapabilities(elicitation=ElicitationCapabilities(form={}, url={}))


class Forms:
    """Keeps what happens to a form. `refuses` so many answers."""

    def __init__(self, refuses: int = 0) -> None:
        self.refuses = refuses
        self.replies: list[Json] = []
        self.cancelled = 0

    async def reply(self, session_id: str, *, form_id: str, answer: Json) -> None:
        self.replies.append(answer)
        if len(self.replies) <= self.refuses:
            raise InvalidFormAnswer(form_id, "it is too short", field="name")

    async def cancel(self, session_id: str, *, form_id: str) -> None:
        self.cancelled += 1


class Asked:
    """An editor that accepts everything, with this content."""

    def __init__(self, action: str = "accept", content: Json | None = None) -> None:
        self.requests: list[Json] = []
        self._answer = {"action": action, "content": content}

    async def __call__(self, method: str, params: Json) -> msgspec.Raw:
        assert method == "elicitation/create"
        self.requests.append(params)
        return msgspec.Raw(msgspec.json.encode(self._answer))


async def no_note(text: str) -> None:
    raise AssertionError(text)


def elicitation(forms: Forms, asked: Asked, offers: ClientCapabilities = OFFERS, note: Any = no_note) -> Elicitation:
    client: Any = SimpleNamespace(forms=forms)
    return Elicitation(client, "ses_1", offers, asked, note)


def form(*fields: Any, **metadata: Any) -> Form:
    return Form(id="frm_1", session_id="ses_1", title="Please", fields=fields, tool=TOOL, metadata=metadata or None)


async def test_a_page_is_visited_and_the_rest_filled_in() -> None:
    """ACP-076"""
    forms, asked = Forms(), Asked(content={"name": "Ada"})
    page = ExternalField(key="page", url="https://example.org/confirm", title="Confirm")
    await elicitation(forms, asked).ask_form(form(page, StringField(key="name")), lambda: False)
    visit, fill_in = asked.requests
    assert (visit["mode"], visit["url"], visit["toolCallId"]) == ("url", "https://example.org/confirm", "msg_1/call_0")
    assert (fill_in["mode"], list(fill_in["requestedSchema"]["properties"])) == ("form", ["name"])
    assert forms.replies == [{"page": True, "name": "Ada"}]


async def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason() -> None:
    """ACP-076"""
    forms, asked = Forms(refuses=1), Asked(content={"name": "A"})
    await elicitation(forms, asked).ask_form(form(StringField(key="name")), lambda: False)
    assert "too short" in asked.requests[1]["message"]
    assert (len(forms.replies), forms.cancelled) == (2, 0)
    forms, asked = Forms(refuses=99), Asked(content={"name": "A"})
    await elicitation(forms, asked).ask_form(form(StringField(key="name")), lambda: False)
    assert (len(forms.replies), forms.cancelled) == (ATTEMPTS, 1)


async def test_a_person_who_declines_cancels_the_form_unless_the_turn_is_cancelled() -> None:
    """ACP-074, ACP-076"""
    for cancelling, expected in ((False, 1), (True, 0)):
        forms, asked = Forms(), Asked("decline")
        await elicitation(forms, asked).ask_form(form(StringField(key="name")), partial(bool, cancelling))
        assert (forms.replies, forms.cancelled) == ([], expected)


async def test_a_sign_in_of_this_machine_is_left_to_a_terminal() -> None:
    """ACP-076: its page belongs to a server, and no port is open here."""
    forms, asked = Forms(), Asked()
    told: list[str] = []

    async def note(text: str) -> None:
        told.append(text)

    page = ExternalField(key="page", url="/sign-in/mcp")
    await elicitation(forms, asked, note=note).ask_form(
        form(page, kind="mcp-authorization", server="linear"), lambda: False
    )
    assert "`holdfast auth login mcp:linear`" in told[0]
    assert (asked.requests, forms.cancelled) == ([], 1)
