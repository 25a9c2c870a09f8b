"""A tool that does nothing, settled by the runner, against its durable commits alone. `make bench`.

One call per turn, measured from the model's last byte to the next request: the answer is decoded, the call recorded,
run and settled, the step ended, the next request made and dispatched. While the model has the word, the very rows of
that turn are committed once more, to a twin of the database, one unit after the other."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.scope import Scope
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.embedded.serve import fast_loop
from holdfast.llm.offline import Call, OfflineResponse, Turn, respond
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.core.database.unit import Committed, Unit
    from holdfast.llm.route.transport import HttpRequest

ROUNDS = 5
TURNS = 120
WARM = 20
BOUND = 2.0
MODEL = ModelRef(id="echo", provider_id="demo")


class Model:
    """Calls the tool in every turn but the last. The whole answer arrives in one read."""

    def __init__(self, twin: SqliteDatabase) -> None:
        self._twin = twin
        self._turns = itertools.count(1)
        self._answered = 0.0
        self.units: list[Unit] = []
        """What was committed since the last request."""
        self.taken: list[float] = []
        self.bare: list[float] = []
        self.commits: list[int] = []

    async def send(self, request: HttpRequest) -> OfflineResponse:
        self.taken.append(time.perf_counter() - self._answered)
        await self._commit_again()
        number = next(self._turns)
        # Never the same call twice: that would be asked about.
        calls = (Call(tool="nothing", input={"number": number}),)
        turn = Turn(calls=calls) if number % TURNS else Turn(text="done")
        frames = [frame async for frame in respond(turn, "echo").chunks()]
        return OfflineResponse(200, self._at_once(b"".join(frames)))

    async def close(self) -> None:
        pass

    async def _at_once(self, answer: bytes) -> AsyncIterator[bytes]:
        self._answered = time.perf_counter()
        yield answer

    async def _commit_again(self) -> None:
        units = [unit.replace(fence=None) for unit in self.units]
        self.units.clear()
        started = time.perf_counter()
        for unit in units:
            await self._twin.submit(unit)
        self.bare.append(time.perf_counter() - started)
        self.commits.append(len(units))


class Bench:
    def __init__(self, folder: Path) -> None:
        self._twin = SqliteDatabase(folder / "twin" / "twin.db")
        self._model = Model(self._twin)
        self._runtime = Runtime(
            paths=Paths(folder / "data"),
            directory=folder,
            environment={"HOME": str(folder)},
            transport=self._model,
            options=HostOptions(titles=False),
        )

    async def __aenter__(self) -> Bench:
        await self._runtime.__aenter__()
        submit = self._runtime.database.submit

        def noted(unit: Unit, on_commit: Callable[[Committed], None] | None = None) -> asyncio.Future[Committed]:
            self._model.units.append(unit)
            return submit(unit, on_commit)

        self._runtime.database.submit = noted  # type: ignore[method-assign]
        nothing = Tool(description="does nothing", input=Given, output=dict[str, Any], execute=_nothing)
        self._runtime.application_tools.register({"nothing": nothing}, Scope())
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._runtime.__aexit__(*exc)
        self._twin.close()

    async def round(self) -> tuple[float, float]:
        """Seconds to settle a call through the runner, and those of its commits alone."""
        runtime, model = self._runtime, self._model
        for taken in (model.taken, model.bare, model.commits):
            taken.clear()
        session = await runtime.sessions.create(
            location=runtime.location, project=await runtime.project(runtime.location), model=MODEL
        )
        await runtime.sessions.prompt(session.id, Prompt(text="go"), resume=False)
        await runtime.sessions.run(session.id)
        assert set(model.commits[WARM:]) == {2}, "a turn with one call is two commits"
        return statistics.median(model.taken[WARM:]), statistics.median(model.bare[WARM:])


class Given(Record):
    number: int


async def _nothing(given: Given, context: ToolContext) -> dict[str, Any]:
    return {}


async def main() -> int:
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        async with Bench(Path(folder).resolve()) as bench:
            for _ in range(ROUNDS):
                ours, bare = await bench.round()
                ratios.append(ours / bare)
                print(f"    {ours * 1e3:.2f} ms to settle, its two commits alone {bare * 1e3:.2f} ms")
    ratio = statistics.median(ratios)
    print(f"{'ok ' if ratio <= BOUND else 'BAD'} settling a call against its bare commits: {ratio:.2f} (<= {BOUND})")
    return 0 if ratio <= BOUND else 1


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fast_loop()) as runner:  # as a server has it
        sys.exit(runner.run(main()))
