"""A provider that plays frames under a test's control, and a runtime configured around it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.core.conftest import NoInput, ToolRuntime, event_types
from tests.llm.support import chunk, sse

from holdfast.core.clock import Clock
from holdfast.core.event.bus import Announcement
from holdfast.core.location.services import LocationServices
from holdfast.core.runner.runner import Runner
from holdfast.core.runner.settings import SessionSettings
from holdfast.core.session.liveness import FileLiveness
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.llm.route.transport import HttpRequest
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef

T = TypeVar("T")
Piece = bytes | asyncio.Event | Exception
LAB = ModelRef(id="m", provider_id="lab")
CLAUDE = ModelRef(id="m", provider_id="claude")
OTHER = ModelRef(id="other", provider_id="lab")
TOO_LONG = "This model's maximum context length is 100 tokens. Your messages resulted in 200 tokens."


class Reply(NamedTuple):
    """What one request gets: pieces of a body, each a network read; an event holds it up, an exception breaks it."""

    pieces: Sequence[Piece]
    status: int = 200

    def release(self) -> None:
        pass

    def chunks(self) -> AsyncIterator[bytes]:
        return self._play()

    async def _play(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            elif isinstance(piece, Exception):
                raise piece
            else:
                yield piece
            await asyncio.sleep(0)

    @property
    def headers(self) -> Mapping[str, str]:
        return {"content-type": "text/event-stream" if self.status == 200 else "application/json"}

    async def close(self) -> None:
        pass


class Provider:
    """Speaks OpenAI's chat format. Replies in order; without any it says `done`."""

    def __init__(self, *replies: Reply | Callable[[dict[str, Any]], Reply]) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self._arrived = asyncio.Condition()
        self._gates: dict[int, asyncio.Event] = {}

    def hold(self, turn: int) -> asyncio.Event:
        return self._gates.setdefault(turn, asyncio.Event())

    async def seen(self, count: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    async def send(self, request: HttpRequest) -> Reply:
        raw = b"".join(request.body)
        index = len(self.requests)
        async with self._arrived:
            self.raw.append(raw)
            self.headers.append(request.headers)
            self.requests.append(decode_any(raw))
            self._arrived.notify_all()
        if gate := self._gates.get(index):
            await gate.wait()
        reply = self.replies[index] if index < len(self.replies) else says("done")
        return reply(self.requests[index]) if callable(reply) else reply

    async def close(self) -> None:
        pass


def says(text: str = "done", *, usage: dict[str, Any] | None = None, finish: str = "stop") -> Reply:
    return Reply([*_text(text), *ending(finish, usage)])


def calls(*wanted: tuple[str, object], text: str = "", usage: dict[str, Any] | None = None) -> Reply:
    """One complete call each, all at once before the end."""
    named = [call(index, tool, given) for index, (tool, given) in enumerate(wanted)]
    return Reply([*_text(text), *named, *ending("tool_calls", usage)])


def call(index: int, tool: str, given: object = None, *, id: str | None = None) -> bytes:
    arguments = given if isinstance(given, str) else encode({} if given is None else given).decode()
    return fragment(index, arguments, id=id or f"call_{index}", tool=tool)


def fragment(index: int, arguments: str, *, id: str | None = None, tool: str | None = None) -> bytes:
    function = {"arguments": arguments, **({"name": tool} if tool else {})}
    item = {"index": index, "function": function, **({"id": id, "type": "function"} if id else {})}
    return sse(chunk({"tool_calls": [item]}))


def ending(finish: str = "stop", usage: dict[str, Any] | None = None) -> list[Piece]:
    used = sse({"choices": [], "usage": usage}) if usage else b""
    return [sse(chunk(finish=finish)) + used + b"data: [DONE]\n\n"]


def error_event(message: str, **more: object) -> bytes:
    """An error that the provider reports inside a stream which it had begun."""
    return sse({"error": {"message": message, **more}})


def refuses(message: str, status: int = 400, **more: object) -> Reply:
    return Reply([encode({"error": {"message": message, **more}})], status)


def overflows() -> Reply:
    return refuses(TOO_LONG, code="context_length_exceeded")


def _text(text: str) -> list[Piece]:
    return [sse(chunk({"content": text}))] if text else []


# -- Anthropic's format, in which a call is complete before its answer ends --------------------------------------------


def claude_answer(*pieces: Piece) -> Reply:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}
    return Reply([sse(start), *pieces])


def claude_text(index: int, text: str, kind: str = "text") -> bytes:
    """A block of text or thinking that is not closed yet."""
    block = {"type": kind, kind: ""}
    delta = {"type": f"{kind}_delta", kind: text}
    return sse(
        {"type": "content_block_start", "index": index, "content_block": block},
        {"type": "content_block_delta", "index": index, "delta": delta},
    )


