"""Compaction: when it happens, what it asks and keeps, and that nothing but a complete summary moves the boundary."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import announced, event_types, messages, new_session, tables
from tests.core.session.support_lab import (
    LAB,
    TOO_LONG,
    Lab,
    Provider,
    Reply,
    call,
    calls,
    configure,
    contents,
    ending,
    error_event,
    live,
    overflows,
    roles,
    says,
    tool,
)
from tests.llm.support import chunk, sse

from holdfast.core.runner.budget import characters
from holdfast.core.runner.lowering import lower
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.errors import CompactionFailed, CompactionInUse, Interrupted, NothingToCompact
from holdfast.core.session.transcript import tokens
from holdfast.llm.errors import LLMError
from holdfast.schema.codec import decode_any
from holdfast.schema.prompt import FileAttachment, Prompt
from holdfast.schema.session_message import AssistantMessage, CompactionMessage, ToolError, ToolPart

pytestmark = pytest.mark.anyio

LONG = "word " * 400
SUMMARY = "## Objective\nkeep going"
ROOMY = {"context": 1_000_000, "output": 100}
USED = {"prompt_tokens": 100_000, "completion_tokens": 10}


def quietly(context: object) -> dict[str, Any]:
    return {}


def keep(count: int, **more: object) -> dict[str, Any]:
    return {"compaction": {"buffer": 10, "keep": {"tokens": count}, **more}}


async def talk(runtime: Runtime, session_id: str, *texts: str) -> None:
    for text in texts:
        await runtime.sessions.prompt(session_id, Prompt(text=text))
        await runtime.sessions.wait(session_id)


async def checkpoints(runtime: Runtime, session_id: str) -> list[CompactionMessage]:
    return [item for item in await messages(runtime, session_id) if isinstance(item, CompactionMessage)]


def is_summary(request: dict[str, Any]) -> bool:
    return roles(request) == ["user"] and contents(request)[0].startswith("<conversation>")


@contextmanager
def compacting(runtime: Runtime, session_id: str) -> Iterator[Any]:
    with tables(runtime) as sql:
        yield lambda: sql("select time_compacting from session where id = ?", session_id)[0][0]


# -- when ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "estimate"), [(0, 0), (1, 0), (2, 1), (5, 1), (6, 2), (8, 2), (10, 3)])
def test_the_estimate_counts_four_characters_and_rounds_halves_up(length: int, estimate: int) -> None:
    """CMP-002: a half is rounded up, not to the even number."""
    assert tokens(length) == estimate


async def test_the_estimate_counts_characters_not_bytes(tmp_path: Path) -> None:
    """CMP-002, trap: text outside ASCII weighs by its characters. The same number of characters must estimate the same
    whatever their encoding."""
    estimates = []
    for letter in ("a", "é", "漢"):
        provider = Provider()
        async with Lab(tmp_path / letter.encode().hex(), provider, limit=ROOMY) as runtime:
            session = await new_session(runtime, model=LAB)
            await talk(runtime, session.id, letter * 3000)
            rows = await runtime.store.active_history(session.id)
            estimates.append(sum(characters(item) for item in lower([rows[0].decode()], LAB)))
    assert len(set(estimates)) == 1, estimates


@pytest.mark.parametrize(("spare", "compacts"), [(1, False), (0, False), (-1, True)])
async def test_compaction_starts_only_when_the_estimate_exceeds_the_window_less_the_reserve(
    tmp_path: Path, spare: int, compacts: bool
) -> None:
    """CMP-001, CMP-003, CMP-007, CMP-008, CMP-051: the provider counted the last turn; what came since is estimated.
    Equality does not trigger, one token more does. The prompt just promoted is part of the estimate, and of the request
    afterwards."""
    provider = Provider(says("x", usage={"prompt_tokens": 50_000, "completion_tokens": 0}), says("x"), says("y"))
    gate = provider.hold(0)
    async with Lab(tmp_path, provider, config=keep(0), limit={"context": 10**7, "output": 100}) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text=LONG))
        await provider.seen(1)
        await runtime.sessions.prompt(session.id, Prompt(text="two" * 1000))
        gate.set()
        await runtime.sessions.wait(session.id)
        rows = await runtime.store.active_history(session.id)
        added = lower([row.decode() for row in rows[1:3]], LAB)
        grown = tokens(sum(characters(item) for item in added))
    estimate = 50_000 + grown
    again = Provider(*provider.replies[:1], says(SUMMARY), says("y"))
    gate = again.hold(0)
    limit = {"context": estimate + 100 + spare, "output": 100}
    async with Lab(tmp_path / "again", again, config=keep(0), limit=limit) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text=LONG))
        await again.seen(1)
        await runtime.sessions.prompt(session.id, Prompt(text="two" * 1000))
        gate.set()
        await runtime.sessions.wait(session.id)
        assert is_summary(again.requests[1]) is compacts
        types = await event_types(runtime, session.id)
        assert types.count("compaction.ended") == int(compacts)
        if compacts:
            assert "twotwo" not in contents(again.requests[1])[0]
            assert types.index("compaction.started") > max(i for i, t in enumerate(types) if t == "prompted")
            assert roles(again.requests[2]) == ["system", "user", "user"]
            assert contents(again.requests[2])[-1] == "two" * 1000


async def test_the_reserve_is_the_larger_of_output_and_buffer(tmp_path: Path) -> None:
    """CMP-003, CMP-004: the default buffer of 20 000 tokens alone triggers what the output allowance would not."""
    used = {"prompt_tokens": 81_000, "completion_tokens": 0}
    for name, config, compacts in (("default", {}, True), ("small", keep(0), False)):
        provider = Provider(calls(("t", {}), text=LONG, usage=used), *[says(SUMMARY)] * 3)
        limit = {"context": 100_000, "output": 5_000}
        settings = {"compaction": {"keep": {"tokens": 0}, **config.get("compaction", {})}}
        async with Lab(tmp_path / name, provider, tools={"t": tool(quietly)}, config=settings, limit=limit) as runtime:
            session = await new_session(runtime, model=LAB)
            await talk(runtime, session.id, LONG)
            assert any(map(is_summary, provider.requests)) is compacts, name


@pytest.mark.parametrize(
    ("limit", "compaction", "auto"),
    [
        ({"context": 0, "output": 0}, {}, False),
        ({"context": 60_000, "output": 10}, {"auto": False}, False),
        ({"context": 60_000, "output": 10}, {}, True),
    ],
    ids=["unknown window", "auto is off", "auto is on"],
)
async def test_an_unknown_window_or_auto_false_disables_estimated_compaction(
    tmp_path: Path, limit: dict[str, int], compaction: dict[str, Any], auto: bool
) -> None:
    """CMP-005, CMP-006, CMP-058: an unknown window and `auto = false` disable the path by estimate; what the provider
    refuses is recovered."""
    provider = Provider(calls(("t", {}), text=LONG, usage=USED), *[says(SUMMARY)] * 3)
    config = keep(0, **compaction)
    async with Lab(tmp_path, provider, tools={"t": tool(quietly)}, config=config, limit=limit) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        assert any(map(is_summary, provider.requests)) is auto
        count = len(provider.requests)
        provider.replies[count:] = [overflows(), says(SUMMARY), says("after")]
        await talk(runtime, session.id, LONG)
        assert is_summary(provider.requests[-2])
        assert len(provider.requests) - count == 3


async def test_configuration_is_read_for_each_turn(tmp_path: Path) -> None:
    """CMP-008, CMP-004: a file that changes while a drain runs counts from the next turn on; later documents win field
    by field."""
    provider = Provider(calls(("t", {}), text=LONG, usage=USED), *[says(SUMMARY)] * 3)
    limit = {"context": 60_000, "output": 10}

    def change() -> dict[str, Any]:
        configure(tmp_path, keep(0, auto=True), limit)
        return {}

    async def act(context: object) -> dict[str, Any]:
        async with runtime.locations.use(runtime.location) as services:
            change()
            await services.config.reload()
        return {}

    async with Lab(tmp_path, provider, tools={"t": tool(act)}, config=keep(0, auto=False), limit=limit) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        assert is_summary(provider.requests[1])


async def test_at_most_one_automatic_compaction_per_turn(tmp_path: Path) -> None:
    """CMP-009, CMP-035: system text and tools alone are over the budget. With older history it compacts once; then it
    sends what it has."""
    provider = Provider(says("one"), says(SUMMARY), says("two"), says("never"))
    config = {"compaction": {"buffer": 5_000, "keep": {"tokens": 0}}}
    async with Lab(tmp_path, provider, config=config, limit={"context": 6_000, "output": 10}) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG, LONG)
        summaries = [is_summary(request) for request in provider.requests]
        assert summaries == [False, True, False]
        users = [item for item in await messages(runtime, session.id) if isinstance(item, AssistantMessage)]
        assert [item.finish for item in users] == ["stop", "stop"]


async def test_an_overflow_after_a_compaction_ends_the_turn(tmp_path: Path) -> None:
    """CMP-009, CMP-031: the estimate compacted before sending, so that the provider's refusal compacts no more,
    although the recent messages could be summarised too."""
    provider = Provider(says("one"), says(SUMMARY), overflows(), says(SUMMARY), says("never"))
    async with Lab(tmp_path, provider, config=keep(20), limit={"context": 10_000, "output": 10}) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG * 10, LONG * 10)  # 5,000 tokens each
        assert [is_summary(request) for request in provider.requests] == [False, True, False]
        (checkpoint,) = await checkpoints(runtime, session.id)
        assert checkpoint.recent
        types = await event_types(runtime, session.id)
        assert (types.count("compaction.started"), types.count("step.failed")) == (1, 1)
        assert await runtime.sessions.interrupted() == []


async def test_a_summary_that_is_not_smaller_is_discarded(tmp_path: Path) -> None:
    """CMP-009, CMP-010, CMP-029: the attempt ends as failed, the history stays, the turn is sent as it was."""
    provider = Provider(says("one"), overflows(), says("s" * 9000))
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, "short", "again")
        types = await event_types(runtime, session.id)
        assert types.count("compaction.failed") == types.count("compaction.started") == 1
        assert await checkpoints(runtime, session.id) == []
        last = (await messages(runtime, session.id))[-1]
        assert isinstance(last, AssistantMessage)
        assert last.error is not None
        assert "maximum context length" in last.error.message


# -- what ------------------------------------------------------------------------------------------------------------


async def test_a_summary_is_measured_against_what_it_spares_the_model(tmp_path: Path) -> None:
    """CMP-009, CMP-014, CMP-043: large results are cut for the one who summarises, not for the one who is sent them."""
    provider = Provider(calls(("t", {})), says("done"), says("note " * 800))
    large = tool(lambda context: {"text": "x" * 20_000})
    async with Lab(tmp_path, provider, tools={"t": large}, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, "go")
        await runtime.sessions.compact(session.id)
        made = await runtime.sessions.checkpoint(session.id)
        assert made is not None
        assert made.tokens_after < 1_200 < 5_000 < made.tokens_before


async def test_the_summary_request_is_one_user_message_without_tools(tmp_path: Path) -> None:
    """CMP-018, CMP-019, CMP-020, SES-097: one user message, no system text, no tools, the Session's headers, at most
    4 096 tokens; the conversation first and the instructions last, with every section in its order."""
    provider = Provider(says("one"), says(SUMMARY))
    async with Lab(tmp_path, provider, config=keep(0), limit={"context": 1_000_000, "output": 9_000}) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        await runtime.sessions.compact(session.id, "mind the tests")
        asked = provider.requests[1]
        assert (roles(asked), "tools" in asked, asked["model"]) == (["user"], False, "m")
        assert (asked.get("max_tokens") or asked.get("max_completion_tokens")) == 4096
        assert provider.headers[1]["x-session-id"] == provider.headers[0]["x-session-id"] == session.id
        text = contents(asked)[0]
        assert text.startswith("<conversation>\n[User]: word")
        assert "<prior-summary>" not in text
        sections = ["Objective", "Important Details", "Completed", "Active", "Blocked", "Next Move", "Relevant Files"]
        places = [text.index(f"# {section}") for section in sections]
        assert places == sorted(places)
        assert text.index("</conversation>") < places[0]
        assert text.rindex("mind the tests") > places[-1]


async def test_another_model_may_write_the_summary(tmp_path: Path) -> None:
    """CMP-026, CMP-018: the one that is chosen for the `compaction` agent, within its own limits; turns keep theirs."""
    provider = Provider(says(LONG), says(SUMMARY), says("after"))
    config = {**keep(0), "agents": {"compaction": {"model": "lab/other"}}}
    async with Lab(tmp_path, provider, config=config, limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, "hi")
        await runtime.sessions.compact(session.id)
        await talk(runtime, session.id, "next")
        assert [request["model"] for request in provider.requests] == ["m", "other", "m"]
        assert [headers.get("x-session-id") for headers in provider.headers] == [session.id] * 3
        (made,) = await checkpoints(runtime, session.id)
        assert made.summary == SUMMARY


async def test_a_small_output_limit_bounds_the_summary_too(tmp_path: Path) -> None:
    """CMP-018: at most what the model may say."""
    provider = Provider(says("one"), says(SUMMARY))
    async with Lab(tmp_path, provider, config=keep(0), limit={"context": 1_000_000, "output": 900}) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        await runtime.sessions.compact(session.id)
        asked = provider.requests[1]
        assert (asked.get("max_tokens") or asked.get("max_completion_tokens")) == 900


async def test_the_tail_is_kept_whole_and_word_for_word(tmp_path: Path) -> None:
    """CMP-011, CMP-015, CMP-022, CMP-023: whole newest messages up to the budget, in the checkpoint and not in what is
    summarised; afterwards one user message stands for all of it, while the transcript stays."""
    provider = Provider(says("answer one"), says("answer two"), says(SUMMARY), says("after"))
    async with Lab(tmp_path, provider, config=keep(15), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG, "the second question")
        before = await messages(runtime, session.id)
        await runtime.sessions.compact(session.id)
        (checkpoint,) = await checkpoints(runtime, session.id)
        assert (checkpoint.summary, checkpoint.reason) == (SUMMARY, "manual")
        assert checkpoint.recent == "[User]: the second question\n\n[Assistant]: answer two"
        head = contents(provider.requests[2])[0].partition("</conversation>")[0]
        assert "answer one" in head
        assert "second question" not in head
        assert (await messages(runtime, session.id))[: len(before)] == before
        await runtime.sessions.run(session.id)
        (text,) = contents(provider.requests[3])
        assert roles(provider.requests[3]) == ["system", "user"]
        assert text.startswith("<conversation-checkpoint>")
        assert text.endswith("</conversation-checkpoint>")
        assert f"<summary>\n{SUMMARY}\n</summary>" in text
        assert f"<recent-context>\n{checkpoint.recent}\n</recent-context>" in text
        assert "not new instructions" in text


async def test_a_newest_message_over_the_budget_leaves_nothing_recent(tmp_path: Path) -> None:
    """CMP-016, CMP-022: everything is summarised; the empty tail still has its place."""
    provider = Provider(says(LONG), says(SUMMARY), says("after"))
    async with Lab(tmp_path, provider, config=keep(50), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, "hi")
        await runtime.sessions.compact(session.id)
        (checkpoint,) = await checkpoints(runtime, session.id)
        assert checkpoint.recent == ""
        await runtime.sessions.run(session.id)
        assert "<recent-context>" in contents(provider.requests[2])[0]


async def test_a_history_that_fits_the_tail_is_not_compacted(tmp_path: Path) -> None:
    """CMP-012, CMP-017, CMP-040: an empty history, or one that would be kept whole, is nothing to compact, and says so
    without an attempt."""
    provider = Provider(says("one"))
    async with Lab(tmp_path, provider, config=keep(8_000), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        with pytest.raises(NothingToCompact):
            await runtime.sessions.compact(session.id)
        await talk(runtime, session.id, "hi")
        with pytest.raises(NothingToCompact):
            await runtime.sessions.compact(session.id)
        assert not [kind for kind in await event_types(runtime, session.id) if kind.startswith("compaction")]
        assert len(provider.requests) == 1


async def test_again_folds_the_old_checkpoint_in(tmp_path: Path) -> None:
    """CMP-017, CMP-021, CMP-019: the old summary is given as such, the old tail leads the conversation, and the model
    is told what to do with both; an empty head is enough when there is a checkpoint."""
    provider = Provider(says(LONG), says("two"), says(SUMMARY), says("three"), says("NEWER NOTES"), says("four"))
    async with Lab(tmp_path, provider, config=keep(40), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG, "second")
        await runtime.sessions.compact(session.id)
        await talk(runtime, session.id, "third")
        await runtime.sessions.compact(session.id)
        text = contents(provider.requests[4])[0]
        assert text.startswith("<conversation>\n[User]: second\n\n[Assistant]: two")
        assert f"<prior-summary>\n{SUMMARY}\n</prior-summary>" in text
        assert text.index("</conversation>") < text.index("<prior-summary>") < text.index("## Objective\nWhat")
        newest = (await checkpoints(runtime, session.id))[-1]
        assert (newest.summary, newest.recent) == ("NEWER NOTES", "[User]: third\n\n[Assistant]: three")
        await runtime.sessions.run(session.id)
        assert len(contents(provider.requests[5])) == 1
        assert SUMMARY not in contents(provider.requests[5])[0]


async def test_each_kind_of_message_has_its_form_in_the_transcript(tmp_path: Path) -> None:
    """CMP-013, CMP-014: the labels, the cut bodies; a switch says nothing, and pictures are named, not quoted."""
    long = "r" * 5_000
    provider = Provider(
        Reply(
            [
                sse(chunk({"reasoning_content": "thinking"})),
                sse(chunk({"content": "looking"})),
                *calls(("good", {}), ("bad", {})).pieces,
            ]
        ),
        says("done"),
        says(SUMMARY),
    )

    def bad(context: object) -> dict[str, Any]:
        raise RuntimeError("inner secret")

    tools = {"good": tool(lambda context: {"text": long}), "bad": tool(bad)}
    async with Lab(tmp_path, provider, tools=tools, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.switch_agent(session.id, "quick")
        picture = Prompt(text="see", files=(_picture(),))
        await runtime.sessions.prompt(session.id, picture)
        await runtime.sessions.wait(session.id)
        await runtime.sessions.compact(session.id)
        text = contents(provider.requests[2])[0].partition("</conversation>")[0]
        assert "[User]: see\n[Attached image/png: dot.png]" in text
        assert "[Assistant reasoning]: thinking" in text
        assert "[Assistant]: looking" in text
        assert "[Assistant tool call]: good({})" in text
        assert "[Tool error]: Tool execution failed" in text
        start = text.index("[Tool result]: ") + len("[Tool result]: ")
        body, _, _ = text[start:].partition("\n[truncated]")
        assert len(body) == 2_000
        assert "base64" not in text
        assert "quick" not in text


def _picture() -> FileAttachment:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    return FileAttachment(uri=f"data:image/png;base64,{dot}", mime="image/png", name="dot.png")


async def test_a_conversation_too_long_for_one_prompt_is_summarised_in_passes(tmp_path: Path) -> None:
    """CMP-025: each pass fits the window and starts from the notes of the one before; the last notes are the
    summary."""
    provider = Provider(*[says("a " * 4_000)] * 3, *[says(f"notes {number}") for number in range(12)])
    async with Lab(tmp_path, provider, config=keep(0, auto=False), limit={"context": 7_000, "output": 500}) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, *["q " * 4_000] * 3)
        await runtime.sessions.compact(session.id)
        asked = [contents(request)[0] for request in provider.requests if is_summary(request)]
        assert len(asked) > 1
        assert all(tokens(len(text)) <= 7_000 - 500 for text in asked)
        for number, text in enumerate(asked[1:]):
            assert f"<prior-summary>\nnotes {number}\n" in text
        (checkpoint,) = await checkpoints(runtime, session.id)
        assert checkpoint.summary == f"notes {len(asked) - 1}"


async def test_history_that_fits_no_summary_request_is_left_out_with_a_mark(tmp_path: Path) -> None:
    """CMP-025: the oldest part goes, with a mark where it was, and the number of requests is bounded."""
    provider = Provider(*[says("x")] * 3, *[says("notes")] * 40)
    async with Lab(tmp_path, provider, config=keep(0, auto=False), limit={"context": 6_000, "output": 500}) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, *["q " * 60_000] * 3)
        await runtime.sessions.compact(session.id)
        asked = [contents(request)[0] for request in provider.requests if is_summary(request)]
        assert 1 < len(asked) <= 10
        assert "left out" in asked[0]


# -- events and control flow -----------------------------------------------------------------------------------------


async def test_an_overflow_costs_three_requests(tmp_path: Path) -> None:
    """CMP-030, CMP-031, CMP-034, CMP-027, CMP-007, SES-129: overflow, summary, retry of the same turn; a steer that
    arrives meanwhile waits for the next boundary."""
    provider = Provider(says("one"), overflows(), says(SUMMARY), says("made it"), says("steered"))
    gate = provider.hold(2)
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        await runtime.sessions.prompt(session.id, Prompt(text="second"))
        await provider.seen(3)
        await runtime.sessions.prompt(session.id, Prompt(text="meanwhile"))
        gate.set()
        await runtime.sessions.wait(session.id)
        assert is_summary(provider.requests[2])
        assert contents(provider.requests[3])[1:] == ["second"]
        assert contents(provider.requests[4])[-1] == "meanwhile"
        assert len(provider.requests) == 5
        types = await event_types(runtime, session.id)
        assert types.count("step.failed") == 0
        started, ended = types.index("compaction.started"), types.index("compaction.ended")
        assert started < ended < types.index("step.started", ended)
        stored = await runtime.log.serialized(session.id, limit=1000)
        ids = [item["messageID"] for item in _data(stored, "compaction.")]
        assert len(set(ids)) == 1
        (checkpoint,) = await checkpoints(runtime, session.id)
        assert (checkpoint.id, checkpoint.reason) == (ids[0], "auto")


def _data(stored: Any, part: str) -> list[dict[str, Any]]:
    return [decode_any(event.data) for event in stored if f".{part}" in event.type]


@pytest.mark.parametrize("raw", [True, False], ids=["refused", "reported in the stream"])
async def test_a_second_overflow_is_how_the_turn_ends(tmp_path: Path, raw: bool) -> None:
    """CMP-031, CMP-032: recovered once, never twice; a raw failure is raised as well."""
    over = overflows() if raw else Reply([error_event(TOO_LONG, code="context_length_exceeded")])
    provider = Provider(says("one"), over, says(SUMMARY), over, says("never"))
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        await runtime.sessions.prompt(session.id, Prompt(text="second"), resume=False)
        if raw:
            with pytest.raises(LLMError):
                await runtime.sessions.run(session.id)
        else:
            await runtime.sessions.run(session.id)
        assert len(provider.requests) == 4
        types = await event_types(runtime, session.id)
        assert types.count("step.failed") == 1
        assert await runtime.sessions.interrupted() == []


async def test_an_overflow_that_cannot_be_recovered_is_recorded_as_it_was(tmp_path: Path) -> None:
    """CMP-032, CMP-012: nothing to summarise; the original error is the step's and the caller's."""
    provider = Provider(overflows())
    async with Lab(tmp_path, provider, config=keep(8_000), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="hi"), resume=False)
        with pytest.raises(LLMError, match="maximum context length"):
            await runtime.sessions.run(session.id)
        last = (await messages(runtime, session.id))[-1]
        assert isinstance(last, AssistantMessage)
        assert last.error is not None
        assert "maximum context length" in last.error.message
        assert len(provider.requests) == 1


async def test_an_overflow_after_output_is_never_recovered(tmp_path: Path) -> None:
    """CMP-033: what was said and done stands, and is not done again."""
    done: list[str] = []
    late = Reply(
        [sse(chunk({"content": "partly"})), call(0, "t"), error_event(TOO_LONG, code="context_length_exceeded")]
    )
    provider = Provider(says("one"), late, says(SUMMARY))
    acts = tool(lambda context: done.append(context.tool_call_id))
    async with Lab(tmp_path, provider, tools={"t": acts}, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG, "second")
        assert len(provider.requests) == 2
        assert len(done) <= 1
        types = await event_types(runtime, session.id)
        assert (types.count("step.failed"), types.count("compaction.started")) == (1, 0)


@pytest.mark.parametrize(
    "summary",
    [
        Reply([error_event("overloaded")]),
        says("   "),
        Reply([sse(chunk({"reasoning_content": "only thinking"})), *ending()]),
        Reply([sse(chunk({"content": "half"}))]),
        Reply([sse(chunk({"content": "half"})), error_event("overloaded")]),
    ],
    ids=["provider error", "blank", "only reasoning", "broken off", "text before a provider error"],
)
async def test_a_failed_attempt_leaves_everything_as_it_was(tmp_path: Path, summary: Reply) -> None:
    """CMP-029, CMP-010, CMP-032, CMP-041: a terminal failure event, no checkpoint, the boundary where it was, the mark
    of compacting gone."""
    provider = Provider(says("one"), summary, says("after"))
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        before = [row.wire for row in await runtime.sessions.context(session.id)]
        with pytest.raises(CompactionFailed):
            await runtime.sessions.compact(session.id)
        types = await event_types(runtime, session.id)
        assert (types.count("compaction.failed"), types.count("compaction.ended")) == (1, 0)
        assert [row.wire for row in await runtime.sessions.context(session.id)] == before
        with compacting(runtime, session.id) as mark:
            assert mark() is None
        await talk(runtime, session.id, "next")
        assert contents(provider.requests[2]) == [LONG, "next"]


async def test_a_defect_ends_the_attempt_too(tmp_path: Path) -> None:
    """CMP-029, CMP-041: whatever ends it, a started attempt has its end at once; the one who asked hears of it."""
    provider = Provider(says("one"), Reply([sse(chunk({"content": "half"})), KeyError("a defect")]))
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        with pytest.raises(KeyError, match="a defect"):
            await runtime.sessions.compact(session.id)
        types = await event_types(runtime, session.id)
        assert (types.count("compaction.failed"), types.count("compaction.ended")) == (1, 0)
        with compacting(runtime, session.id) as mark:
            assert mark() is None


async def test_a_failed_automatic_attempt_lets_the_turn_go_on(tmp_path: Path) -> None:
    """CMP-010: the pending turn proceeds uncompacted."""
    provider = Provider(calls(("t", {}), text=LONG, usage=USED), Reply([error_event("no")]), says("went on"))
    limit = {"context": 60_000, "output": 10}
    async with Lab(tmp_path, provider, tools={"t": tool(quietly)}, config=keep(0), limit=limit) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        assert is_summary(provider.requests[1])
        assert contents(provider.requests[2]) == [LONG]
        last = (await messages(runtime, session.id))[-1]
        assert isinstance(last, AssistantMessage)
        assert last.finish == "stop"


async def test_deltas_status_and_time_while_the_summary_streams(tmp_path: Path) -> None:
    """CMP-028, CMP-041, SES-209: the summary is heard as it comes; the Session is busy, marked and waiting for it."""
    gate = asyncio.Event()
    streaming = Reply([sse(chunk({"content": "the "})), sse(chunk({"content": "notes"})), gate, *ending()])
    provider = Provider(says("one"), streaming)
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime, announced(runtime) as heard:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        heard.clear()
        compact = asyncio.create_task(runtime.sessions.compact(session.id))
        await provider.seen(2)
        with compacting(runtime, session.id) as mark:
            assert mark() is not None
            assert [wait.kind for wait in await runtime.sessions.waits(session.id)] == ["compaction"]
            assert await runtime.sessions.active() == [session.id]
            gate.set()
            await compact
            await runtime.sessions.wait(session.id)
            assert mark() is None
        deltas = live(heard, "session.next.compaction.delta")
        assert "".join(delta["text"] for delta in deltas) == "the notes"
        assert [item["status"]["type"] for item in live(heard, "session.status")] == ["busy", "idle"]
        stored, _ = await runtime.sessions.history(session.id, limit=100)
        assert not [event for event in stored if event.type.endswith("compaction.delta")]


async def test_interrupting_the_summary_ends_the_drain(tmp_path: Path) -> None:
    """CMP-036, CMP-029, CMP-010, CMP-041: the call is cut, no checkpoint, one failure event, and nothing more is
    sent."""
    provider = Provider(says("one"), overflows(), says(SUMMARY))
    provider.hold(2)
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        await runtime.sessions.prompt(session.id, Prompt(text="second"), resume=False)
        joined = asyncio.create_task(runtime.sessions.run(session.id))
        await provider.seen(3)
        await runtime.sessions.interrupt(session.id)
        with pytest.raises(Interrupted):
            await joined
        types = await event_types(runtime, session.id)
        assert (types.count("compaction.failed"), types.count("compaction.ended")) == (1, 0)
        assert len(provider.requests) == 3
        with compacting(runtime, session.id) as mark:
            assert mark() is None
        await runtime.sessions.run(session.id)  # what was refused once is compacted first
        assert LONG in contents(provider.requests[3])[0]
        assert contents(provider.requests[4])[1:] == ["second"]
        assert await runtime.verify() == []


async def test_an_interrupted_recovery_leaves_no_turn_open(tmp_path: Path) -> None:
    """SES-139, CMP-036: the user stopped it here; nothing is left for a later process to decide."""
    provider = Provider(says("one"), overflows(), says(SUMMARY))
    provider.hold(2)
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        await runtime.sessions.prompt(session.id, Prompt(text="second"))
        await provider.seen(3)
        await runtime.sessions.interrupt(session.id)
        assert await runtime.sessions.interrupted() == []
        assert await runtime.sessions.waits(session.id) == []


async def test_every_caller_hears_of_an_interruption(tmp_path: Path) -> None:
    """CMP-040, CMP-036, SES-070: two asked to compact; stopping the first tells the second too."""
    provider = Provider(says(LONG))
    provider.hold(1)
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, "hi")
        callers = {asyncio.create_task(runtime.sessions.compact(session.id)) for _ in range(2)}
        await provider.seen(2)
        await runtime.sessions.interrupt(session.id)
        await _all_interrupted(runtime, callers)


async def test_compacting_while_the_runtime_closes_is_an_interruption(tmp_path: Path) -> None:
    """CMP-040, SES-072: nothing starts after the shutdown, and nobody waits for it; else closing never ends."""
    async with Lab(tmp_path, Provider(), config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.execution.close()
        await _all_interrupted(runtime, {asyncio.create_task(runtime.sessions.compact(session.id))})


async def _all_interrupted(runtime: Runtime, callers: set[asyncio.Task[None]]) -> None:
    done, hanging = await asyncio.wait(callers, timeout=20)
    for task in (*hanging, *runtime.sessions._ongoing):
        task.cancel()
    await asyncio.sleep(0)
    assert not hanging
    assert {type(task.exception()) for task in done} == {Interrupted}


async def test_compacting_by_hand_waits_for_its_turn_and_takes_none(tmp_path: Path) -> None:
    """CMP-040, CMP-038: serialised with the drain, reason `manual`, no turn afterwards; pending input, totals of steps
    and todos are untouched."""
    provider = Provider(says(LONG), says(SUMMARY), says("never"))
    gate = provider.hold(0)
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="hi"))
        await provider.seen(1)
        compact = asyncio.create_task(runtime.sessions.compact(session.id))
        await asyncio.sleep(0)
        assert len(provider.requests) == 1
        gate.set()
        await compact
        await runtime.sessions.wait(session.id)
        assert [is_summary(request) for request in provider.requests] == [False, True]
        assert [item.reason for item in await checkpoints(runtime, session.id)] == ["manual"]


async def test_the_summary_is_paid_for(tmp_path: Path) -> None:
    """CMP-038: its tokens count in the Session's totals, and it is no step."""
    used = {"prompt_tokens": 70, "completion_tokens": 7}
    provider = Provider(says(LONG, usage={"prompt_tokens": 10, "completion_tokens": 1}), says(SUMMARY, usage=used))
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, "hi")
        await runtime.sessions.compact(session.id)
        after = await runtime.sessions.get(session.id)
        assert (after.tokens.input, after.tokens.output) == (80, 8)
        assert after.revert is None
        types = await event_types(runtime, session.id)
        assert types.count("step.ended") == 1


