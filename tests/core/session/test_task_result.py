"""What becomes of a subagent's answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.core.session.answer_outcome import TURN_INTERRUPTED
from holdfast.core.session.stored_messages import StoredMessage
from holdfast.core.session.task_result import result_of
from holdfast.schema.codec import encode
from holdfast.schema.model import ModelRef
from holdfast.schema.session_message import AssistantMessage, TextPart, Time, UnknownError

pytestmark = pytest.mark.anyio


async def test_a_text_that_broke_off_is_no_part_of_the_result() -> None:
    """SES-473: what a subagent's process left in the middle is for people, not for the parent's model."""
    answer = AssistantMessage(
        id="msg_1",
        agent="build",
        model=ModelRef(id="m", provider_id="p"),
        content=(TextPart(id="a", text="whole"), TextPart(id="b", text="half a", broken_off=True)),
        time=Time(created=1, completed=2),
        error=UnknownError(message=TURN_INTERRUPTED),
    )

    class Store:
        async def message(self, session_id: str, message_id: str) -> StoredMessage:
            return StoredMessage(1, message_id, encode(answer), session_id, session_id)

        async def fetch(self, name: str, params: object) -> list[tuple[str]]:
            return [("msg_1",)] if name == "task.answer" else []

    store: Any = Store()
    task: Any = SimpleNamespace(child_id="ses_child")
    state: Any = SimpleNamespace(withdrawn_seq=None, promoted_seq=1, ended_seq=2)
    told = (await result_of(store, store, task, state)).text
    assert "whole" in told
    assert "half" not in told
