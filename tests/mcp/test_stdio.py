"""Processes that print garbage, print too much, end, or do not read."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mcp.local_process import starter
from tests.mcp.support import INFO, SILENCE, ScriptedServer, connected

from holdfast.mcp.connect import connect_stdio
from holdfast.mcp.errors import McpError, ServerClosed, Timeout, TooLarge
from holdfast.mcp.handlers import Handlers
from holdfast.mcp.results import ToolResult
from holdfast.mcp.stdio import Lines
from holdfast.mcp.timeouts import Timeouts

pytestmark = pytest.mark.anyio

RESULT = {"content": [{"type": "text", "text": "done"}]}


@given(st.lists(st.binary(max_size=12).map(lambda part: part.replace(b"\n", b"x")), max_size=6), st.data())
def test_lines_do_not_depend_on_the_pieces_they_come_in(lines: list[bytes], data: Any) -> None:
    """MCP-070"""
    whole = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    reader = Lines(8)
    found = [item for piece in pieces for item in reader.feed(piece)]
    assert [line for line, complete in found if complete] == [line for line in lines if len(line) <= 8 and line.strip()]
    assert sum(not complete for _, complete in found) == sum(len(line) > 8 for line in lines)


async def test_garbage_on_stdout_is_reported_and_harms_nothing() -> None:
    """MCP-070"""
    reported: list[tuple[bytes, int]] = []
    server = ScriptedServer({"tools/call": RESULT})
    async with await connected(
        server, Handlers(on_garbage=lambda data, count: reported.append((data, count)))
    ) as client:
        server.send_bytes(b"Server listening...\n\n{\n" + b"\xff\xfe" * 1000 + b'\n"text"\n{"level": "info"}\n[]\n')
        assert isinstance(await client.call_tool("a", {}), ToolResult)
        assert client.garbage == 6
        assert reported[0] == (b"Server listening...", 1)
        assert [count for _, count in reported] == [1, 2, 3, 4, 5, 6]
        assert max(len(data) for data, _ in reported) == 500


async def test_an_answer_that_is_too_large_fails_its_call_only() -> None:
    """MCP-071"""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server, frame_limit=1000) as client:
        large = asyncio.create_task(client.call_tool("large", {}))
        small = asyncio.create_task(client.call_tool("small", {}))
        first = await server.message(lambda message: message.get("params", {}).get("name") == "large")
        second = await server.message(lambda message: message.get("params", {}).get("name") == "small")
        server.send_bytes(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % first["id"])
        server.send_bytes(b"x" * 2000)
        with pytest.raises(TooLarge):
            await large
        server.send_bytes(b"x" * 2000 + b'"}]}}\n')
        server.answer(second["id"], RESULT)
        assert isinstance(await small, ToolResult)


@pytest.mark.parametrize("start", [b"x", b'{"jsonrpc":"2.0","id":99,"result":{"a":"', b'{"jsonrpc":"2.0","method":"'])
async def test_a_line_without_end_that_answers_no_call_ends_the_connection(start: bytes) -> None:
    """MCP-071"""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server, frame_limit=1000) as client:
        call = asyncio.create_task(client.call_tool("a", {}))
        await server.called("tools/call")
        server.send_bytes(start + b"x" * 2000)
        with pytest.raises(TooLarge):
            await call
        assert isinstance(client.end, TooLarge)


async def test_a_frame_of_100_megabytes_is_not_kept() -> None:
    """MCP-071"""
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server) as client:
        call = asyncio.create_task(client.call_tool("a", {}))
        message = await server.called("tools/call")
        piece = b"x" * (1024 * 1024)
        tracemalloc.start()
        try:
            server.send_bytes(b'{"jsonrpc":"2.0","id":%d,"result":{"content":"' % message["id"])
            for _ in range(100):
                server.send_bytes(piece)  # the same bytes each time
                await asyncio.sleep(0)
            with pytest.raises(TooLarge):
                await call
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 40 * 1024 * 1024
        server.send_bytes(b'"}}\n')
        await client.ping()


async def test_a_process_that_ends_fails_its_calls_with_status_and_last_line() -> None:
    """MCP-072"""
    ends: list[McpError] = []
    server = ScriptedServer({"tools/call": SILENCE})
    async with await connected(server, Handlers(on_closed=ends.append)) as client:
        calls = [asyncio.create_task(client.call_tool("a", {})) for _ in range(2)]
        await server.called("tools/call")
        server.die(-9, "out of\x1b memory")
        for call in calls:
            with pytest.raises(ServerClosed, match=r"exit status -9; its last line on stderr: out of memory") as raised:
                await call
            assert (raised.value.exit_status, raised.value.last_stderr) == (-9, "out of\x1b memory")
        with pytest.raises(ServerClosed, match="exit status -9"):
            await client.list_tools()
        assert client.end is not None
        assert ends == [client.end]
    assert len(ends) == 1


async def test_writing_to_a_process_that_has_ended_tells_how_it_ended() -> None:
    """MCP-072"""
    server = ScriptedServer()
    async with await connected(server) as client:
        server.end = type(server.end)(3, "bye")
        server.closed = True
        with pytest.raises(ServerClosed, match="exit status 3"):
            await client.ping()


async def test_a_process_that_does_not_read_holds_up_one_message() -> None:
    """MCP-074, MCP-023"""
    server = ScriptedServer()
    async with await connected(server, timeouts=Timeouts(execution=0.02)) as client:
        server.writable.clear()
        before = len(server.received)
        results = await asyncio.gather(*(client.call_tool("a", {}) for _ in range(20)), return_exceptions=True)
        assert {type(result) for result in results} == {Timeout}
        assert server.most_writing == 1
        assert len(server.received) == before


async def test_closing_ends_everything_that_waits() -> None:
    """MCP-073"""
    server = ScriptedServer({"tools/call": SILENCE})
    client = await connected(server)
    before = asyncio.all_tasks()
    call = asyncio.create_task(client.call_tool("a", {}))
    await server.called("tools/call")
    await client.close()
    await client.close()
    with pytest.raises(ServerClosed):
        await call
    assert server.closed
    assert asyncio.all_tasks() <= before


async def test_real_processes_that_fail(tmp_path: Path) -> None:
    """MCP-072, MCP-004"""
    script = tmp_path / "server.py"
    script.write_text("import sys\nprint('no such option', file=sys.stderr)\nsys.exit(2)\n")
    with pytest.raises(ServerClosed, match="exit status 2; its last line on stderr: no such option"):
        await connect_stdio(starter(script), INFO)
    script.write_text("import sys\nfor line in sys.stdin: pass\n")
    with pytest.raises(Timeout, match="initialize"):
        await connect_stdio(starter(script), INFO, timeouts=Timeouts(startup=0.1))
