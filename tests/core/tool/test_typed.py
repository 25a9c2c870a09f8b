"""`@tool`: from a typed function to a tool."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from holdfast.core.scope import Scope
from holdfast.core.session.interrupt import ABANDONED, STOPPED, Interrupt
from holdfast.core.tool import progress
from holdfast.core.tool.registry import Materialized, ToolRegistry
from holdfast.core.tool.tool import Tool, ToolContext, ToolFailure
from holdfast.core.tool.typed import tool

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ses_1", "build", "msg_1", "call_1")


class Point(TypedDict):
    x: int
    y: int


@dataclass
class Route:
    stops: list[Point]
    length: float


@tool
async def plan(
    stops: list[Point],
    mode: Annotated[Literal["walk", "drive"], msgspec.Meta(description="How to travel")] = "walk",
    *,
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None,
    labels: tuple[str, ...] = ("home",),
    context: ToolContext,
) -> Route:
    """Plan a route
    along some stops.

    Longer explanations tell when to use it.

    Args:
        stops: where to go, in order
        mode (str): never shown, as the annotation says more
        limit: at most so many stops
        labels: names for places
    """
    assert context is CONTEXT
    return Route(stops[:limit], float(len(labels)))


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return f"{text.upper()} {threading.current_thread() is not threading.main_thread()}"


def catalog_of(**tools: Tool[Any, Any]) -> Materialized:
    registry = ToolRegistry()
    registry.register(tools, Scope())
    return registry.materialize(())


def test_the_definition_of_a_function() -> None:
    """TOL-002, TOL-014: parameters, docstring and return annotation are all that is needed."""
    point = {
        "title": "Point",
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
    }
    stops = {"type": "array", "items": {"$ref": "#/$defs/Point"}}
    assert msgspec.to_builtins(catalog_of(plan=plan).definitions[0]) == {
        "name": "plan",
        "description": "Plan a route\nalong some stops.\n\nLonger explanations tell when to use it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "stops": {**stops, "description": "where to go, in order"},
                "mode": {"enum": ["drive", "walk"], "description": "How to travel", "default": "walk"},
                "limit": {
                    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
                    "description": "at most so many stops",
                    "default": None,
                },
                "labels": {"type": "array", "items": {"type": "string"}, "description": "names for places"},
            },
            "required": ["stops"],
            "$defs": {"Point": point},
        },
        "outputSchema": {
            "type": "object",
            "properties": {"stops": stops, "length": {"type": "number"}},
            "required": ["stops", "length"],
            "$defs": {"Point": point},
        },
    }


async def test_a_function_is_called_with_what_the_model_sent() -> None:
    """TOL-021, TOL-023: its own defaults count for what was left out, and nothing is converted loosely."""
    catalog = catalog_of(plan=plan)
    stops = [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    assert (await catalog.execute("plan", {"stops": stops}, CONTEXT)).structured == {"stops": stops, "length": 1.0}
    given = {"stops": stops, "limit": 1, "labels": ["a", "b"]}
    assert (await catalog.execute("plan", given, CONTEXT)).structured == {"stops": stops[:1], "length": 2.0}
    wrong: list[dict[str, Any]] = [{}, {"stops": "12"}]
    wrong += [{"stops": [], **more} for more in ({"limit": 0}, {"mode": "fly"}, {"labels": None})]
    for bad in wrong:
        with pytest.raises(ToolFailure, match=r"^Invalid tool input: "):
            await catalog.execute("plan", bad, CONTEXT)


async def test_the_return_annotation_is_checked() -> None:
    """TOL-024."""

    @tool
    async def wrong() -> int:
        """Wrong."""
        return "one"  # type: ignore[return-value]

    @tool
    async def unsaid():  # type: ignore[no-untyped-def]
        """Anything."""
        return ["one"]

    catalog = catalog_of(wrong=wrong, unsaid=unsaid)
    with pytest.raises(ToolFailure, match=r"^Invalid tool output: "):
        await catalog.execute("wrong", {}, CONTEXT)
    assert (await catalog.execute("unsaid", {}, CONTEXT)).structured == {"value": ["one"]}


async def test_an_ordinary_function_runs_in_a_thread() -> None:
    """TOL-026: its text is what the model reads."""
    output = await catalog_of(shout=shout).execute("shout", {"text": "hey"}, CONTEXT)
    assert output.structured == {"value": "HEY True"}


async def test_a_thread_is_waited_for() -> None:
    """TOL-031, TOL-032: an interruption does not report an end before there is one; a thread that does not end within
    the grace is left behind by name."""
    started, go, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def slow() -> None:
        """Take a while."""
        progress.report({"started": True})
        started.set()
        go.wait(10)
        ended.set()

    async def interrupted(grace: float, *, let_go: bool) -> Any:
        interrupt = Interrupt(grace)
        task = asyncio.ensure_future(
            interrupt.cancellable(catalog_of(slow=slow).execute("slow", {}, CONTEXT), name="slow")
        )
        await asyncio.to_thread(started.wait)
        interrupt.fire()
        if let_go:
            await asyncio.sleep(0)
            assert not task.done()
            go.set()
        return await task

    assert await interrupted(10, let_go=True) is STOPPED
    assert ended.is_set()
    for event in (started, go, ended):
        event.clear()
    assert await interrupted(0.01, let_go=False) is ABANDONED
    go.set()
    await asyncio.to_thread(ended.wait)


async def test_a_thread_is_waited_for_again() -> None:
    """TOL-032: who is cancelled twice does not go on either while the thread still acts."""
    started, go, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def slow() -> None:
        """Take a while."""
        started.set()
        go.wait(50)
        ended.set()

    task = asyncio.create_task(catalog_of(slow=slow).execute("slow", {}, CONTEXT))
    await asyncio.to_thread(started.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_functions_that_cannot_be_tools() -> None:
    """TOL-002: said when they are declared, not when they are called."""

    async def silent(a: int) -> int:
        return a

    async def untyped(a) -> int:  # type: ignore[no-untyped-def]
        """Doc."""
        return int(a)

    async def variable(*numbers: int) -> int:
        """Doc."""
        return sum(numbers)

    async def positional(a: int, /) -> int:
        """Doc."""
        return a

    async def unresolved(a: Missing) -> int:  # type: ignore[name-defined]  # noqa: F821
        """Doc."""
        return 1

    for function, message in (
        (silent, "silent: a tool needs a docstring"),
        (untyped, "untyped: parameter a has no type"),
        (variable, "variable: the model passes arguments by name"),
        (positional, "positional: the model passes arguments by name"),
        (unresolved, "unresolved: name 'Missing' is not defined"),
    ):
        with pytest.raises(TypeError, match=message):
            tool(function)
