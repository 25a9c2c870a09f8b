"""The prefix law: inside an epoch each request begins with the bytes of the one before, or the dispatch says why
not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import new_session
from tests.core.session.support_lab import (
    CLAUDE,
    CLAUDE_END,
    LAB,
    OTHER,
    Lab,
    Provider,
    calls,
    claude_answer,
    claude_call,
    claude_text,
    overflows,
    says,
    tool,
)
from tests.llm.support import sse, unclosed

from holdfast.core.runner import pruning
from holdfast.core.scope import Scope
from holdfast.schema.codec import decode_any
from holdfast.schema.prompt import Prompt

pytestmark = pytest.mark.anyio

ROOMY = {"context": 1_000_000, "output": 100}
KEEP_NONE = {"compaction": {"keep": {"tokens": 0}}}


async def causes(runtime: Lab, session_id: str) -> list[list[str]]:
    stored = await runtime.log.serialized(session_id, limit=10_000)
    dispatched = [decode_any(event.data) for event in stored if "turn.dispatched" in event.type]
    return [item.get("broke") or [] for item in dispatched]


async def say(runtime: Lab, session_id: str, text: str) -> None:
    await runtime.sessions.prompt(session_id, Prompt(text=text))
    await runtime.sessions.wait(session_id)


def nothing(context: object) -> dict[str, Any]:
    return {"found": "something"}


@pytest.mark.parametrize("model", [LAB, CLAUDE], ids=["chat", "messages"])
async def test_each_request_begins_with_the_one_before(tmp_path: Path, model: Any) -> None:
    """SES-213: over tools, several prompts and two processes; no cause is recorded, none is needed.
    Markers are left out of the comparison, since they move on purpose."""
    if model is LAB:
        replies = [calls(("t", {}), ("t", {"n": 1}), text="looking"), says("found"), says("second"), says("third")]
    else:
        looking = claude_answer(claude_text(0, "looking"), _stop(0), claude_call(1, "t"), CLAUDE_END)
        replies = [looking, *[claude_answer(claude_text(0, "found"), _stop(0), CLAUDE_END)] * 3]
    provider = Provider(*replies)
    async with Lab(tmp_path, provider, tools={"t": tool(nothing)}) as runtime:
        session = await new_session(runtime, model=model)
        await say(runtime, session.id, "first")
        await say(runtime, session.id, "second")
    async with Lab(tmp_path, provider, tools={"t": tool(nothing)}) as runtime:
        await say(runtime, session.id, "third")
        assert await causes(runtime, session.id) == [[]] * 4
    bodies = [unclosed(_unmarked(raw)) for raw in provider.raw]
    for before, after in pairwise(bodies):
        assert after.startswith(before)


def _stop(index: int) -> bytes:
    return sse({"type": "content_block_stop", "index": index})


def _unmarked(raw: bytes) -> bytes:
    return raw.replace(b',"cache_control":{"type":"ephemeral"}', b"")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("agent", "agent switch"),
        ("model", "model switch"),
        ("tools", "tool change"),
        ("compaction", "compaction"),
        ("last step", "last step"),
        ("revert", "revert"),
        ("move", "new epoch"),
    ],
)
async def test_a_broken_prefix_names_its_cause(tmp_path: Path, change: str, expected: str) -> None:
    """SES-213: each cause is recorded with the dispatch that it concerns, and the one after is whole again."""
    agents = {"quick": {"mode": "all", "system": "Be quick."}, "short": {"mode": "all", "steps": 1}}
    config = {**KEEP_NONE, "agents": agents}
    provider = Provider(says("one"), says("two"))
    async with Lab(tmp_path, provider, config=config, limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "first " * 200)
        match change:
            case "agent":
                await runtime.sessions.switch_agent(session.id, "quick")
            case "last step":
                await runtime.sessions.switch_agent(session.id, "short")
            case "model":
                await runtime.sessions.switch_model(session.id, OTHER)
            case "tools":
                async with runtime.locations.use(runtime.location) as services:
                    services.tools.register({"late": tool(nothing)}, Scope())
            case "compaction":
                provider.replies[1:] = [overflows(), says("notes"), says("two"), says("three")]
            case "move":
                (runtime.directory / "sub").mkdir()
                await runtime.sessions.move(session.id, str(runtime.directory / "sub"))
            case _:
                rows = await runtime.sessions.messages(session.id, order="asc", limit=10)
                await runtime.sessions.stage_revert(session.id, rows[0].id)
        await say(runtime, session.id, "second")
        if change == "last step":
            await runtime.sessions.switch_agent(session.id, "short")
        await say(runtime, session.id, "third")
        found = await causes(runtime, session.id)
        assert found[0] == []
        assert expected in found[-2]
        assert found[-1] == ([] if change != "last step" else ["last step"])


async def test_pruning_keeps_the_record_and_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-165, SES-213, SES-304: old results give way in the request only, before anything is summarised, the newest
    stay. An answer outside the conversation leaves out the same."""
    monkeypatch.setattr(pruning, "KEEP_TOKENS", 100)
    monkeypatch.setattr(pruning, "WORTH_TOKENS", 100)
    used = {"prompt_tokens": 100_000, "completion_tokens": 1}
    provider = Provider(calls(("t", {})), calls(("t", {"n": 1})), calls(("t", {"n": 2}), usage=used), says("end"))
    provider.replies.append(says("beside"))
    config = {"compaction": {"prune": True, "buffer": 10}}
    large = tool(lambda context: {"text": "r" * 4_000})
    limit = {"context": 60_000, "output": 10}
    async with Lab(tmp_path, provider, tools={"t": large}, config=config, limit=limit) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        results = [item["content"] for item in provider.requests[3]["messages"] if item["role"] == "tool"]
        assert ["removed to save room" in text for text in results] == [True, True, False]
        assert len(provider.requests) == 4
        stored = str([row.wire for row in await runtime.sessions.messages(session.id, order="asc", limit=10)])
        assert stored.count("r" * 4_000) == 3
        assert "pruning" in (await causes(runtime, session.id))[3]
        await runtime.one_shot.generate(session.id, "what was it?")
        turn, beside = provider.requests[3]["messages"], provider.requests[4]["messages"]
        assert beside[: len(turn)] == turn


