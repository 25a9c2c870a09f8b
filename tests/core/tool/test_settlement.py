"""From a complete call to what is settled: decode, execute, validate, project, bound; and checkpoints on the way."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from holdfast.core.clock import Clock, Ids
from holdfast.core.scope import Scope
from holdfast.core.session.interrupt import STOPPED, Interrupt
from holdfast.core.tool import progress
from holdfast.core.tool.output import OutputStore
from holdfast.core.tool.preview import LOST, OutputLimits, fits
from holdfast.core.tool.registration import TOO_MUCH_MEDIA, UNENCODABLE
from holdfast.core.tool.registry import Materialized, ToolRegistry
from holdfast.core.tool.tool import CallOutput, Tool, ToolContext, ToolFailure
from holdfast.llm.request import ToolResult, project_output
from holdfast.schema.codec import encode
from holdfast.schema.session_message import FileContent, TextContent, ToolContent

pytestmark = pytest.mark.anyio

CONTEXT = ToolContext("ses_1", "build", "msg_1", "call_1")


class Nothing(msgspec.Struct, frozen=True):
    pass


def returning(value: Any, output: Any = Any, **more: Any) -> Tool[Any, Any]:
    async def execute(given: Any, context: ToolContext) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return Tool(description="", input=Nothing, output=output, execute=execute, **more)


def catalog_of(tools: dict[str, Tool[Any, Any]], store: OutputStore | None = None, **options: Any) -> Materialized:
    registry = ToolRegistry(None, store, **options)
    registry.register(tools, Scope())
    return registry.materialize(())


async def run(tool: Tool[Any, Any], arguments: Any = None) -> CallOutput:
    return await catalog_of({"t": tool}).execute("t", arguments or {}, CONTEXT)


async def failure_of(tool: Tool[Any, Any], arguments: Any = None) -> str:
    with pytest.raises(ToolFailure) as failed:
        await run(tool, arguments)
    return str(failed.value)


# -- order and context -----------------------------------------------------------------------------------------------


async def test_the_steps_of_one_call() -> None:
    """TOL-020, TOL-021, TOL-028: each once and in order; the executor gets decoded input and the four facts about the
    call, projections get decoded input and encoded output and nobody's identity."""
    steps: list[tuple[Any, ...]] = []

    class Given(msgspec.Struct):
        size: int

        def __post_init__(self) -> None:
            steps.append(("decoded",))

    class Result(msgspec.Struct, rename="camel"):
        file_size: int
        data: bytes

    async def execute(given: Given, context: ToolContext) -> Result:
        steps.append(("executed", given.size, context))
        return Result(given.size, b"abc")

    def content(given: Given, value: Any) -> list[ToolContent]:
        steps.append(("content", given.size, value))
        return [TextContent(text="shown")]

    def structured(given: Given, value: Any) -> Any:
        steps.append(("structured", given.size, value))
        return {"size": value["fileSize"]}

    tool = Tool(description="", input=Given, output=Result, execute=execute, content=content, structured=structured)
    assert await run(tool, {"size": 3}) == CallOutput({"size": 3}, (TextContent(text="shown"),))
    value = {"fileSize": 3, "data": "YWJj"}
    assert steps == [("decoded",), ("executed", 3, CONTEXT), ("content", 3, value), ("structured", 3, value)]
    fields = ("session_id", "agent", "assistant_message_id", "tool_call_id", "model", "by_person")
    assert ToolContext.__struct_fields__ == fields


async def test_expected_failures_say_what_happened() -> None:
    """SES-120, TOL-022, TOL-029: unknown, invalid, or declared by the tool itself, with its own type."""

    class Busy(ToolFailure):
        pass

    async def never(given: Any, context: ToolContext) -> Any:
        raise AssertionError("executed")

    class Needs(msgspec.Struct):
        path: str

    tools = {"busy": returning(Busy("try later")), "needs": Tool("", Needs, str, never)}
    catalog = catalog_of(tools)
    for name, message in (
        ("none", "Unknown tool: none"),
        ("busy", "try later"),
        ("needs", "Invalid tool input: Object missing required field `path`"),
    ):
        with pytest.raises(ToolFailure) as failed:
            await catalog.execute(name, {}, CONTEXT)
        assert str(failed.value) == message
        assert isinstance(failed.value, Busy) is (name == "busy")


