"""Commits of the units of real Sessions. A Session is run once, its units are recorded, and each caller commits a copy
of them with ids of its own, one after the other."""

from __future__ import annotations

import asyncio
import re
import secrets
import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.database.read import Read
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.scope import Scope
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Statement, Unit

SECONDS = 3.0
PROMPTS = 5
MODEL = ModelRef(id="echo", provider_id="demo")
_ID = re.compile(r"\b(ses|msg|evt|own|inp|prt|call|per|que|ctl|ctx)_[A-Za-z0-9]+")


class Given(Record):
    number: int


async def _look(given: Given, context: ToolContext) -> dict[str, Any]:
    return {"text": "x" * 300}


async def record(folder: Path) -> list[Unit]:
    """The units of one Session: prompts, each with two calls of a tool and an answer."""
    turns = [
        turn
        for number in range(PROMPTS)
        for turn in (
            Turn(calls=(Call(tool="look", input={"number": 2 * number}),)),
            Turn(calls=(Call(tool="look", input={"number": 2 * number + 1}),)),
            Turn(text="Done. " * 20),
        )
    ]
    runtime = Runtime(
        paths=Paths(folder / "data"),
        directory=folder,
        environment={"HOME": str(folder)},
        transport=ScriptedTransport(turns),
        options=HostOptions(titles=False),
    )
    units: list[Unit] = []
    async with runtime:
        submit = runtime.database.submit

        def noted(unit: Unit, on_commit: Any = None) -> asyncio.Future[Any]:
            units.append(unit)
            return submit(unit, on_commit)

        runtime.database.submit = noted  # type: ignore[method-assign]
        look = Tool(description="looks", input=Given, output=dict[str, Any], execute=_look)
        runtime.application_tools.register({"look": look}, Scope())
        session = await runtime.sessions.create(
            location=runtime.location, project=await runtime.project(runtime.location), model=MODEL
        )
        for _ in range(PROMPTS):
            await runtime.sessions.prompt(session.id, Prompt(text="Look twice, please. " * 10), resume=False)
            await runtime.sessions.run(session.id)
    return [unit for unit in units if unit.aggregate_id == session.id]


def copy(units: Sequence[Unit], mark: str) -> list[Unit]:
    """The same units with other ids."""

    def own(value: Any) -> Any:
        return _ID.sub(lambda found: f"{found[0]}{mark}", value) if isinstance(value, str) else value

    def statements(given: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(item.replace(params={key: own(value) for key, value in item.params.items()}) for item in given)

    return [
        unit.replace(
            aggregate_id=own(unit.aggregate_id),
            before=statements(unit.before),
            local=statements(unit.local),
            fence=unit.fence
            and unit.fence.replace(session_id=own(unit.fence.session_id), owner_id=own(unit.fence.owner_id)),
            events=tuple(
                event.replace(id=own(event.id), data=own(event.data), projections=statements(event.projections))
                for event in unit.events
            ),
        )
        for unit in units
    ]


class Rate(NamedTuple):
    units: float
    """Per second."""
    median: float
    """Milliseconds of a commit."""
    cpu: float
    """Microseconds of this process for a unit."""

    def __str__(self) -> str:
        return f"{self.units:.0f} units/s, median {self.median:.2f} ms, {self.cpu:.0f} µs of CPU each"


async def measure(database: Database, units: Sequence[Unit], callers: int) -> Rate:
    copies = [copy(units, f"{secrets.token_hex(4)}{number}") for number in range(max(callers * 2, 300))]
    taken: list[float] = []
    until = 0.0

    async def caller() -> None:
        while copies and time.perf_counter() < until:
            for unit in copies.pop():
                began = time.perf_counter()
                await database.submit(unit)
                taken.append(time.perf_counter() - began)
                if began > until:
                    return

    for unit in copies.pop():
        await database.submit(unit)  # statements are prepared
    until = time.perf_counter() + SECONDS
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(callers)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Rate(len(taken) / seconds, statistics.median(taken) * 1e3, cpu / len(taken) * 1e6)


async def measure_reads(database: Database, aggregate_id: str) -> tuple[float, float]:
    """Microseconds of one read, and of ten together."""
    head = Read("event.head", {"aggregate_id": aggregate_id})
    began = time.perf_counter()
    for _ in range(1000):
        await database.fetch(head.name, head.params)
    one = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(200):
        await database.fetch_many(*[head] * 10)
    return one * 1e3, (time.perf_counter() - began) * 5e3
