"""What the MCP client adds to a bare JSON-RPC round trip over pipes, and what importing it costs. `make bench`."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.connect import connect_stdio
from holdfast.mcp.stdio import ProcessEnd

ROUNDS = 500
MOST_OVERHEAD = 0.5
"""Milliseconds."""
MOST_IMPORT = 150.0
MOST_MEMORY = 6.0

# Answers at once and decodes little, so that the difference is the client's.
SERVER = r"""
import sys
OPENING = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench"}}'
RESULT = b'{"content":[{"type":"text","text":"done"}]}'
for line in sys.stdin.buffer:
    if b'"id":' in line:
        number = line.split(b'"id":', 1)[1].split(b",", 1)[0]
        result = OPENING if b'"initialize"' in line else RESULT
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":' + number + b',"result":' + result + b"}\n")
        sys.stdout.buffer.flush()
"""
BARE = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}\n'
IMPORT = """
import asyncio, gc, logging, random, sys, time
import msgspec
def resident():
    gc.collect()
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * 4 / 1024
before = resident()
started = time.perf_counter()
import holdfast.mcp.connect, holdfast.mcp.stdio
if sys.argv[1] == "http":
    import holdfast.mcp.streamable_http, holdfast.mcp.http_sse
print((time.perf_counter() - started) * 1000, resident() - before)
"""


class Pipes:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout

    @classmethod
    async def start(cls) -> Pipes:
        return cls(await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, stdin=-1, stdout=-1))

    async def read(self) -> bytes:
        return await self._stdout.read(65536)

    async def write(self, data: bytes) -> None:
        self._stdin.write(data)
        await self._stdin.drain()

    async def close(self) -> ProcessEnd:
        self._stdin.close()
        return ProcessEnd(await self._process.wait())


async def measure_call() -> tuple[float, float]:
    """Milliseconds of a bare round trip and of a call. Taken in turns, so that both see the same load."""
    bare, info = await Pipes.start(), Implementation(name="bench", version="1")
    client = await connect_stdio(Pipes.start, info, version="2025-11-25")
    times: dict[str, list[float]] = {"bare": [], "call": []}
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await bare.write(BARE)
        await bare.read()
        between = time.perf_counter()
        await client.call_tool("a", {})
        times["bare"].append((between - started) * 1000)
        times["call"].append((time.perf_counter() - between) * 1000)
    await client.close()
    await bare.close()
    return statistics.median(times["bare"]), statistics.median(times["call"])


def measure_import(kind: str) -> tuple[float, float]:
    """Milliseconds and MiB beyond asyncio and msgspec, which every process here has; the best of five."""
    runs = [
        subprocess.run([sys.executable, "-c", IMPORT, kind], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(5)
    ]
    return min(float(run[0]) for run in runs), min(float(run[1]) for run in runs)


def main() -> int:
    bare, call = asyncio.run(measure_call())
    good = call - bare <= MOST_OVERHEAD
    print(f"a call       {call - bare:6.3f} ms more than {bare:.3f} ms (at most {MOST_OVERHEAD:g})")
    for kind in ("stdio", "http"):
        milliseconds, memory = measure_import(kind)
        good = good and milliseconds <= MOST_IMPORT and memory <= MOST_MEMORY
        limits = f"(at most {MOST_IMPORT:g} and {MOST_MEMORY:g})"
        print(f"import {kind:5} {milliseconds:6.1f} ms, {memory:.1f} MiB {limits}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