async def test_a_defect_is_not_turned_into_a_result() -> None:
    """TOL-029, SES-122: it passes as what it is, from its own call alone."""
    defect = KeyError("secret")
    catalog = catalog_of({"bad": returning(defect), "good": returning("fine", str)})
    results = await asyncio.gather(
        *(catalog.execute(name, {}, CONTEXT) for name in ("good", "bad", "good")), return_exceptions=True
    )
    assert results[1] is defect
    assert results[0] == results[2] == CallOutput({"value": "fine"}, (TextContent(text="fine"),))


# -- input -----------------------------------------------------------------------------------------------------------


class AsStruct(msgspec.Struct):
    n: int
    flag: bool | msgspec.UnsetType = msgspec.UNSET
    word: str | None = "default"


@dataclass
class AsDataclass:
    n: int
    flag: bool | msgspec.UnsetType = msgspec.UNSET
    word: str | None = "default"


class AsTypedDict(TypedDict):
    n: int
    flag: NotRequired[bool]
    word: NotRequired[str | None]


class AsPydantic(pydantic.BaseModel):
    n: int
    flag: bool = False
    word: str | None = "default"


KINDS: list[Any] = [AsStruct, AsDataclass, AsTypedDict, AsPydantic]


def echo(kind: Any) -> Tool[Any, Any]:
    async def execute(given: Any, context: ToolContext) -> Any:
        assert isinstance(given, dict if kind is AsTypedDict else kind)
        return given["n"] if isinstance(given, dict) else given.n

    return Tool(description="", input=kind, output=int, execute=execute)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "arguments", [{"n": 1}, {"n": 1, "extra": {}}, {"n": 1, "flag": True, "word": None}, {"n": 1, "word": "w"}]
)
async def test_valid_input_may_omit_optional_keys_and_carry_unknown_ones(kind: Any, arguments: dict[str, Any]) -> None:
    """TOL-023: keys may be left out where they are optional, unknown ones are ignored, null where it is allowed."""
    assert (await run(echo(kind), arguments)).structured == {"value": 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"n": 1.5}, "$.n"),
        ({"n": True}, "$.n"),
        ({"n": "1"}, "$.n"),
        ({"n": 1, "flag": 1}, "$.flag"),
        ({"n": 1, "flag": "true"}, "$.flag"),
        ({"n": 1, "word": 5}, "$.word"),
        ({}, "n"),
        ([], ""),
    ],
)
async def test_input_that_does_not_fit(kind: Any, arguments: Any, where: str) -> None:
    """TOL-022, TOL-023: nothing is guessed from a number, a boolean or a text, and the message says where."""
    with pytest.raises(ToolFailure) as failed:
        await catalog_of({"t": echo(kind)}).execute("t", arguments, CONTEXT)
    assert str(failed.value).startswith("Invalid tool input: ")
    assert where in str(failed.value)


@pytest.mark.parametrize("kind", KINDS)
async def test_null_is_not_the_same_as_nothing(kind: Any) -> None:
    """TOL-023: refused for an optional key, with what to do instead."""
    message = await failure_of(echo(kind), {"n": 1, "flag": None})
    assert "$.flag" in message
    assert "null is not allowed here; leave an optional key out instead" in message


async def test_absent_and_null_are_distinguished() -> None:
    """TOL-023: by a type that wants to know."""
    seen: list[Any] = []

    class Wants(msgspec.Struct):
        word: str | msgspec.UnsetType | None = msgspec.UNSET

    async def execute(given: Wants, context: ToolContext) -> None:
        seen.append(given.word)

    tool = Tool(description="", input=Wants, output=type(None), execute=execute)
    for arguments in ({}, {"word": None}, {"word": "w"}):
        await run(tool, arguments)
    assert seen == [msgspec.UNSET, None, "w"]