def claude_call(index: int, tool: str, arguments: str = "{}", *, whole: bool = True) -> bytes:
    block = {"type": "tool_use", "id": f"call_{index}", "name": tool, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    frames: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": index, "content_block": block},
        {"type": "content_block_delta", "index": index, "delta": delta},
    ]
    return sse(*frames, *([{"type": "content_block_stop", "index": index}] if whole else []))


def claude_error(message: str) -> bytes:
    return sse({"type": "error", "error": {"type": "overloaded_error", "message": message}})


CLAUDE_END = sse(
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)


class Lab(ToolRuntime):
    """A runtime with a configuration file, tools and, where given, settings that no file names."""

    def __init__(
        self,
        folder: Path,
        provider: Any,
        *,
        tools: Mapping[str, Tool[Any, Any]] | None = None,
        config: Mapping[str, Any] | None = None,
        limit: Mapping[str, int] | None = None,
        settings: SessionSettings | None = None,
        clock: Clock | None = None,
        directory: Path | None = None,
    ) -> None:
        data = folder / "data"
        configure(folder, config, limit)
        project = directory or folder / "project"
        project.mkdir(exist_ok=True)
        super().__init__(data=data, directory=project, transport=provider, tools=tools, clock=clock)
        self._fixed = settings

    async def _build_services(self, location: Location) -> LocationServices:
        services = await super()._build_services(location)
        if self._fixed is None:
            return services
        fixed = self._fixed
        given = services.runner._services
        here = given.here.replace(settings=lambda: fixed)
        return services.replace(runner=Runner(given.replace(here=here)))


async def crashed(life: Callable[[], Coroutine[Any, Any, tuple[Lab, T]]]) -> T:
    """A life on a loop of its own that ends as `kill -9` ends one. What it saw last is returned."""

    def live_and_die() -> T:
        loop = asyncio.new_event_loop()
        runtime, seen = loop.run_until_complete(life())
        die(loop, runtime)
        return seen

    return await asyncio.to_thread(live_and_die)


def die(loop: asyncio.AbstractEventLoop, runtime: ToolRuntime) -> None:
    """The lock is free, nothing more is written, and no line of this life does anything again."""
    liveness = runtime._ownership._liveness
    if isinstance(liveness, FileLiveness) and liveness._lock is not None:
        os.close(liveness._lock)
        liveness._lock = None
    runtime.database.close()
    loop.set_exception_handler(lambda loop, context: None)
    for _ in range(100):
        tasks = asyncio.all_tasks(loop)
        if not tasks:
            break
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=0.2))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def configure(folder: Path, config: Mapping[str, Any] | None = None, limit: Mapping[str, int] | None = None) -> None:
    where = folder / "data" / ".config" / "opencode"
    where.mkdir(parents=True, exist_ok=True)
    model = {"limit": dict(limit)} if limit else {}
    compatible = {"type": "aisdk", "package": "@ai-sdk/openai-compatible", "url": "http://lab.invalid/v1"}
    lab = {"api": compatible, "models": {"m": model, "other": model}}
    own = {"type": "aisdk", "package": "@ai-sdk/anthropic", "url": "http://claude.invalid/v1"}
    claude = {"api": {**own, "settings": {"apiKey": "k"}}, "models": {"m": model}}
    given = {"providers": {"lab": lab, "claude": claude}, "agents": {"quick": {"mode": "all"}}, "snapshots": False}
    (where / "opencode.json").write_text(json.dumps({**given, **(config or {})}), encoding="utf-8")


def tool(execute: Callable[[ToolContext], Any]) -> Tool[NoInput, dict[str, Any]]:
    """A tool from what it does; it needs to be told nothing."""

    async def run(given: NoInput, context: ToolContext) -> dict[str, Any]:
        outcome = execute(context)
        if asyncio.iscoroutine(outcome):
            outcome = await outcome
        return outcome if isinstance(outcome, dict) else {"ok": True}

    return Tool(description="for a test", input=NoInput, output=dict[str, Any], execute=run)


async def until(happened: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Look until it is so; for what tells nobody when it happens."""
    async with asyncio.timeout(20):
        while not await happened():  # noqa: ASYNC110 - rows call nobody
            await asyncio.sleep(0.001)


async def recorded(runtime: ToolRuntime, session_id: str, type: str) -> None:
    """Returns once such an event is in the log."""

    async def there() -> bool:
        return type in await event_types(runtime, session_id)

    await until(there)


def live(heard: Sequence[Announcement], type: str) -> list[dict[str, Any]]:
    """What the announcements of one type said."""
    return [decode_any(item.wire)["data"] for item in heard if item.type == type]


def contents(request: Mapping[str, Any], role: str = "user") -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == role]


def roles(request: Mapping[str, Any]) -> list[str]:
    return [message["role"] for message in request["messages"]]
