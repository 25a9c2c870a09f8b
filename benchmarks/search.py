"""`grep` over many files against plain ripgrep, as a ratio of one run. `make bench`."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.filesystem.location_path import LocationPaths
from holdfast.core.permission.rules import Authority
from holdfast.core.process.process import Processes
from holdfast.core.search.search import Search, find_ripgrep
from holdfast.core.tool.builtin.grep import GrepInput, grep_tool
from holdfast.core.tool.tool import ToolContext
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FILES = 20_000
ROUNDS = 9
MOST = 1.2
CONTEXT = ToolContext("ses_1", "build", "msg_1", "call_1")


class AllowAll:
    async def allow(self, *arguments: Any, **options: Any) -> None:
        return None

    async def authority(self, context: ToolContext) -> Authority:
        return Authority((Rule(action="*", resource="*", effect="allow"),))


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        generate(root)
        ripgrep = find_ripgrep(os.environ)
        assert ripgrep is not None
        processes = Processes()
        search = Search(processes, os.environ, ripgrep)
        permissions = AllowAll()
        tool = grep_tool(LocationPaths(root), search, permissions, permissions.authority)

        async def plain() -> None:
            command = (ripgrep, "--no-config", "--hidden", "--line-number", "--", "needle", "./")
            await asyncio.to_thread(subprocess.run, command, cwd=root, capture_output=True, check=True)

        async def ours() -> None:
            output = await tool.execute(GrepInput(pattern="needle"), CONTEXT)
            assert len(output.results) == 100

        ratio = await compare(plain, ours)
        await processes.close()
    print(f"grep over {FILES} files: {ratio:.2f} times plain ripgrep (at most {MOST})")
    return 0 if ratio <= MOST else 1


def generate(root: Path) -> None:
    """200 directories; every fortieth file has the word once."""
    text = "".join(f"line {number} of ordinary text with nothing to find\n" for number in range(40))
    for number in range(FILES):
        path = root / f"dir{number % 200:03}" / f"file{number:05}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + ("a needle\n" if number % 40 == 0 else ""), encoding="utf-8")


async def compare(plain: Callable[[], Awaitable[None]], ours: Callable[[], Awaitable[None]]) -> float:
    """Medians of alternating runs, after one of each to warm the cache."""
    times: dict[Callable[[], Awaitable[None]], list[float]] = {plain: [], ours: []}
    for _ in range(ROUNDS + 1):
        for run, taken in times.items():
            start = time.perf_counter()
            await run()
            taken.append(time.perf_counter() - start)
    middle = {run: statistics.median(taken[1:]) for run, taken in times.items()}
    print(f"plain {middle[plain] * 1000:.0f} ms, ours {middle[ours] * 1000:.0f} ms")
    return middle[ours] / middle[plain]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