# -- output ----------------------------------------------------------------------------------------------------------


class Count(msgspec.Struct):
    count: int


class PydanticCount(pydantic.BaseModel):
    count: int


@pytest.mark.parametrize(
    ("value", "output", "detail"),
    [
        ({"count": "three"}, Count, "$.count"),
        (Count("three"), Count, "$.count"),  # type: ignore[arg-type]
        ({"count": "three"}, PydanticCount, "$.count"),
        ([1, "2"], list[int], "$[1]"),
        (None, str, "null"),
    ],
)
async def test_output_that_does_not_fit(value: Any, output: Any, detail: str) -> None:
    """TOL-024: it never becomes a success, and the message names the problem."""
    message = await failure_of(returning(value, output))
    assert message.startswith("Invalid tool output: ")
    assert detail in message


async def test_a_structured_value_that_does_not_fit() -> None:
    """TOL-024: of the projected value too."""
    tool = returning(Count(1), Count, structured=lambda given, value: "x", structured_type=int)
    assert (await failure_of(tool)).startswith("Invalid tool output: ")


TEXT = TextContent(text="t")
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FILE = FileContent(uri=f"data:image/png;base64,{DOT}", mime="image/png", name="a.png")


@pytest.mark.parametrize(
    ("value", "output", "projected", "expected", "model"),
    [
        (Count(3), Count, None, CallOutput({"count": 3}), ToolResult(type="json", value={"count": 3})),
        (PydanticCount(count=3), PydanticCount, None, CallOutput({"count": 3}), None),
        ({"count": 3}, PydanticCount, None, CallOutput({"count": 3}), None),
        ([1], list[int], None, CallOutput({"value": [1]}), ToolResult(type="json", value={"value": [1]})),
        (None, Any, None, CallOutput({"value": None}), None),
        ({1: b"a"}, Any, None, CallOutput({"1": "YQ=="}), None),
        ("t", str, None, CallOutput({"value": "t"}, (TEXT,)), ToolResult(type="text", value="t")),
        ("t", str, [], CallOutput({"value": "t"}), ToolResult(type="json", value={"value": "t"})),
        (Count(3), Count, [TEXT], CallOutput({"count": 3}, (TEXT,)), ToolResult(type="text", value="t")),
        (Count(3), Count, [FILE], CallOutput({"count": 3}, (FILE,)), ToolResult(type="content", value=(FILE,))),
        ({}, Any, [TEXT, FILE], CallOutput({}, (TEXT, FILE)), ToolResult(type="content", value=(TEXT, FILE))),
    ],
)
async def test_the_two_channels_of_a_success(
    value: Any, output: Any, projected: Any, expected: CallOutput, model: ToolResult | None
) -> None:
    """TOL-025, TOL-026, TOL-027, SES-125: structured for consumers, wrapped when it is no object; content is what the
    projector says, or the text itself; the model reads content if there is any."""
    content = None if projected is None else lambda given, value: projected
    settled = await run(returning(value, output, content=content))
    assert settled == expected
    if model is not None:
        assert project_output(settled.structured, settled.content) == model


async def test_a_settled_output_holds_its_media_once() -> None:
    """SES-124: a settled output has no raw result beside its content."""
    tool = returning({"kept": "elsewhere"}, dict[str, Any], content=lambda given, value: [FILE])
    settled = await run(tool)
    assert CallOutput.__struct_fields__ == ("structured", "content", "output_paths")
    assert encode(settled).count(DOT.encode()) == 1


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [object(), {"a": [object()]}, cyclic(), {(1, 2): 3}])
async def test_a_value_that_is_no_json(value: Any) -> None:
    """TOL-057, TOL-043: a readable failure; harmless when the model reads content instead."""
    assert await failure_of(returning(value)) == UNENCODABLE
    settled = await run(returning(value, content=lambda given, value: [TEXT]))
    assert settled == CallOutput({}, (TEXT,))