async def test_a_fork_prunes_as_its_source_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-322: the results that its source left out stay out, so the first request begins with the same bytes; a fork
    from before the pruning has them all."""
    monkeypatch.setattr(pruning, "KEEP_TOKENS", 100)
    monkeypatch.setattr(pruning, "WORTH_TOKENS", 100)
    used = {"prompt_tokens": 100_000, "completion_tokens": 1}
    steps = [calls(("t", {})), calls(("t", {"n": 1})), calls(("t", {"n": 2}), usage=used)]
    provider = Provider(*steps, says("end"), says("forked"), says("early"))
    config = {"compaction": {"prune": True, "buffer": 10}}
    large = tool(lambda context: {"text": "r" * 4_000})
    limit = {"context": 60_000, "output": 10}
    async with Lab(tmp_path, provider, tools={"t": large}, config=config, limit=limit) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        fork = await runtime.sessions.fork(session.id)
        await say(runtime, fork.id, "on")
        before, after = provider.requests[3]["messages"], provider.requests[4]["messages"]
        assert after[: len(before)] == before
        assert await causes(runtime, fork.id) == [[]]
        rows = await runtime.sessions.messages(session.id, order="asc", limit=10)
        early = await runtime.sessions.fork(session.id, rows[3].id)
        await say(runtime, early.id, "on")
        before, after = provider.requests[2]["messages"], provider.requests[5]["messages"]
        assert after[: len(before)] == before
        assert await causes(runtime, early.id) == [[]]


async def test_the_first_dispatch_of_a_fork_says_why_it_differs(tmp_path: Path) -> None:
    """SES-322: compared with the last dispatch of the source before the boundary."""
    provider = Provider(says("one"), says("two"), says("three"))
    async with Lab(tmp_path, provider, limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "first")
        fork = await runtime.sessions.fork(session.id)
        await runtime.sessions.switch_model(fork.id, OTHER)
        await say(runtime, fork.id, "second")
        assert await causes(runtime, fork.id) == [["model switch"]]


async def test_an_overflow_after_pruning_is_still_recovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CMP-030, SES-165: pruning is no compaction; the provider's overflow may still be answered by one."""
    monkeypatch.setattr(pruning, "KEEP_TOKENS", 100)
    monkeypatch.setattr(pruning, "WORTH_TOKENS", 100)
    used = {"prompt_tokens": 100_000, "completion_tokens": 1}
    steps = [calls(("t", {})), calls(("t", {"n": 1})), calls(("t", {"n": 2}), usage=used)]
    provider = Provider(*steps, overflows(), says("notes"), says("end"))
    config = {"compaction": {"prune": True, "buffer": 10, "keep": {"tokens": 0}}}
    large = tool(lambda context: {"text": "r" * 4_000})
    limit = {"context": 60_000, "output": 10}
    async with Lab(tmp_path, provider, tools={"t": large}, config=config, limit=limit) as runtime:
        session = await new_session(runtime, model=LAB)
        await say(runtime, session.id, "go")
        assert len(provider.requests) == 6
