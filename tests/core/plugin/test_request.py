"""Request hooks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.plugin.conftest import Surroundings

from holdfast.core.plugin.request import RequestDraft, RequestHook
from holdfast.core.scope import Scope
from holdfast.llm.request import (
    Generation,
    ToolCallPart,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
    assistant,
    tool_result,
    update,
    user,
)

pytestmark = pytest.mark.anyio


def draft() -> RequestDraft:
    return RequestDraft(
        session_id="ses_1",
        agent="build",
        provider_id="p",
        model_id="m",
        messages=(user("hi"),),
        tools=(ToolDefinition(name="t", description="", input_schema={}),),
        headers={"a": "1"},
        generation=Generation(temperature=0.5),
        options={"openai": {"store": False}},
    )


async def test_hooks_run_one_after_the_other_on_copies(around: Surroundings) -> None:
    """CAT-150, CTX-164: headers, controls, options, and system parts appended; the given draft stays as it was."""
    scope, given = Scope(), draft()

    def first(request: RequestDraft) -> None:
        request.headers["b"] = "2"
        request.options["openai"]["store"] = True
        request.system.append("one")

    async def second(request: RequestDraft) -> None:
        await asyncio.sleep(0)
        request.generation = Generation(temperature=1.0)
        request.system.append(f"two after {request.system[-1]}, {len(request.messages)} message")

    around.requests.register("one", first, scope)
    around.requests.register("two", second, scope)
    changed = await around.requests.apply(given)
    assert given == draft()
    assert (changed.headers, changed.options, changed.generation, changed.system) == (
        {"a": "1", "b": "2"},
        {"openai": {"store": True}},
        Generation(temperature=1.0),
        ["one", "two after one, 1 message"],
    )
    scope.close()
    assert await around.requests.apply(given) is given


async def forever(request: RequestDraft) -> None:
    request.headers["late"] = "1"
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if request.headers.pop("stubborn", None) is None:
                raise


def raises(request: RequestDraft) -> None:
    request.headers["half"] = "1"
    raise ValueError("secret value")


def rewrites(request: RequestDraft) -> None:
    request.system = ["mine", "only"]


def wrong_header(request: RequestDraft) -> None:
    request.headers["n"] = 1  # type: ignore[assignment]


def wrong_generation(request: RequestDraft) -> None:
    wrong: Any = {"temperature": "hot"}
    request.generation = wrong


def ends(request: RequestDraft) -> None:
    raise SystemExit


def endless(request: RequestDraft) -> None:
    raise StopIteration


@pytest.mark.parametrize("hook", [raises, rewrites, wrong_header, wrong_generation, ends, endless])
async def test_a_hook_that_misbehaves_is_ignored_and_named(around: Surroundings, hook: RequestHook) -> None:
    """CAT-150, CTX-164: raising, editing what came before it, or leaving the wrong type behind."""
    scope = Scope()
    around.requests.register("good", lambda request: request.system.append("kept"), scope)
    around.requests.register("bad", hook, scope)
    changed = await around.requests.apply(draft())
    assert (changed.headers, changed.system, changed.generation) == ({"a": "1"}, ["kept"], Generation(temperature=0.5))
    assert [id for id, _ in around.problems] == ["bad"]
    assert "secret value" not in around.problems[0][1]


@pytest.mark.parametrize("blocks", [False, True], ids=["on the loop", "in a thread"])
async def test_a_slow_hook_is_ignored_and_stops_nobody_else(around: Surroundings, blocks: bool) -> None:
    """CAT-150: what is synchronous runs apart, so that the process goes on while it blocks."""
    gate, begun, scope = threading.Event(), threading.Event(), Scope()

    def block(request: RequestDraft) -> None:
        begun.set()
        gate.wait(30)
        request.headers["late"] = "1"

    around.requests._timeout = 0.05
    around.requests.register("slow", block if blocks else forever, scope)
    changed = await around.requests.apply(draft())
    gate.set()
    assert (changed.headers, [id for id, _ in around.problems]) == ({"a": "1"}, ["slow"])
    if blocks:
        assert await asyncio.to_thread(begun.wait, 30)


async def test_tools_can_only_be_read(around: Surroundings) -> None:
    """CAT-150: replacing them has no effect."""

    def replaces(request: RequestDraft) -> None:
        request.tools, request.session_id = (), "ses_2"

    around.requests.register("x", replaces, Scope())
    given = draft()
    assert await around.requests.apply(given) is given


CALL = assistant(ToolCallPart(id="c", name="t", input={}))
RESULT = tool_result("c", "t", "done")
TALK = (user("hi"), CALL, RESULT)


@pytest.mark.parametrize(
    "changed",
    [
        (user("hello"), CALL, RESULT),
        (CALL, RESULT),
        (user("hi"),),
        (*TALK, user("and a reminder")),
        [update("first"), *TALK],
        (user("hi"), CALL, update("in between"), RESULT),
    ],
    ids=["another text", "one less", "without the call", "one more", "a list", "an update before the result"],
)
async def test_a_hook_may_change_the_conversation(around: Surroundings, changed: Any) -> None:
    """CAT-236: the plugin is named; the given draft stays as it was."""

    def replaces(request: RequestDraft) -> None:
        request.messages = changed

    given = replace(draft(), messages=TALK)
    around.requests.register("x", replaces, Scope())
    around.requests.register("reads", lambda request: None, Scope())
    after = await around.requests.apply(given)
    assert (after.messages, after.changed_by) == (tuple(changed), ("x",))
    assert (given.messages, around.problems) == (TALK, [])


@pytest.mark.parametrize(
    "changed",
    [
        (),
        (user("hi"), CALL),
        (user("hi"), RESULT),
        (CALL, user("hi"), RESULT),
        (user(ToolResultPart(id="c", name="t", result=ToolResult(type="text", value="done"))),),
        ("hi",),
        None,
        (user("x" * 200_000),),
    ],
    ids=["empty", "no result", "no call", "late result", "result of a user", "text", "none", "too large"],
)
async def test_a_conversation_that_cannot_be_sent_is_ignored(around: Surroundings, changed: Any) -> None:
    """CAT-236: with a problem that names the plugin."""

    def replaces(request: RequestDraft) -> None:
        request.messages = changed

    given = replace(draft(), messages=TALK)
    around.requests.register("x", replaces, Scope())
    assert await around.requests.apply(given) is given
    assert [id for id, _ in around.problems] == ["x"]
