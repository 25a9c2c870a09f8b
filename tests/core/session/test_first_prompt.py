"""The thin slice: one prompt through inbox, runner, tool and model."""

from __future__ import annotations

import pytest

from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_message import AssistantMessage, ToolCompleted, ToolPart, UserMessage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def model() -> ScriptedTransport:
    return ScriptedTransport(
        [Turn(calls=(Call(tool="read", input={"path": "hello.txt"}),)), Turn(text="It says hello.")]
    )


async def test_a_prompt_is_answered_from_a_file(runtime: Runtime, session: Session, model: ScriptedTransport) -> None:
    """SES-031, EVT-057: admitted, promoted, the tool settled, the model told, the answer kept."""
    await runtime.sessions.prompt(session.id, Prompt(text="What does hello.txt say?"))
    await runtime.sessions.wait(session.id)

    user, called, answered = [
        stored.decode() for stored in await runtime.sessions.messages(session.id, order="asc", limit=10)
    ]
    assert isinstance(user, UserMessage)
    assert isinstance(called, AssistantMessage)
    assert isinstance(answered, AssistantMessage)
    (part,) = called.content
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolCompleted)
    assert part.state.structured["content"] == "hello world\n"
    assert (called.finish, answered.finish) == ("tool-calls", "stop")
    assert [message["role"] for message in model.requests[1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert await runtime.verify() == []