@pytest.mark.parametrize(
    ("summary", "failures"),
    [
        (says(SUMMARY, usage={"prompt_tokens": 700, "completion_tokens": 7}), {}),
        (says("   "), {"empty": 1}),
        (says(LONG * 2), {"not smaller": 1}),
        (Reply([error_event("overloaded: sk-secret")]), {"provider": 1}),
        (Reply([sse(chunk({"content": "half"}))]), {"provider": 1}),
    ],
    ids=["made", "blank", "too long", "provider error", "broken off"],
)
async def test_each_compaction_attempt_is_measured(tmp_path: Path, summary: Reply, failures: dict[str, int]) -> None:
    """CMP-042: estimate and reported tokens, time per attempt, sizes of head and tail, failures by cause; no text."""
    provider = Provider(says("one"), summary)
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        with suppress(CompactionFailed):
            await runtime.sessions.compact(session.id)
        measured = {name: of for name, of in runtime.metrics.read().items() if name.startswith("compaction.")}

    assert {cause: series["times"] for cause, series in measured.pop("compaction.failure", {}).items()} == failures
    assert measured["compaction.duration"]["manual"]["times"] == 1
    assert measured["compaction.head.tokens"][""]["total"] >= tokens(len(LONG))
    assert measured["compaction.recent.tokens"][""] == {"times": 1, "total": 0, "largest": 0}
    if not failures:
        assert measured["compaction.prompt.reported"][""]["total"] == 700
        assert measured["compaction.prompt.estimated"][""]["total"] == tokens(len(contents(provider.requests[1])[0]))
    assert "secret" not in str(measured)


