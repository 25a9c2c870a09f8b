"""Bounding tool output: memory that does not grow with it, time that grows no faster than it. `make bench`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.tool.output import OutputStore, bound
from holdfast.core.tool.preview import OutputLimits, fits
from holdfast.core.tool.tool import CallOutput
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MB = 1_000_000
SIZE = 100 * MB
ROUNDS = 3


class Bench:
    def __init__(self, folder: Path) -> None:
        clock = SystemClock()
        self.store = OutputStore(folder / "tool-output", Ids(clock), clock)

    async def bound(self, output: CallOutput) -> None:
        bounded = await bound(output, OutputLimits(), self.store)
        part = bounded.content[0]
        assert isinstance(part, TextContent)
        assert fits([part.text], OutputLimits())
        assert len(bounded.output_paths) == 1
        Path(bounded.output_paths[0]).unlink()

    async def peak(self, output: CallOutput) -> int:
        """The most memory that bounding held at once, beside the output itself."""
        tracemalloc.start()
        await self.bound(output)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    async def seconds(self, output: CallOutput) -> float:
        started = time.process_time()
        for _ in range(ROUNDS):
            await self.bound(output)
        return (time.process_time() - started) / ROUNDS


def one_line(size: int) -> CallOutput:
    return CallOutput({}, (TextContent(text="x" * size),))


def short_lines(size: int) -> CallOutput:
    return CallOutput({}, (TextContent(text="\n" * (size // 100)),))


def wide_lines(size: int) -> CallOutput:
    return CallOutput({}, (TextContent(text="漢字かな交じり文\n" * (size // 25)),))


def keys(size: int) -> CallOutput:
    return CallOutput({f"key{index}": index for index in range(size // 100)})


async def memory(bench: Bench) -> float:
    """MiB beside the output itself, the worst of four kinds."""
    worst = 0.0
    for make in (one_line, wide_lines, short_lines, keys):
        peak = await bench.peak(make(SIZE)) / 2**20
        worst = max(worst, peak)
        print(f"    {make.__name__:12} {peak:6.2f} MiB")
    return worst


async def constancy(bench: Bench) -> float:
    """Peak at 100 MB over peak at 10 MB."""
    small, large = await bench.peak(wide_lines(SIZE // 10)), await bench.peak(wide_lines(SIZE))
    print(f"    {small / 2**20:.2f} MiB, {large / 2**20:.2f} MiB")
    return large / small


async def linearity(bench: Bench) -> float:
    """Time per byte at 40 MB over time per byte at 4 MB, the worst of four kinds."""
    worst = 0.0
    for make in (one_line, wide_lines, short_lines, keys):
        small, large = await bench.seconds(make(4 * MB)), await bench.seconds(make(40 * MB))
        worst = max(worst, large / small / 10)
        print(f"    {make.__name__:12} {small * 1e3:7.1f} ms, {large * 1e3:7.1f} ms")
    return worst


SCENARIOS: tuple[tuple[str, Callable[[Bench], Awaitable[float]], float], ...] = (
    ("MiB of memory to bound 100 MB of output, or 1,000,000 keys", memory, 4.0),
    ("memory to bound 100 MB against 10 MB", constancy, 2.0),
    ("time per byte of 40 MB against 4 MB", linearity, 1.5),
)


async def main() -> int:
    failed = 0
    for name, measure, most in SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            ratio: Any = await measure(Bench(Path(folder)))
        failed += ratio > most
        print(f"{'ok ' if ratio <= most else 'BAD'} {name}: {ratio:.2f} (<= {most})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
