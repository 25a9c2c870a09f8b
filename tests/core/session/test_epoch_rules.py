"""Context Epochs as the runner keeps them: when one begins, what stays through a switch, and what ends it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import MODEL
from tests.core.conftest import announced, lease_of, tables
from tests.core.context.conftest import Fact
from tests.core.session.support_day import (
    AGENTS,
    OTHER_MODEL,
    Conversation,
    Place,
    begin,
    calling,
    heard,
    history,
    play,
    say,
    states,
    view,
    wrap,
)
from tests.llm.support import sse

from holdfast.core.catalog.family import GENERIC, family_text
from holdfast.core.context import date, instructions, model, nested
from holdfast.core.context.errors import InitializationBlocked
from holdfast.core.context.source import UNAVAILABLE
from holdfast.core.plugin.host import PluginHost
from holdfast.core.plugin.request import RequestDraft
from holdfast.core.runner.lowering import checkpoint
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.scope import Scope
from holdfast.core.session.errors import Interrupted
from holdfast.core.session.interrupt import Interrupt
from holdfast.llm.offline import ScriptedTransport, Turn
from holdfast.llm.route.transport import HttpRequest
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_message import CompactionMessage, SystemMessage, UserMessage

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, agents={"reviewer": {"mode": "all", "system": "You only review."}})


@pytest.fixture
async def runtime(place: Place, model: ScriptedTransport) -> AsyncIterator[Runtime]:
    async with place.runtime(model) as runtime:
        yield runtime


@pytest.fixture
async def fact(runtime: Runtime) -> AsyncIterator[Fact]:
    """A required source of the host's, which every Session is told."""
    fact = Fact("app/fact")
    with Scope() as scope:
        runtime.application_context.register("app/fact", fact.context, scope)
        yield fact


@pytest.fixture
async def session(runtime: Runtime) -> Session:
    return await begin(runtime)


async def updates(runtime: Runtime, session_id: str) -> list[str]:
    return [item.text for item in await history(runtime, session_id) if isinstance(item, SystemMessage)]


# -- beginning ---------------------------------------------------------------------------------------------------


async def test_a_blocked_first_baseline_keeps_the_prompt_and_a_retry_sends_it_once(
    runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact
) -> None:
    """CTX-083, SES-092: no epoch, no request, the prompt pending; the same prompt again becomes one request."""
    fact.lose()
    async with announced(runtime) as heard_of:
        receipt = await runtime.sessions.prompt(session.id, Prompt(text="hello"))
        await runtime.sessions.wait(session.id)
    problems = [item.wire for item in heard_of if item.type == "session.error"]
    assert [b"app/fact" in problem for problem in problems] == [True]
    assert await view(runtime, session.id) == {"status": "not initialized"}
    assert await runtime.sessions.pending(session.id) == [receipt]
    with pytest.raises(InitializationBlocked) as blocked:
        await runtime.sessions.run(session.id)
    assert list(blocked.value.keys) == ["app/fact"]
    assert (model.requests, await history(runtime, session.id)) == ([], [])

    fact.value = "here"
    again = await runtime.sessions.prompt(session.id, Prompt(text="hello"), id=receipt.id)
    await runtime.sessions.wait(session.id)
    assert again.id == receipt.id
    assert len(model.requests) == 1
    assert "fact is here" in model.requests[0]["messages"][0]["content"]
    assert await updates(runtime, session.id) == []


async def test_the_turn_that_begins_an_epoch_observes_once_and_says_nothing_beside_it(
    runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact
) -> None:
    """CTX-084, CTX-027: though the source changes between the baseline and the request."""
    gate = model.hold(0)
    await runtime.sessions.prompt(session.id, Prompt(text="hello"))
    await model.seen(1)
    assert fact.loads == 1
    fact.value = "changed"
    gate.set()
    await runtime.sessions.wait(session.id)
    assert await updates(runtime, session.id) == []
    await say(runtime, session.id, "again")
    assert await updates(runtime, session.id) == ["fact is now changed"]