async def test_a_pending_input_without_a_wake_survives_compaction(tmp_path: Path) -> None:
    """CMP-040, CMP-038, SES-077: compacting by hand starts no turn, so input admitted only to be kept stays pending."""
    provider = Provider(says(LONG), says(SUMMARY))
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, "hi")
        await runtime.sessions.prompt(session.id, Prompt(text="later"), resume=False)
        await runtime.sessions.compact(session.id)
        await runtime.sessions.wait(session.id)
        assert [item.prompt.text for item in await runtime.sessions.pending(session.id)] == ["later"]
        assert len(provider.requests) == 2


async def test_a_checkpoint_can_be_inspected_and_undone(tmp_path: Path) -> None:
    """CMP-043, CMP-024, SES-150: what it replaced, how much smaller it is; undone while nothing followed, and then the
    next request carries the old history again, with a fresh baseline."""
    provider = Provider(says("one"), says(SUMMARY), says("after"))
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        assert await runtime.sessions.checkpoint(session.id) is None
        await talk(runtime, session.id, LONG)
        before = [item.id for item in await messages(runtime, session.id)]
        await runtime.sessions.compact(session.id)
        seen = await runtime.sessions.checkpoint(session.id)
        assert seen is not None
        assert (list(seen.replaced), seen.summary, seen.reason) == (before, SUMMARY, "manual")
        assert seen.tokens_after < seen.tokens_before
        await runtime.sessions.undo_compaction(session.id)
        assert await runtime.sessions.checkpoint(session.id) is None
        await runtime.sessions.run(session.id)
        assert contents(provider.requests[2]) == [LONG]
        assert await runtime.verify() == []
        with pytest.raises(NothingToCompact):
            await runtime.sessions.undo_compaction(session.id)


