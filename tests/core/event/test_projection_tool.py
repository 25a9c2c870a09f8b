"""What the events of a tool call do to its content item."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.event.samples import NASTY, Story

from holdfast.schema.session_event import (
    Provider,
    ToolCalled,
    ToolFailed,
    ToolInputEnded,
    ToolInputStarted,
    ToolProgress,
    ToolSuccess,
)
from holdfast.schema.session_message import (
    FileContent,
    TextContent,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    ToolProvider,
    ToolRunning,
    ToolTime,
    UnknownError,
)

pytestmark = pytest.mark.anyio

HERE = Provider(executed=False)
CONTENT = (TextContent(text=NASTY), FileContent(uri="file:///a", mime="image/png", name="a"))


async def test_a_tool_call_from_input_to_success(turn: Story) -> None:
    """EVT-046: pending with raw input, running with parsed input, checkpoints, completed with both metadata."""
    await turn.say(ToolInputStarted, at=1, call_id="c", name="read")
    assert await turn.part() == ToolPart(id="c", name="read", state=ToolPending(input=""), time=ToolTime(created=1))
    await turn.say(ToolInputEnded, at=2, call_id="c", text='{"path": "ü"')
    part = await turn.part()
    assert isinstance(part, ToolPart)
    assert part.state == ToolPending(input='{"path": "ü"')
    called = {"p": {"id": "x"}}
    given = {"path": NASTY, "n": [1.5, None, True, 12345678901234567890]}
    await turn.say(
        ToolCalled,
        at=3,
        call_id="c",
        tool="read",
        input=given,
        provider=Provider(executed=False, metadata=called),
    )
    assert await turn.part() == ToolPart(
        id="c",
        name="read",
        provider=ToolProvider(executed=False, metadata=called),
        state=ToolRunning(input=given, structured={}, content=()),
        time=ToolTime(created=1, ran=3),
    )
    for structured in ({"old": 1}, {"lines": 2}):
        await turn.say(ToolProgress, call_id="c", structured=structured, content=CONTENT)
    part = await turn.part()
    assert isinstance(part, ToolPart)
    assert part.state == ToolRunning(input=given, structured={"lines": 2}, content=CONTENT), "replaced, not merged"
    settled = {"p": {"id": "y"}}
    await turn.say(
        ToolSuccess,
        at=9,
        call_id="c",
        structured={"all": []},
        content=CONTENT[:1],
        output_paths=("/tmp/out",),
        provider=Provider(executed=False, metadata=settled),
    )
    assert await turn.part() == ToolPart(
        id="c",
        name="read",
        provider=ToolProvider(executed=False, metadata=called, result_metadata=settled),
        state=ToolCompleted(
            input=given,
            structured={"all": []},
            content=CONTENT[:1],
            output_paths=("/tmp/out",),
        ),
        time=ToolTime(created=1, ran=3, completed=9),
    )


async def test_a_running_call_fails_with_what_it_had(turn: Story) -> None:
    """EVT-046: error beside the input and the last checkpoint."""
    await turn.call("c", {"a": 1})
    await turn.say(ToolProgress, call_id="c", structured={"half": True}, content=CONTENT)
    error = UnknownError(message="Tool execution interrupted")
    await turn.say(ToolFailed, at=9, call_id="c", error=error, provider=HERE)
    part = await turn.part()
    assert isinstance(part, ToolPart)
    assert part.state == ToolError(input={"a": 1}, structured={"half": True}, content=CONTENT, error=error)
    assert part.time.completed == 9


async def test_a_pending_call_fails_without_input(turn: Story) -> None:
    """EVT-046, SES-202: pending may go straight to error; its raw text is not an input."""
    await turn.say(ToolInputStarted, at=1, call_id="c", name="read")
    await turn.say(ToolInputEnded, call_id="c", text='{"broken')
    await turn.say(ToolFailed, at=9, call_id="c", error=UnknownError(message="m"), provider=HERE)
    assert await turn.part() == ToolPart(
        id="c",
        name="read",
        provider=ToolProvider(executed=False),
        state=ToolError(input={}, structured={}, content=(), error=UnknownError(message="m")),
        time=ToolTime(created=1, completed=9),
    )


@pytest.mark.parametrize("how", ["message", "verify", "rebuild"])
@pytest.mark.parametrize("outcome", ["success", "failure"])
async def test_the_result_of_a_hosted_tool_is_kept_as_the_provider_gave_it(turn: Story, outcome: str, how: str) -> None:
    """EVT-008, EVT-033, EVT-044, EVT-046: any JSON; it can be read back, verified and projected again."""
    await turn.call("c", {})
    result = msgspec.Raw(b'{"kept":[1.0,1e3,null,"x"]}')
    provider = Provider(executed=True)
    if outcome == "success":
        await turn.say(ToolSuccess, call_id="c", structured={}, content=(), result=result, provider=provider)
    else:
        await turn.say(ToolFailed, call_id="c", error=UnknownError(message="m"), result=result, provider=provider)
    if how == "verify":
        assert [found async for found in turn.log.verify([turn.session_id])] == []
    elif how == "rebuild":
        await turn.log.rebuild(turn.session_id)
    else:
        part = await turn.part()
        assert isinstance(part, ToolPart)
        assert isinstance(part.state, ToolCompleted | ToolError)
        assert part.state.result == result


@pytest.mark.parametrize(
    ("called", "settled", "result"), [(True, False, True), (False, True, True), (False, False, False)]
)
@pytest.mark.parametrize("outcome", ["success", "failure"])
async def test_executed_by_the_provider_is_sticky(
    turn: Story, called: bool, settled: bool, result: bool, outcome: str
) -> None:
    """EVT-046: once true, true; and metadata of the call survives a settlement without any."""
    metadata = {"p": {"id": "x"}}
    await turn.say(ToolInputStarted, call_id="c", name="search")
    await turn.say(
        ToolCalled,
        call_id="c",
        tool="search",
        input={},
        provider=Provider(executed=called, metadata=metadata),
    )
    provider = Provider(executed=settled)
    if outcome == "success":
        await turn.say(ToolSuccess, call_id="c", structured={}, content=(), provider=provider)
    else:
        await turn.say(ToolFailed, call_id="c", error=UnknownError(message="m"), provider=provider)
    part = await turn.part()
    assert isinstance(part, ToolPart)
    assert part.provider == ToolProvider(executed=result, metadata=metadata)


async def test_a_settled_call_stays_settled(turn: Story) -> None:
    """EVT-046, SES-202: success only when running, failure only while open, input only while pending."""
    await turn.say(ToolInputStarted, call_id="c", name="read")
    await turn.say(ToolSuccess, call_id="c", structured={}, content=(), provider=HERE)
    part = await turn.part()
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolPending)
    await turn.say(ToolCalled, call_id="c", tool="read", input={"a": 1}, provider=HERE)
    await turn.say(ToolInputEnded, call_id="c", text="late")
    await turn.say(ToolSuccess, at=5, call_id="c", structured={"x": 1}, content=(), provider=HERE)
    done = await turn.part()
    await turn.say(ToolFailed, call_id="c", error=UnknownError(message="late"), provider=HERE)
    await turn.say(ToolProgress, call_id="c", structured={"late": 1}, content=())
    await turn.say(ToolCalled, call_id="c", tool="read", input={"late": 1}, provider=HERE)
    await turn.say(ToolSuccess, call_id="c", structured={"late": 1}, content=(), provider=HERE)
    assert await turn.part() == done
    assert isinstance(done, ToolPart)
    assert done.state == ToolCompleted(input={"a": 1}, structured={"x": 1}, content=())
