"""Traces of OpenTelemetry, as a collector gets them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.conftest import Machine
from tests.outside.collector import Collector, decoded
from tests.outside.scripted_provider import Call, Turn, calling
from tests.outside.test_metrics import scrape
from tests.outside.wire import Wire, serving
from tests.outside.world import World, ask

pytestmark = pytest.mark.anyio

SECRET = "correct-horse-battery"
USAGE = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60}}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.traces.exporter.GATHER_SECONDS", 0.01)
    monkeypatch.setattr("holdfast.core.traces.sending.BACKOFF_SECONDS", 0.01)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().serving() as collector:
        yield collector


def traced(world: World, collector: Collector, **settings: Any) -> None:
    world.configure(holdfast={"titles": False, "telemetry": {"traces": collector.url, **settings}})


def of(spans: list[dict[str, Any]], beginning: str) -> list[dict[str, Any]]:
    return [span for span in spans if span["name"].startswith(beginning)]


async def test_an_activity_is_one_trace_of_an_agent_its_requests_and_its_tools(
    world: World, collector: Collector
) -> None:
    """OPS-230, OPS-231: with the names of the conventions, and without text of anybody."""
    traced(world, collector, headers={"authorization": "Bearer t0ken"})
    call = Call("write", {"path": "notes.txt", "content": SECRET}, id="call_1")
    world.model.plays(Turn(text=SECRET, calls=(call,), usage=USAGE), Turn(text=SECRET, usage=USAGE))
    async with world.host(unattended="allow") as hf:
        session = await hf.sessions.create()
        await ask(hf, session, f"{SECRET} asked")
        spans = await asyncio.to_thread(collector.wait, 4)
    (agent,) = of(spans, "invoke_agent build")
    first, second = of(spans, "chat m")
    (tool,) = of(spans, "execute_tool write")
    assert len(spans) == 4
    assert {span["trace"] for span in spans} == {agent["trace"]}
    assert agent["parent"] == ""
    assert {span["parent"] for span in (first, second, tool)} == {agent["id"]}
    assert {span["gen_ai.conversation.id"] for span in spans} == {session.id}
    assert (agent["kind"], first["kind"], tool["kind"]) == (1, 3, 1)
    assert {
        name: value for name, value in first.items() if name.startswith("gen_ai.") and "conversation" not in name
    } == {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "build",
        "gen_ai.provider.name": "mock",
        "gen_ai.request.model": "m",
        "gen_ai.response.finish_reasons": ["tool-calls"],
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 0,
    }
    assert agent["gen_ai.usage.input_tokens"] == 200
    assert (tool["gen_ai.tool.name"], tool["gen_ai.tool.call.id"]) == ("write", "call_1")
    assert not any(span["failed"] for span in spans)
    assert SECRET.encode() not in b"".join(collector.bodies)
    assert collector.headers[0]["authorization"] == "Bearer t0ken"


async def test_every_activity_is_a_trace_and_a_failed_one_says_so(world: World, collector: Collector) -> None:
    """OPS-230: an error is told by its class."""
    traced(world, collector)
    world.model.plays(Turn(text="one"), Turn(status=400, error=SECRET))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        await ask(hf, session, "two")
        spans = await asyncio.to_thread(collector.wait, 4)
    good, bad = of(spans, "invoke_agent")
    assert good["trace"] != bad["trace"]
    assert [span["failed"] for span in of(spans, "chat")] == [good["failed"], bad["failed"]] == [False, True]
    assert bad["error.type"] == "_OTHER"
    assert SECRET.encode() not in b"".join(collector.bodies)


async def test_the_work_of_a_child_belongs_to_the_call_that_began_it(world: World, collector: Collector) -> None:
    """OPS-232: in the trace of its root, also when the traces are read again later."""
    traced(world, collector)
    world.model.plays(
        calling("subagent", agent="general", description="look", prompt="look around"),
        Turn(text="the child is done"),
        Turn(text="so am I"),
    )
    async with world.host(unattended="allow") as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        spans = await asyncio.to_thread(collector.wait, 6)
        again = [found async for found in hf.traces(session.id)]
    (tool,) = of(spans, "execute_tool subagent")
    (child,) = of(spans, "invoke_agent general")
    assert child["parent"] == tool["id"]
    assert {span["trace"] for span in spans} == {tool["trace"]}
    read = [span for found in again for span in found["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert {(span["traceId"], span["spanId"], span.get("parentSpanId", "")) for span in read} == {
        (span["trace"], span["id"], span["parent"]) for span in spans
    }


async def test_an_old_session_gives_the_same_trace_byte_for_byte(world: World, collector: Collector) -> None:
    """OPS-232: what is exported later is what was exported when it happened."""
    traced(world, collector)
    world.model.plays(calling("glob", pattern="*.txt"), Turn(text="done"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        await asyncio.to_thread(collector.wait, 4)
    world.configure()
    with Collector().serving() as other:
        async with world.host() as hf:
            report = await hf.export_traces(session.id, endpoint=other.url)
    assert (report.traces, report.spans) == (1, 4)
    assert other.bodies == collector.bodies
    assert "authorization" not in other.headers[0]


async def test_a_trace_does_not_depend_on_how_the_log_is_read(
    world: World, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-232: the newest activity is read backwards in pages, a whole Session forwards."""
    monkeypatch.setattr("holdfast.core.traces.session_traces.PAGE", 3)
    traced(world, collector)
    looks = [calling("glob", pattern="*.txt")] * 3
    async with world.host() as hf:
        session = await hf.sessions.create()
        for number in range(4):
            world.model.plays(*looks[:number], Turn(text="done"))
            await ask(hf, session, f"number {number}")
        spans = await asyncio.to_thread(collector.wait, 4 * 2 + 2 * 6)
        again = [found async for found in hf.traces(session.id)]
    read = [span for found in again for span in found["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert [(span["traceId"], span["spanId"], span["name"]) for span in read] == [
        (span["trace"], span["id"], span["name"]) for span in {span["id"]: span for span in spans}.values()
    ]


async def test_a_wait_for_a_person_is_a_span_below_its_call(world: World, collector: Collector) -> None:
    """OPS-231"""
    traced(world, collector)
    (world.project / ".env").write_text("KEY=value\n", encoding="utf-8")
    world.model.plays(calling("read", path=".env"), Turn(text="done"))
    async with world.host() as hf:
        hf.on_permission(lambda request: "once")
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        spans = await asyncio.to_thread(collector.wait, 5)
    (tool,), (wait,) = of(spans, "execute_tool read"), of(spans, "wait permission")
    assert (wait["parent"], wait["holdfast.wait"]) == (tool["id"], "permission")


async def test_a_collector_that_is_overloaded_is_asked_again_and_one_that_refuses_is_not(
    world: World, collector: Collector
) -> None:
    """OPS-233: turns do not notice it."""
    traced(world, collector)
    collector.statuses = [503, 429, 200, 400]
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        await asyncio.to_thread(collector.wait, 2)
        await ask(hf, session, "two")
        await ask(hf, session, "three")
    assert collector.statuses == []
    assert len(collector.headers) >= 4


async def test_a_project_cannot_send_traces_anywhere(world: World, collector: Collector) -> None:
    """OPS-234: not even one that is trusted."""
    world.write("opencode.json", json.dumps({"holdfast": {"telemetry": {"traces": collector.url}}}))
    async with world.host(trust=True) as hf:
        await ask(hf, await hf.sessions.create(), "go")
    assert collector.headers == []


async def test_the_variables_of_opentelemetry_choose_the_collector(world: World, collector: Collector) -> None:
    """OPS-234: endpoint and headers; another protocol, or its own switch, turns it off."""
    world.environment |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b,x-other=2",
    }
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "go")
    assert len(collector.spans()) == 2  # what waits is exported when the process ends
    assert (collector.headers[0]["x-team"], collector.headers[0]["x-other"]) == ("a b", "2")
    for name, value in (("OTEL_SDK_DISABLED", "true"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")):
        world.environment[name] = value
        async with world.host() as hf:
            await ask(hf, await hf.sessions.create(), "go")
        del world.environment[name]
    assert len(collector.spans()) == 2


def test_nothing_of_it_is_loaded_without_a_collector(holdfast: Machine) -> None:
    """OPS-234: neither what reads traces nor what sends them."""
    code = (
        "import asyncio, sys\nfrom holdfast import Holdfast\n"
        "async def main():\n    async with Holdfast() as hf:\n        await hf.run('go', model='demo/echo')\n"
        "asyncio.run(main())\nprint([name for name in sys.modules if 'core.traces' in name])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=holdfast.project,
        env=holdfast.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "[]\n"


def test_a_server_counts_what_it_exported(tmp_path: Any, collector: Collector) -> None:
    """OPS-233: spans that were sent, and those that were dropped."""
    with serving(tmp_path, "--no-auth", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as wire:
        wire.ask(wire.create(), "go")
        collector.wait(2)
        assert _counted(wire, "exported") == 2
        collector.statuses = [400]
        wire.ask(wire.create(), "go")
        assert _counted(wire, "dropped") == 2


def _counted(wire: Wire, outcome: str) -> float:
    """Once it is counted, which is after the collector has answered."""
    while not (found := scrape(wire.http).get(f"holdfast_trace_spans_total {outcome}", 0)):
        pass
    return found


def test_the_command_exports_sessions(holdfast: Machine, collector: Collector) -> None:
    """OPS-235: to the given collector, or as JSON without sending anything."""
    session = holdfast("run", "--model", "demo/echo", "go").session
    sent = holdfast("traces", "export", session, "--endpoint", collector.url)
    assert (sent.code, sent.out) == (0, f"1 trace with 2 spans sent to {collector.url}/v1/traces\n")
    printed = holdfast("traces", "export", session, "--json")
    (line,) = printed.out.splitlines()
    spans = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["spanId"] for span in spans] == [span["id"] for span in decoded(collector.bodies[0])]
    assert len(collector.bodies) == 1


def test_a_trace_that_cannot_be_sent_says_why(holdfast: Machine) -> None:
    """OPS-235: without a collector, with an address that is none, and of a Session that does not exist."""
    session = holdfast("run", "--model", "demo/echo", "go").session
    assert "no collector is configured: give --endpoint URL" in holdfast("traces", "export", session).complaint
    assert "'nowhere' is not an address" in holdfast("traces", "export", session, "--endpoint", "nowhere").complaint
    gone = holdfast("traces", "export", "ses_0000000000000000000000000a", "--json")
    assert (gone.code, "No session" in gone.complaint) == (1, True)