async def test_a_checkpoint_in_use_stays(tmp_path: Path) -> None:
    """CMP-043: once something was promoted or said after it, undoing is refused."""
    provider = Provider(says("one"), says(SUMMARY), says("after"))
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        await runtime.sessions.compact(session.id)
        await talk(runtime, session.id, "next")
        with pytest.raises(CompactionInUse):
            await runtime.sessions.undo_compaction(session.id)
        assert len(await checkpoints(runtime, session.id)) == 1


async def test_after_it_the_baseline_is_fresh(tmp_path: Path) -> None:
    """CMP-024, CMP-039, SES-151: what changed since is in the new baseline, no system message of the old epoch remains
    in the request, and replaying the log gives the same checkpoint."""
    provider = Provider(says("one"), says("two"), says(SUMMARY), says("three"))
    async with Lab(tmp_path, provider, config=keep(0), limit=ROOMY) as runtime:
        rules = runtime.directory / "AGENTS.md"
        rules.write_text("RULE ONE\n", encoding="utf-8")
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG)
        rules.write_text("RULE TWO\n", encoding="utf-8")
        await talk(runtime, session.id, "second")
        assert "RULE TWO" in str(provider.requests[1]["messages"][1:])
        await runtime.sessions.compact(session.id)
        await talk(runtime, session.id, "third")
        system, *rest = provider.requests[3]["messages"]
        assert "RULE TWO" in system["content"]
        assert "RULE ONE" not in system["content"]
        assert [message["role"] for message in rest] == ["user", "user"]
        context = [row.wire for row in await runtime.sessions.context(session.id)]
        await runtime.rebuild()
        assert [row.wire for row in await runtime.sessions.context(session.id)] == context
        assert await runtime.verify() == []


