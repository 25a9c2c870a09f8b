"""When inputs are delivered: steers at the next boundary, queued ones when the Session would go idle."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.conftest import user_texts

from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session

pytestmark = pytest.mark.anyio

READ = Turn(calls=(Call(tool="read", input={"path": "hello.txt"}),))


def seen(model: ScriptedTransport) -> list[list[str]]:
    """What the users said, turn by turn."""
    return [user_texts(request) for request in model.requests]


async def say(runtime: Runtime, session: Session, text: str, **options: Any) -> None:
    await runtime.sessions.prompt(session.id, Prompt(text=text), **options)


async def test_the_example_of_the_specification(runtime: Runtime, session: Session, model: ScriptedTransport) -> None:
    """SES-056, SES-051, SES-053: queued A and B during turn 1, steers S1 and S2 during turn 2; four requests."""
    first, second = model.hold(0), model.hold(1)
    await say(runtime, session, "start")
    await model.seen(1)
    await say(runtime, session, "A", delivery="queue")
    await say(runtime, session, "B", delivery="queue")
    first.set()
    await model.seen(2)
    await say(runtime, session, "S1")
    await say(runtime, session, "S2")
    second.set()
    await runtime.sessions.wait(session.id)
    assert seen(model) == [
        ["start"],
        ["start", "A"],
        ["start", "A", "S1", "S2"],
        ["start", "A", "S1", "S2", "B"],
    ]


class TestWithTools:
    @pytest.fixture
    async def model(self) -> ScriptedTransport:
        return ScriptedTransport([READ, READ])

    async def test_a_steer_joins_at_the_next_boundary_inside_the_drain(
        self, runtime: Runtime, session: Session, model: ScriptedTransport
    ) -> None:
        """SES-051: all that wait go together, in order, before the very next request."""
        gate = model.hold(0)
        await say(runtime, session, "start")
        await model.seen(1)
        for text in ("one", "two", "three"):
            await say(runtime, session, text)
        gate.set()
        await runtime.sessions.wait(session.id)
        assert seen(model)[:2] == [["start"], ["start", "one", "two", "three"]]
        assert len(model.requests) == 3

    async def test_a_queued_input_waits_while_there_is_more_to_do(
        self, runtime: Runtime, session: Session, model: ScriptedTransport
    ) -> None:
        """SES-053: two tool calls lead to two more turns before it; then it alone is taken."""
        gate = model.hold(0)
        await say(runtime, session, "start")
        await model.seen(1)
        await say(runtime, session, "A", delivery="queue")
        gate.set()
        await runtime.sessions.wait(session.id)
        assert seen(model) == [["start"], ["start"], ["start"], ["start", "A"]]

    async def test_the_work_of_one_queued_input_is_finished_before_the_next(
        self, runtime: Runtime, session: Session, model: ScriptedTransport
    ) -> None:
        """SES-053: A calls a tool twice, so B comes only after A's third turn."""
        await say(runtime, session, "A", delivery="queue", resume=False)
        await say(runtime, session, "B", delivery="queue")
        await runtime.sessions.wait(session.id)
        assert seen(model) == [["A"], ["A"], ["A"], ["A", "B"]]


async def test_a_steer_goes_before_what_was_queued_earlier(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-055: the first boundary of a drain is a steer boundary if any steer waits."""
    await say(runtime, session, "Q", delivery="queue", resume=False)
    await say(runtime, session, "S", resume=False)
    await runtime.sessions.run(session.id)
    assert seen(model) == [["S"], ["S", "Q"]]


async def test_a_forced_run_with_nothing_pending_promotes_nothing(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-055, SES-062: it asks the model once more about the same history."""
    await say(runtime, session, "only")
    await runtime.sessions.wait(session.id)
    await runtime.sessions.run(session.id)
    assert seen(model) == [["only"], ["only"]]


async def test_queued_inputs_keep_the_order_of_admission(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-053: one a turn, smallest sequence first, whatever their ids sort like."""
    for id in ("msg_c", "msg_a", "msg_b"):
        await say(runtime, session, id, id=id, delivery="queue", resume=False)
    await runtime.sessions.wake(session.id)
    await runtime.sessions.wait(session.id)
    assert seen(model) == [["msg_c"], ["msg_c", "msg_a"], ["msg_c", "msg_a", "msg_b"]]