async def test_parts_stand_in_one_order_whoever_is_slow(
    place: Place, runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """CTX-075, CTX-076: registry, model, skills, references, nested; the Session's own are never in the registry."""
    docs = place.folder / "docs"
    docs.mkdir()
    place.write(AGENTS, "Ambient.\n")
    place.write(f"deep/{AGENTS}", "Nested.\n")
    place.write("deep/file.txt", "text\n")
    async with runtime.locations.use(runtime.location) as services:
        place.configure(references={"docs": {"path": str(docs), "description": "The manual"}})
        await services.config.reload()
        with Scope() as scope:
            services.opened.callback(scope.close)
            services.context._registry.register("core/aaa", Fact("core/slow", "late").context, scope)
            play(model, calling(("read", {"path": "deep/file.txt"})))
            await say(runtime, session.id, "read it")
            await say(runtime, session.id, "and now")
            await runtime.sessions.compact(session.id)
            await say(runtime, session.id, "then")
    seen = [source["key"] for source in (await view(runtime, session.id))["sources"]]
    assert seen == [
        "core/slow",
        "core/environment",
        "core/date",
        "core/instructions",
        "core/model",
        "core/skill-guidance",
        "core/agent-guidance",
        "core/reference-guidance",
        "core/instructions/nested",
    ]
    baseline = model.requests[-1]["messages"][0]["content"]
    marks = ["slow is late", "<env>", "Today", "Ambient.", "selected model", "available_skills", "manual", "Nested."]
    assert sorted(marks, key=baseline.index) == marks


async def test_instructions_found_by_a_read_are_told_at_the_next_boundary(
    place: Place, runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """CTX-155, CTX-157: not inside the running turn, not in the result; once; and not for a read that failed."""
    path = place.write(f"deep/{AGENTS}", "Nested.\n")
    place.write("deep/file.txt", "text\n")
    place.write(f"other/{AGENTS}", "Never.\n")
    play(model, calling(("read", {"path": "other/missing.txt"})), calling(("read", {"path": "deep/file.txt"})))
    await say(runtime, session.id, "read")
    first, second, third = model.requests
    assert [("Nested." in heard(request), "Never." in heard(request)) for request in (first, second, third)] == [
        (False, False),
        (False, False),
        (True, False),
    ]
    result, told = third["messages"][-2:]
    assert "Nested." not in result["content"]
    assert told == {"role": "user", "content": wrap(instructions.HEADING.format(path, "Nested.\n"))}
    await say(runtime, session.id, "again")
    assert heard(model.requests[-1]).count("Nested.") == 1
    assert (await states(runtime, session.id))[nested.KEY] == "current"


# -- the request -------------------------------------------------------------------------------------------------


class Claude:
    """Anthropic's wire format; says `done` to everything."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def send(self, request: HttpRequest) -> Claude:
        self.requests.append(decode_any(b"".join(request.body)))
        return self

    status = 200
    headers = {"content-type": "text/event-stream"}  # noqa: RUF012 - a reply, never changed

    def release(self) -> None:
        pass

    async def chunks(self) -> AsyncIterator[bytes]:
        start = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}}
        yield sse({"type": "message_start", "message": start})
        yield sse({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        yield sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "done"}})
        yield sse({"type": "content_block_stop", "index": 0})
        yield sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}})
        yield sse({"type": "message_stop"})

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("id", ["claude-opus-4-8", "claude-haiku-4-5"])
async def test_an_update_takes_the_native_role_only_where_there_is_one(place: Place, id: str) -> None:
    """CTX-098, CTX-099, CTX-100, CTX-101, SES-154: parts, messages and tools apart; natively for the one model that has
    the role, at its place before the answer; elsewhere, and where another update follows, as one more text part."""
    place.configure(
        providers={
            "claude": {
                "api": {"type": "aisdk", "package": "@ai-sdk/anthropic", "url": "http://claude.invalid/v1"},
                "request": {"body": {"apiKey": "sk-test"}},
                "models": {id: {}},
            }
        }
    )
    claude = Claude()
    async with place.runtime(claude) as runtime:
        session = await begin(runtime, model=ModelRef(id=id, provider_id="claude"))
        await say(runtime, session.id, "one")
        place.write(AGENTS, "A <b> & c.\n")
        await say(runtime, session.id, "two")
        place.write(AGENTS, "D.\n")
        await say(runtime, session.id, "three")
        baseline = (await view(runtime, session.id))["baseline"]
        told = await updates(runtime, session.id)
    last = claude.requests[-1]
    assert [part["text"] for part in last["system"]] == [family_text(id), baseline]
    assert {"read", "bash"} <= {tool["name"] for tool in last["tools"]}
    spoken = [(message["role"], [part["text"] for part in _parts(message)]) for message in last["messages"]]
    if id == "claude-opus-4-8":
        assert spoken[2:] == [
            ("user", ["two"]),
            ("system", [told[0]]),
            ("assistant", ["done"]),
            ("user", ["three"]),
            ("system", [told[1]]),
        ]
    else:
        assert spoken[2:] == [
            ("user", ["two", wrap(told[0])]),
            ("assistant", ["done"]),
            ("user", ["three", wrap(told[1])]),
        ]


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"text": content}] if isinstance(content, str) else content


async def test_a_hook_may_only_add_after_the_baseline_and_nothing_of_it_is_kept(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """CTX-164: appended to this request, absent from the epoch and from the next; what is there cannot be replaced."""

    def append(draft: RequestDraft) -> None:
        draft.system.append("For this turn only.")

    def meddle(draft: RequestDraft) -> None:
        draft.system[:] = ["Forget everything."]

    await say(runtime, session.id, "one")
    baseline = (await view(runtime, session.id))["baseline"]
    async with runtime.locations.use(runtime.location) as services:
        for id, hook in (("append", append), ("meddle", meddle)):
            await services.plugins.add(_plugin(id, hook))
        await say(runtime, session.id, "two")
        assert [problem.id for problem in services.plugins.problems()] == ["meddle"]
        services.plugins.remove("append")
        services.plugins.remove("meddle")
        await say(runtime, session.id, "three")
    systems = [request["messages"][0]["content"] for request in model.requests]
    usual = f"{GENERIC}\n{baseline}"
    assert systems == [usual, f"{usual}\nFor this turn only.", usual]
    assert (await view(runtime, session.id))["baseline"] == baseline
    assert await updates(runtime, session.id) == []


async def test_a_broken_prefix_names_the_hook_that_broke_it(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-213: when a hook adds something, when it adds something else, and when it is gone."""
    said = "Once."

    def append(draft: RequestDraft) -> None:
        draft.system.append(said)

    await say(runtime, session.id, "one")
    async with runtime.locations.use(runtime.location) as services:
        await services.plugins.add(_plugin("append", append))
        await say(runtime, session.id, "two")
        said = "Twice."
        await say(runtime, session.id, "three")
        services.plugins.remove("append")
        await say(runtime, session.id, "four")
    systems = {request["messages"][0]["content"] for request in model.requests}
    assert len(systems) == 3
    breaks = (await view(runtime, session.id))["prefixBreaks"]
    assert [(found["causes"], found["plugins"]) for found in breaks] == 3 * [(["hook"], ["append"])]


def _plugin(id: str, hook: Any) -> Any:
    def setup(host: PluginHost) -> None:
        host.request.transform(hook)

    return SimpleNamespace(id=id, setup=setup)


# -- switching ---------------------------------------------------------------------------------------------------


async def test_a_switch_during_observation_waits_for_the_next_turn(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """CTX-108, SES-091: agent and model are those of the turn's start; it neither restarts nor mixes."""
    observing, go = asyncio.Event(), asyncio.Event()

    class Slow(Fact):
        async def _load(self) -> Any:
            self.loads += 1
            observing.set()
            await go.wait()
            return self.value

    slow = Slow("app/slow")
    with Scope() as scope:
        runtime.application_context.register("app/slow", slow.context, scope)
        await runtime.sessions.prompt(session.id, Prompt(text="one"))
        await observing.wait()
        await runtime.sessions.switch_agent(session.id, "reviewer")
        await runtime.sessions.switch_model(session.id, OTHER_MODEL)
        go.set()
        await runtime.sessions.wait(session.id)
        assert slow.loads == 1
        await say(runtime, session.id, "two")
    first, second = model.requests
    assert [first["model"], second["model"]] == ["echo", "scripted"]
    baseline = (await view(runtime, session.id))["baseline"]
    assert first["messages"][0]["content"] == f"{GENERIC}\n{baseline}"
    assert second["messages"][0]["content"] == f"You only review.\n{baseline}"
    assert model_of(baseline) == ["demo/echo"]
    assert await updates(runtime, session.id) == ["The selected model is now demo/scripted."]


def model_of(text: str) -> list[str]:
    return [name for name in ("demo/echo", "demo/scripted") if model.BASELINE.format(*name.split("/")) in text]


async def test_switching_there_and_back_leaves_the_epoch_alone(
    runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact
) -> None:
    """CTX-109, CTX-110: the same baseline and all that was told, through every switch."""
    await say(runtime, session.id, "one")
    fact.value = "moved"
    await say(runtime, session.id, "two")
    before = await view(runtime, session.id)
    await runtime.sessions.switch_agent(session.id, "reviewer")
    await runtime.sessions.switch_model(session.id, OTHER_MODEL)
    await say(runtime, session.id, "three")
    await runtime.sessions.switch_agent(session.id, "build")
    await runtime.sessions.switch_model(session.id, MODEL)
    await say(runtime, session.id, "four")
    after = await view(runtime, session.id)
    assert (after["baseline"], after["baselineSeq"]) == (before["baseline"], before["baselineSeq"])
    assert {source["key"]: source.get("value") for source in after["sources"]} == {
        source["key"]: source.get("value") for source in before["sources"]
    }
    assert heard(model.requests[-1]).count("fact is now moved") == 1
    assert [request["messages"][0]["content"].endswith(before["baseline"]) for request in model.requests] == [True] * 4


# -- ending ------------------------------------------------------------------------------------------------------


async def test_a_runner_that_no_longer_has_the_session_touches_nothing(
    place: Place, runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact
) -> None:
    """CTX-107, SES-143: it stops as an interruption, before observing and before promoting."""
    below = place.project / "below"
    below.mkdir()
    await runtime.sessions.prompt(session.id, Prompt(text="hello"), resume=False)
    async with runtime.locations.use(runtime.location) as services:
        with tables(runtime) as sql:
            sql("update session set directory = ? where id = ?", str(below), session.id)
        lease = await lease_of(runtime, session.id)
        with pytest.raises(Interrupted):
            await services.runner.drain(session.id, lease, Interrupt())
        runtime._ownership.release(lease)
    assert (fact.loads, model.requests) == (0, [])
    assert [receipt.prompt.text for receipt in await runtime.sessions.pending(session.id)] == ["hello"]
    await runtime.sessions.wake(session.id)
    await runtime.sessions.wait(session.id)
    assert f"Working directory: {below}" in heard(model.requests[0])


@pytest.mark.parametrize("how", ["incompatible", "gone"])
async def test_an_incompatible_transition_begins_anew_without_a_word(
    runtime: Runtime, session: Session, model: ScriptedTransport, how: str
) -> None:
    """CTX-113, CTX-041, CTX-089, SES-213: another shape of the stored value, or a source that left and cannot be
    removed; no message, no action of a person, and the cause recorded."""
    fixed = Fact("app/fixed", removable=False)
    with Scope() as scope:
        runtime.application_context.register("app/fixed", fixed.context, scope)
        await say(runtime, session.id, "one")
        if how == "incompatible":
            change_snapshot(runtime, session.id, date.KEY, {"calendar": 7})
        else:
            scope.close()
        await say(runtime, session.id, "two")
    assert await updates(runtime, session.id) == []
    baseline = (await view(runtime, session.id))["baseline"]
    assert ("fixed is v0" in baseline) == (how == "incompatible")
    assert model.requests[-1]["messages"][0]["content"] == f"{GENERIC}\n{baseline}"
    assert [found["causes"] for found in (await view(runtime, session.id))["prefixBreaks"]] == [["new epoch"]]


def change_snapshot(runtime: Runtime, session_id: str, key: str, value: object) -> None:
    """As another version of this software might have left it."""
    with tables(runtime) as sql:
        texts = "context_text where id = (select snapshot_id from session_context_epoch where session_id = ?)"
        [(stored,)] = sql(f"select content from {texts}", session_id)
        snapshot = json.loads(stored)
        snapshot[key]["value"] = value
        text = encode(snapshot).decode()
        sql(f"update {texts.replace('where', 'set content = ? where', 1)}", text, session_id)


@pytest.mark.parametrize(
    ("kept", "ends"),
    [
        pytest.param("one", True, id="before it was told"),
        pytest.param("fact is now moved", False, id="what was told itself"),
        pytest.param("three", False, id="after it was told"),
    ],
)
async def test_a_revert_ends_the_epoch_only_if_it_takes_away_what_was_told(
    runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact, kept: str, ends: bool
) -> None:
    """CTX-111, SES-172: what the model was told in the part that is gone, it hears again; nothing else is repeated."""
    await say(runtime, session.id, "one")
    fact.value = "moved"
    await say(runtime, session.id, "two")
    await say(runtime, session.id, "three")
    spoken = [item for item in await history(runtime, session.id) if isinstance(item, UserMessage | SystemMessage)]
    boundary = next(item.id for item in spoken if item.text == kept)
    before = await view(runtime, session.id)
    await runtime.sessions.stage_revert(session.id, boundary)
    await runtime.sessions.commit_revert(session.id)
    after = await view(runtime, session.id)
    assert (after["status"] == "not initialized") == ends
    await say(runtime, session.id, "again")
    assert heard(model.requests[-1]).count("moved") == 1
    again = await view(runtime, session.id)
    assert (again["baseline"] == before["baseline"]) == (not ends)
    assert [found["causes"] for found in again["prefixBreaks"]] == [["revert", "new epoch"] if ends else ["revert"]]


async def test_a_revert_across_a_compaction_ends_the_epoch(
    runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact
) -> None:
    """CTX-111: the baseline that followed the compaction goes with it, and the old messages are history again."""
    play(model, Turn(text="done"), Turn(text="Short."))
    await say(runtime, session.id, "one " * 50)
    await runtime.sessions.compact(session.id)
    await say(runtime, session.id, "two")
    assert heard(model.requests[-1]).count("Short.") == 1
    first = next(item for item in await history(runtime, session.id) if isinstance(item, UserMessage))
    await runtime.sessions.stage_revert(session.id, first.id)
    await runtime.sessions.commit_revert(session.id)
    assert (await view(runtime, session.id))["status"] == "not initialized"
    await say(runtime, session.id, "three")
    talk = Conversation(GENERIC, (await view(runtime, session.id))["baseline"])
    talk.user("one " * 50)
    assert model.requests[-1]["messages"] == talk.user("three")


async def test_system_messages_are_part_of_what_is_summarised(
    runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact
) -> None:
    """CTX-105, CTX-091, CTX-092: labelled in the record, gone from the model's history, still there for people."""
    await say(runtime, session.id, "one " * 50)
    fact.value = "moved"
    await say(runtime, session.id, "two")
    play(model, Turn(text="Short."))
    await runtime.sessions.compact(session.id)
    asked = model.requests[-1]["messages"][-1]["content"]
    assert asked.count("[System update]: fact is now moved") == 1
    await say(runtime, session.id, "three")
    assert model.requests[-1]["messages"][1:] == [
        {"role": "user", "content": checkpoint("Short.", "[Assistant]: done")},
        {"role": "user", "content": "three"},
    ]
    assert "fact is moved" in model.requests[-1]["messages"][0]["content"]
    assert await updates(runtime, session.id) == ["fact is now moved"]


async def test_while_a_new_baseline_is_blocked_the_old_one_and_its_updates_stay(
    runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact
) -> None:
    """CTX-091, CTX-104, SES-150, SES-151: beside the checkpoint, other sources still heard; then it is replaced."""
    other = Fact("app/other")
    with Scope() as scope:
        runtime.application_context.register("app/other", other.context, scope)
        await say(runtime, session.id, "one " * 50)
        old = (await view(runtime, session.id))["baseline"]
        other.value = "first"
        await say(runtime, session.id, "two")
        play(model, Turn(text="Short."))
        await runtime.sessions.compact(session.id)
        fact.lose()
        other.value = "second"
        await say(runtime, session.id, "three")
        request = model.requests[-1]
        assert request["messages"][0]["content"] == f"{GENERIC}\n{old}"
        text = heard(request)
        told = ["other is now first", "Short.", "three", "other is now second"]
        assert [text.count(part) for part in told] == [1, 1, 1, 1]
        assert sorted(told, key=text.index) == told
        assert (await states(runtime, session.id))["app/fact"] == "unavailable"

        fact.value = "back"
        await say(runtime, session.id, "four")
    text = heard(model.requests[-1])
    assert [text.count(part) for part in ("other is second", "fact is back", "is now")] == [1, 1, 0]
    assert (await states(runtime, session.id))["app/fact"] == "current"
    assert len([item for item in await history(runtime, session.id) if isinstance(item, CompactionMessage)]) == 1


async def test_a_compaction_that_fails_changes_nothing(
    runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact
) -> None:
    """CTX-103: begun and failed is as if it had not been; the next request goes on where the last one ended."""
    await say(runtime, session.id, "one " * 50)
    fact.value = "moved"
    await say(runtime, session.id, "two")
    before = model.requests[-1]["messages"]
    play(model, Turn(fail=400))
    with pytest.raises(Exception, match="scripted failure"):
        await runtime.sessions.compact(session.id)
    await say(runtime, session.id, "three")
    assert model.requests[-1]["messages"][: len(before)] == before
    assert (await view(runtime, session.id))["prefixBreaks"] == []


async def test_an_update_is_replayed_after_a_failed_attempt_and_not_repeated(
    runtime: Runtime, session: Session, model: ScriptedTransport, fact: Fact
) -> None:
    """CTX-096: at the same place and in the same words, though the source has changed meanwhile; that is told beside
    it, once."""
    await say(runtime, session.id, "one")
    fact.value = "moved"
    play(model, Turn(fail=400))
    await say(runtime, session.id, "two")
    failed = model.requests[-1]["messages"]
    assert failed[-1]["content"] == f"two\n{wrap('fact is now moved')}"
    await runtime.sessions.run(session.id)
    assert model.requests[-1]["messages"] == failed
    fact.value = "moved again"
    await say(runtime, session.id, "three")
    assert [text.count("fact is now moved") for text in await updates(runtime, session.id)] == [1, 1]
    assert heard(model.requests[-1]).count(wrap("fact is now moved")) == 1


async def test_the_stored_snapshot_is_for_nobody_but_the_runtime(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """CTX-064: a value that no rendering repeats is in no request, no message and no event."""

    class Hidden(Fact):
        def _baseline(self, current: Any) -> str:
            return "There is a secret."

        def _update(self, previous: Any, current: Any) -> str:
            return "There is another secret."

    hidden = Hidden("app/hidden", "canary-1")
    with Scope() as scope:
        runtime.application_context.register("app/hidden", hidden.context, scope)
        await say(runtime, session.id, "one")
        hidden.value = "canary-2"
        await say(runtime, session.id, "two")
        hidden.value = UNAVAILABLE
        await say(runtime, session.id, "three")
    events = await runtime.log.serialized(session.id, limit=1_000)
    everything = json.dumps(model.requests) + repr(events) + repr(await history(runtime, session.id))
    assert "There is another secret." in everything
    assert "canary" not in everything