async def test_tool_calls_do_not_cross_the_boundary(tmp_path: Path) -> None:
    """CMP-011: no native assistant, reasoning or tool message goes to the model after it."""
    provider = Provider(calls(("t", {}), text="calling"), says("done"), says(SUMMARY), says("after"))
    async with Lab(tmp_path, provider, tools={"t": tool(quietly)}, config=keep(1_000), limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB)
        await talk(runtime, session.id, LONG * 3)
        await runtime.sessions.compact(session.id)
        await runtime.sessions.run(session.id)
        assert roles(provider.requests[3]) == ["system", "user"]
        assert "[Assistant tool call]: t({})" in contents(provider.requests[3])[0]


async def test_an_overflow_rebuild_costs_no_step(tmp_path: Path) -> None:
    """SES-085, CMP-034: with two steps, an overflow on the first still leaves a turn with tools before the last."""
    provider = Provider(says("one"), overflows(), says(SUMMARY), calls(("t", {})), says("last"))
    config = {**keep(0), "agents": {"quick": {"mode": "all", "steps": 2}}}
    async with Lab(tmp_path, provider, tools={"t": tool(quietly)}, config=config, limit=ROOMY) as runtime:
        session = await new_session(runtime, model=LAB, agent="quick")
        await talk(runtime, session.id, LONG, "second")
        assert "tools" in provider.requests[3]
        assert "tools" not in provider.requests[4]
        found = [
            part
            for item in await messages(runtime, session.id)
            if isinstance(item, AssistantMessage)
            for part in item.content
            if isinstance(part, ToolPart)
        ]
        assert not [part for part in found if isinstance(part.state, ToolError)]