async def test_broken_text_in_a_value_is_repaired() -> None:
    """TOL-052: a file name that is not UTF-8 must not keep a result from being stored."""
    settled = await run(returning({"names": ["a\udcff", "b"]}, dict[str, Any]))
    assert settled.structured == {"names": ["a\ufffd", "b"]}
    assert (await run(returning({"name": "\udcff"}, content=lambda given, value: [TEXT]))).structured == {
        "name": "\ufffd"
    }


def media(*sizes: int) -> list[ToolContent]:
    return [
        FileContent(
            uri="data:application/pdf;base64," + base64.b64encode(b"%PDF".ljust(size, b"x")).decode(),
            mime="application/pdf",
        )
        for size in sizes
    ]


@pytest.mark.parametrize(
    ("parts", "allowed"),
    [
        (media(6 * 2**20), True),
        (media(10 * 2**20, 10 * 2**20), True),
        (media(10 * 2**20, 10 * 2**20 + 1), False),
        (media(*[4] * 16), True),
        (media(*[4] * 17), False),
        ([FileContent(uri="data:text/plain," + "x" * (20 * 2**20 + 1), mime="text/plain")], False),
    ],
)
async def test_media_above_20_mib_or_16_files_fails_the_settlement(parts: list[ToolContent], allowed: bool) -> None:
    """TOL-059, TOL-060: twenty MiB decoded, sixteen files."""
    tool = returning({}, content=lambda given, value: parts)
    if allowed:
        assert (await run(tool)).content == tuple(parts)
    else:
        assert await failure_of(tool) == TOO_MUCH_MEDIA


async def test_a_failure_is_bounded_too() -> None:
    """TOL-042, TOL-323: the model reads it, so it keeps to the same limits, and its type stays."""

    class Special(ToolFailure):
        pass

    catalog = catalog_of({"t": returning(Special("x\n" * 100_000 + "\ud800"))})
    with pytest.raises(Special) as failed:
        await catalog.execute("t", {}, CONTEXT)
    assert fits([str(failed.value)], OutputLimits())
    assert LOST in str(failed.value)
    encode(str(failed.value))


# -- the protected part ----------------------------------------------------------------------------------------------


async def test_every_settlement_through_the_catalog_is_bounded(tmp_path: Path, ids: Ids, clock: Clock) -> None:
    """TOL-042, TOL-058, SES-118: one limit for whatever arrives, asked for at each settlement; the tool's own managed
    files come first."""
    limits = OutputLimits()
    store = OutputStore(tmp_path / "out", ids, clock)
    tool = returning("x" * 3000, str, output_paths=lambda given, value: ["/managed/own"])
    catalog = catalog_of({"t": tool}, store, limits=lambda: limits)
    output = await catalog.execute("t", {}, CONTEXT)
    assert await catalog.bound(output) == output
    limits = OutputLimits(10, 1000)
    bounded = await catalog.bound(output)
    assert bounded.structured == {"value": "x" * 3000}
    own, saved = bounded.output_paths
    assert own == "/managed/own"
    assert Path(saved).read_text() == "x" * 3000
    assert isinstance(bounded.content[0], TextContent)
    assert fits([bounded.content[0].text], limits)


async def test_an_interruption_during_bounding_comes_too_late(tmp_path: Path, ids: Ids, clock: Clock) -> None:
    """TOL-061, TOL-062, SES-118: execution has ended, so the call is settled as the success that it is."""
    interrupt = Interrupt()
    catalog = catalog_of({"t": returning("x" * 200_000, str)}, OutputStore(tmp_path / "out", ids, clock))
    output = await interrupt.cancellable(catalog.execute("t", {}, CONTEXT), name="t")
    assert isinstance(output, CallOutput)
    bounding = asyncio.ensure_future(catalog.bound(output))
    await asyncio.sleep(0)
    interrupt.fire()
    bounded = await bounding
    assert Path(bounded.output_paths[0]).stat().st_size == 200_000


# -- checkpoints -----------------------------------------------------------------------------------------------------


