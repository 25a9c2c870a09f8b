"""The LLM package against bare reads of the same streams, and its encoding against its own early turns. `make bench`.

A child process serves the streams, so that only the reading side is measured; figures are this process's CPU."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import httpx2

from holdfast.llm.event import TextDelta
from holdfast.llm.lifecycle import Emitter
from holdfast.llm.limits import DEFAULT_LIMITS
from holdfast.llm.model import Model
from holdfast.llm.protocols.anthropic_messages import AnthropicMessages
from holdfast.llm.protocols.chat_stream import ChatDecoder
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.request import Message, TextPart, ToolCallPart, assistant, make_request, tool_result, user
from holdfast.llm.route.network import NetworkTransport
from holdfast.llm.route.route import Route
from holdfast.llm.stream import Decoding, prepare, stream
from holdfast.schema.codec import encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.llm.protocols.base import WireProtocol

DELTAS = 20_000
STREAMS, RATE, SECONDS = 200, 50, 4
ROUNDS = 3


# -- the child: one stream at full speed, or many at a pace ---------------------------------------------------------


def _frame(text: str, finish: str | None = None) -> bytes:
    delta = {"content": text} if finish is None else {}
    return b"data: " + encode({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}) + b"\n\n"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
            )
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            await (_paced if head.startswith(b"POST /paced") else _burst)(writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _burst(writer: asyncio.StreamWriter) -> None:
    frames = [_frame(f"word{index} ") for index in range(DELTAS)] + [_frame("", "stop"), b"data: [DONE]\n\n"]
    for start in range(0, len(frames), 32):
        # A chunk per event, as providers send them; several chunks per write, as the network delivers them.
        writer.write(b"".join([b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames[start : start + 32]]))
        await writer.drain()
    writer.write(b"0\r\n\r\n")


async def _paced(writer: asyncio.StreamWriter) -> None:
    for index in range(RATE * SECONDS):
        frame = _frame(f"word{index} ")
        writer.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        await asyncio.sleep(1 / RATE)
    last = _frame("", "stop")
    writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last))


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    child = await asyncio.create_subprocess_exec(sys.executable, __file__, "--serve", stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await child.stdout.readline())}"
    finally:
        child.kill()
        await child.wait()


# -- reading --------------------------------------------------------------------------------------------------------


async def delta_cost(url: str) -> float:
    """CPU per text delta through transport, framing and decoder, over a bare aiohttp read of the same stream."""
    transport = NetworkTransport()
    model = _model(OpenAIChat(), f"{url}/burst")
    request = make_request(prompt="go")
    ratios = []
    async with aiohttp.ClientSession(read_bufsize=256 * 1024) as session:
        for _ in range(ROUNDS + 1):
            bare = await _cpu(lambda: _read_bare(session, f"{url}/burst/chat/completions"))
            ours = await _cpu(lambda: _read_ours(transport, model, request))
            ratios.append(ours / bare)
            print(f"    {ours / DELTAS * 1e6:.2f} us a delta, bare read {bare / DELTAS * 1e6:.2f}")
    await transport.close()
    return statistics.median(ratios[1:])


async def many_streams(url: str) -> float:
    """CPU per event of 200 paced streams, decoding included, over what httpx2 needs merely to read them."""
    transport = NetworkTransport()
    model = _model(OpenAIChat(), f"{url}/paced")
    request = make_request(prompt="go")
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(limits=limits, timeout=None) as client:
        other = await _cpu(lambda: _together(lambda: _read_httpx2(client, f"{url}/paced/chat/completions")))
    ours = await _cpu(lambda: _together(lambda: _read_ours(transport, model, request)))
    await transport.close()
    events = STREAMS * RATE * SECONDS
    print(f"    {ours / events * 1e6:.0f} us an event, httpx2 reading only {other / events * 1e6:.0f}")
    return ours / other


class _Uncounted(Emitter):
    """As if an answer had no limits."""

    def text(self, id: str, text: str) -> None:
        if text:
            self.open_text(id)
            self._out.append(TextDelta(id, text))


async def limits_cost(url: str) -> float:
    """CPU per text delta through the decoder, with its size counted against the limits, over the same without."""
    frames = [_frame(f"word{index} ")[6:-2] for index in range(DELTAS)]
    counted: list[float] = []
    uncounted: list[float] = []
    for _ in range(5 * ROUNDS):
        for emitter, times in ((Emitter(), counted), (_Uncounted(), uncounted)):
            decoder = ChatDecoder("bench")
            decoder._emit = emitter
            decoding = Decoding(decoder, DEFAULT_LIMITS)
            started = time.process_time()
            for start in range(0, DELTAS, 100):
                decoding.events(frames[start : start + 100])
            times.append(time.process_time() - started)
    print(f"    {min(counted) / DELTAS * 1e6:.2f} us a delta, without counting {min(uncounted) / DELTAS * 1e6:.2f}")
    return min(counted) / min(uncounted)


async def _read_bare(session: aiohttp.ClientSession, url: str) -> None:
    async with session.post(url, data=b"{}") as response:
        async for _ in response.content.iter_any():
            pass


async def _read_httpx2(client: httpx2.AsyncClient, url: str) -> None:
    async with client.stream("POST", url, content=b"{}") as response:
        async for _ in response.aiter_raw():
            pass


async def _read_ours(transport: NetworkTransport, model: Model, request: object) -> None:
    async for _ in stream(transport, model, request):  # type: ignore[arg-type]
        pass


async def _together(read: Callable[[], Awaitable[None]]) -> None:
    await asyncio.gather(*(read() for _ in range(STREAMS)))


async def _cpu(work: Callable[[], Awaitable[None]]) -> float:
    started = time.process_time()
    await work()
    return time.process_time() - started


# -- encoding -------------------------------------------------------------------------------------------------------


async def turn_cost(url: str) -> float:
    """Lowering and encoding what is new, up to the chunks for the transport, at turn 500 over turn 10."""
    worst = 0.0
    for protocol in (OpenAIChat(), AnthropicMessages()):
        early, late = [], []
        for _ in range(ROUNDS):
            prepared = prepare(_model(protocol, url), make_request(system="x" * 20_000, prompt="start"))
            times = []
            for turn in range(520):
                new = _turn(turn)
                started = time.perf_counter()
                prepared.extend(new)
                prepared.chunks()
                times.append(time.perf_counter() - started)
            early.append(statistics.median(times[5:25]))
            late.append(statistics.median(times[495:515]))
        ratio = statistics.median(late) / statistics.median(early)
        print(f"    {protocol.name}: {statistics.median(early) * 1e6:.0f} us at 10, {ratio:.2f} times that at 500")
        worst = max(worst, ratio)
    return worst


def _turn(number: int) -> list[Message]:
    call = ToolCallPart(id=f"call_{number}", name="read", input={"path": f"file{number}.txt"})
    return [
        assistant(TextPart(text="Let me look at that file. " * 4), call),
        tool_result(f"call_{number}", "read", {"content": "line of a file\n" * 60}),
        *([user("And now the next one, please.")] if number % 5 == 0 else []),
    ]


def _model(protocol: WireProtocol, url: str) -> Model:
    return Model("bench", "bench", Route("bench", protocol, url))


SCENARIOS: tuple[tuple[str, Callable[[str], Awaitable[float]], float], ...] = (
    ("CPU per text delta against a bare aiohttp read", delta_cost, 3.0),
    ("CPU per text delta in the decoder, with limits against without", limits_cost, 1.2),
    ("200 paced streams, decoded, against httpx2 reading them", many_streams, 1.0),
    ("encoding what is new at turn 500 against turn 10", turn_cost, 1.3),
)


async def main() -> int:
    failed = 0
    async with served() as url:
        for name, measure, bound in SCENARIOS:
            ratio = await measure(url)
            failed += ratio > bound
            print(f"{'ok ' if ratio <= bound else 'BAD'} {name}: {ratio:.2f} (<= {bound})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_serve() if "--serve" in sys.argv else main()))
