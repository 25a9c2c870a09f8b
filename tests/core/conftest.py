"""Helpers for Session tests: a runtime with chosen tools, a hand on the tables, and ways to look at what happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.stores.stores import STORES

from holdfast.core.clock import Clock
from holdfast.core.event.bus import Announcement
from holdfast.core.location.services import LocationServices
from holdfast.core.runtime.run_coordinator import RunCoordinator
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.scope import Scope
from holdfast.core.session.errors import Interrupted
from holdfast.core.session.interrupt import STOPPED, Interrupt
from holdfast.core.session.ownership import Lease
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.llm.offline import ScriptedTransport, Turn
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.session import Session
from holdfast.schema.session_message import SessionMessage

MODEL = ModelRef(id="echo", provider_id="demo")
Rows = list[tuple[Any, ...]]
PATIENCE = 10


class NoInput(msgspec.Struct, frozen=True):
    """A tool that needs to be told nothing."""


class ToolRuntime(Runtime):
    """A runtime whose Locations have exactly the tools that a test brings."""

    def __init__(
        self,
        *,
        data: Path,
        directory: Path,
        transport: ScriptedTransport,
        tools: Mapping[str, Tool[Any, Any]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            paths=Paths(data),
            directory=directory,
            environment={"HOME": str(data)},
            transport=transport,
            clock=clock,
            options=HostOptions(titles=False),
        )
        self.tools = dict(tools or {})
        self.built: list[Location] = []

    async def _build_services(self, location: Location) -> LocationServices:
        self.built.append(location)
        services = await super()._build_services(location)
        if self.tools:
            services.tools.register(self.tools, Scope())
        return services


class HeldTool:
    """Runs until it is let go or cut off; cleaning up after a cut can be held too."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        self.cut = asyncio.Event()
        self.cleaned = asyncio.Event()
        self.cleaned.set()
        self.runs = 0

    @property
    def tool(self) -> Tool[NoInput, dict[str, Any]]:
        return Tool(description="waits", input=NoInput, output=dict[str, Any], execute=self._execute)

    async def _execute(self, given: NoInput, context: ToolContext) -> dict[str, Any]:
        self.runs += 1
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cut.set()
            await self.cleaned.wait()
            raise
        return {"waited": True}


@pytest.fixture
async def held() -> HeldTool:
    return HeldTool()


@pytest.fixture
async def tooled(tmp_path: Path, project: Path, model: ScriptedTransport, held: HeldTool) -> AsyncIterator[ToolRuntime]:
    """A runtime whose only tool is `held`."""
    async with ToolRuntime(
        data=tmp_path / "data", directory=project, transport=model, tools={"held": held.tool}
    ) as runtime:
        yield runtime


def script(model: ScriptedTransport, *turns: Turn) -> None:
    """What the model does from its first request on."""
    model._turns[:] = turns


async def new_session(runtime: Runtime, **options: Any) -> Session:
    location = options.pop("location", runtime.location)
    return await runtime.sessions.create(
        location=location, project=await runtime.project(location), **{"model": MODEL, **options}
    )


class Pair(NamedTuple):
    """Two hosts on one database, each with a lock, a connection and a model of its own."""

    a: ToolRuntime
    b: ToolRuntime
    model_a: ScriptedTransport
    model_b: ScriptedTransport
    session: Session


@pytest.fixture
async def pair(tmp_path: Path, project: Path) -> AsyncIterator[Pair]:
    model_a, model_b = ScriptedTransport(), ScriptedTransport()
    async with (
        ToolRuntime(data=tmp_path / "data", directory=project, transport=model_a) as a,
        ToolRuntime(data=tmp_path / "data", directory=project, transport=model_b) as b,
    ):
        yield Pair(a, b, model_a, model_b, await new_session(a))


async def messages(runtime: Runtime, session_id: str) -> list[SessionMessage]:
    return [stored.decode() for stored in await runtime.sessions.messages(session_id, order="asc", limit=200)]


async def event_types(runtime: Runtime, session_id: str) -> list[str]:
    """Every stored event of the Session, private ones too, without `session.` and the version."""
    stored = await runtime.log.serialized(session_id, limit=10_000)
    return [event.type.removeprefix("session.next.").rpartition(".")[0] for event in stored]


async def lease_of(runtime: Runtime, session_id: str) -> Lease:
    """The right to execute that Session, as a drain would get it; not taken yet."""

    async def wanted() -> bool:
        return True

    session = await runtime.sessions.get(session_id)
    lease = await runtime._ownership.acquire(session_id, session.location, Interrupt(), wanted)
    assert lease is not None
    return lease


def user_texts(request: dict[str, Any]) -> list[str]:
    """What the users said, as one request to the model shows it."""
    return [message["content"] for message in request["messages"] if message["role"] == "user"]


@contextmanager
def tables(runtime: Runtime) -> Iterator[Callable[..., Rows]]:
    """A connection of our own to the runtime's database."""
    with STORES.rows(runtime.paths.database) as run:
        yield run


@asynccontextmanager
async def announced(runtime: Runtime) -> AsyncIterator[list[Announcement]]:
    """Everything that observers hear meanwhile."""
    heard: list[Announcement] = []
    stop = runtime.log.bus.listen(heard.append)
    try:
        yield heard
    finally:
        stop()


async def steps(count: int) -> None:
    """Let the loop turn that often."""
    for _ in range(count):
        await asyncio.sleep(0)


# -- drains under a test's control ----------------------------------------------------------------------


class Broken(Exception):
    """What ends a drain badly."""


class Drain:
    """One call of the drain: it works until told how to end, and cleans up until told to be done with that."""

    def __init__(self, key: str, force: bool, interrupt: Interrupt) -> None:
        self.key = key
        self.force = force
        self.interrupt = interrupt
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.cleaned = asyncio.Event()
        self.cleaned.set()
        self.ended = False

    def succeed(self) -> None:
        self.outcome.set_result(None)

    def fail(self, error: BaseException) -> None:
        self.outcome.set_exception(error)

    async def run(self) -> None:
        try:
            if await self.interrupt.cancellable(self._work(), name="work") is STOPPED:
                await self.cleaned.wait()
                raise Interrupted
        finally:
            self.ended = True

    async def _work(self) -> None:
        await self.outcome


class Drains:
    """All calls of the drain, in order."""

    def __init__(self) -> None:
        self.calls: list[Drain] = []
        self._grew = asyncio.Condition()

    async def __call__(self, key: str, force: bool, interrupt: Interrupt) -> None:
        drain = Drain(key, force, interrupt)
        async with self._grew:
            self.calls.append(drain)
            self._grew.notify_all()
        await drain.run()

    async def nth(self, number: int) -> Drain:
        async with self._grew:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._grew.wait_for(lambda: len(self.calls) > number)
        assert len(self.calls) > number, f"drain {number} did not begin within {PATIENCE} s"
        return self.calls[number]

    @property
    def forced(self) -> list[bool]:
        return [call.force for call in self.calls]


@pytest.fixture
async def drains() -> Drains:
    return Drains()


@pytest.fixture
async def coordinator(drains: Drains) -> RunCoordinator[str]:
    return RunCoordinator(drains)


async def running(coordinator: RunCoordinator[str], key: str = "a") -> asyncio.Task[None]:
    """A caller of `run` that has got as far as waiting."""
    task = asyncio.create_task(coordinator.run(key))
    await steps(3)
    return task
