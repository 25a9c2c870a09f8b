"""Which messages are model history: from the newest checkpoint on, and system messages of the current epoch."""

from __future__ import annotations

import pytest
from tests.core.conftest import tables

from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema import session_event as ev
from holdfast.schema.model import ModelRef
from holdfast.schema.session import Session
from holdfast.schema.session_message import AssistantMessage, ReasoningPart

pytestmark = pytest.mark.anyio


async def say(runtime: Runtime, session: Session, kind: str, name: str) -> None:
    stamp = {"timestamp": 1, "session_id": session.id, "message_id": f"msg_{name}"}
    match kind:
        case "system":
            await runtime.log.publish(ev.ContextUpdated(text=name, **stamp))  # type: ignore[arg-type]
        case "compaction":
            await runtime.log.publish(ev.CompactionEnded(reason="auto", text=name, recent="", **stamp))  # type: ignore[arg-type]
        case _:
            await runtime.log.publish(ev.Synthetic(text=name, **stamp))  # type: ignore[arg-type]


async def baseline_at_head(runtime: Runtime, session: Session) -> None:
    """An epoch whose baseline covers everything so far."""
    seq = await runtime.log.latest(session.id)
    with tables(runtime) as sql:
        sql("delete from session_context_epoch where session_id = ?", session.id)
        sql(
            "insert into session_context_epoch (session_id, baseline_id, snapshot_id, baseline_seq)"
            " values (?, 'b', '{}', ?)",
            session.id,
            seq,
        )


async def names(runtime: Runtime, session: Session) -> list[str]:
    return [message.id.removeprefix("msg_") for message in await runtime.sessions.context(session.id)]


async def test_without_checkpoint_or_epoch_everything_counts(runtime: Runtime, session: Session) -> None:
    """SES-150, SES-019."""
    for kind, name in (("other", "a"), ("system", "s"), ("other", "b")):
        await say(runtime, session, kind, name)
    assert await names(runtime, session) == ["a", "s", "b"]


async def test_history_begins_at_the_newest_checkpoint(runtime: Runtime, session: Session) -> None:
    """SES-150, SES-019: everything is still in `messages`."""
    for kind, name in (("other", "a"), ("compaction", "c1"), ("other", "b"), ("compaction", "c2"), ("other", "d")):
        await say(runtime, session, kind, name)
    assert await names(runtime, session) == ["c2", "d"]
    assert len(await runtime.sessions.messages(session.id, order="asc", limit=50)) == 5


async def test_while_the_new_baseline_is_blocked_updates_of_the_old_epoch_stay(
    runtime: Runtime, session: Session
) -> None:
    """SES-150, SES-151: they stand before the checkpoint; once the baseline was replaced they are gone."""
    await say(runtime, session, "system", "folded into the baseline")
    await baseline_at_head(runtime, session)
    for kind, name in (("other", "a"), ("system", "update"), ("compaction", "c"), ("other", "b")):
        await say(runtime, session, kind, name)
    assert await names(runtime, session) == ["update", "c", "b"]
    await baseline_at_head(runtime, session)
    assert await names(runtime, session) == ["c", "b"]


async def test_an_explicit_run_without_history_still_asks(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-152."""
    await runtime.sessions.run(session.id)
    assert [message["role"] for message in model.requests[0]["messages"]] == ["system", "user"]


@pytest.mark.parametrize("given", [None, {"p": {"signature": "end"}}], ids=["none at the end", "one at the end"])
async def test_metadata_at_the_end_of_reasoning_replaces_that_of_its_start(
    runtime: Runtime, session: Session, given: dict[str, dict[str, str]] | None
) -> None:
    """SES-163: replaced, not merged; an end without any keeps the start's."""
    start = {"p": {"signature": "start", "other": "x"}}
    step = {"timestamp": 1, "session_id": session.id, "assistant_message_id": "msg_a"}
    await runtime.log.publish(
        ev.StepStarted(agent="build", model=ModelRef(id="m", provider_id="p"), **step),  # type: ignore[arg-type]
        ev.ReasoningStarted(reasoning_id="r", provider_metadata=start, **step),  # type: ignore[arg-type]
        ev.ReasoningEnded(reasoning_id="r", text="hm", provider_metadata=given, **step),  # type: ignore[arg-type]
    )
    message = (await runtime.sessions.message(session.id, "msg_a")).decode()
    assert isinstance(message, AssistantMessage)
    (part,) = message.content
    assert isinstance(part, ReasoningPart)
    assert part.provider_metadata == (given or start)