class Record:
    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, Any], tuple[ToolContent, ...]]] = []
        self.more = asyncio.Event()

    def __call__(self, structured: dict[str, Any], content: tuple[ToolContent, ...]) -> None:
        self.seen.append((structured, content))
        self.more.set()


def reporting_tool(then: Callable[[], Any], *, reports: int = 3) -> Tool[Any, Any]:
    async def execute(given: Any, context: ToolContext) -> Any:
        for number in range(1, reports + 1):
            progress.report({"number": number}, [TextContent(text=f"{number}")])
        return await then()

    return Tool(description="", input=Nothing, output=Any, execute=execute)


def checkpoint(number: int) -> tuple[dict[str, Any], tuple[ToolContent, ...]]:
    return {"number": number}, (TextContent(text=f"{number}"),)


async def test_reports_without_a_listener_are_nothing() -> None:
    """TOL-036: a tool need not know whether anybody listens."""

    async def then() -> str:
        return "done"

    assert (await run(reporting_tool(then))).structured == {"value": "done"}


async def test_reports_are_spaced_and_the_newest_counts() -> None:
    """TOL-036: the first at once, then no more than one per interval however often a tool reports."""
    record = Record()

    async def then() -> None:
        record.more.clear()
        await record.more.wait()
        progress.report({"number": 9})

    with progress.reporting(record, every=0.01):
        await run(reporting_tool(then, reports=1000))
    assert record.seen == [checkpoint(1), checkpoint(1000)]


async def test_a_failure_keeps_the_newest_report() -> None:
    """TOL-036: what was held back is delivered before the call is settled, once; a success drops it."""

    async def fail() -> None:
        raise ToolFailure("no")

    async def succeed() -> None:
        return None

    failed, succeeded = Record(), Record()
    with pytest.raises(ToolFailure), progress.reporting(failed, every=60):
        await run(reporting_tool(fail))
    with progress.reporting(succeeded, every=60):
        await run(reporting_tool(succeed))
    assert failed.seen == [checkpoint(1), checkpoint(3)]
    assert succeeded.seen == [checkpoint(1)]


async def test_a_call_that_is_cut_keeps_its_last_words() -> None:
    """TOL-036: what a tool reports while it is being cancelled arrives before its task has ended."""
    record, started, interrupt = Record(), asyncio.Event(), Interrupt()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            progress.report({"number": 7}, [TextContent(text="7")])
            raise

    async def work() -> CallOutput:
        with progress.reporting(record, every=60):
            return await run(reporting_tool(wait))

    task = asyncio.ensure_future(interrupt.cancellable(work(), name="t"))
    await started.wait()
    interrupt.fire()
    assert await task is STOPPED
    assert record.seen == [checkpoint(1), checkpoint(7)]


async def test_reports_from_a_thread_arrive() -> None:
    """TOL-036: on the loop's own thread."""
    record = Record()

    async def then() -> None:
        await asyncio.to_thread(progress.report, {"number": 5})
        await record.more.wait()

    with progress.reporting(record):
        await run(reporting_tool(then, reports=0))
    assert record.seen == [({"number": 5}, ())]


async def test_a_checkpoint_is_bounded_and_a_copy() -> None:
    """TOL-036: text to its limits, media left out, a value that is too large left out; never the tool's own object."""
    record, value = Record(), {"list": [1]}
    with progress.reporting(record, every=60):
        progress.report(value, [TextContent(text="x" * 50_000), FILE, TextContent(text="\n" * 5000)])
        value["list"].append(2)
    structured, [part] = record.seen[0]
    assert structured == {"list": [1]}
    assert isinstance(part, TextContent)
    assert fits([part.text], progress.LIMITS)
    with progress.reporting(record, every=60):
        progress.report({"huge": "x" * progress.STRUCTURED_BYTES})
    assert record.seen[1] == ({}, ())


async def test_a_checkpoint_that_cannot_be_kept_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """TOL-036: operators hear of it, the tool goes on."""
    record = Record()
    with progress.reporting(record, every=60):
        progress.report({"bad": object()})
    assert record.seen == []
    assert "checkpoint" in caplog.text
