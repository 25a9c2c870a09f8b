"""The feed of a conversation, with a server that plays prepared answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from tests.client.conftest import JSON, SSE, FakeResponse
from tests.tui.samples import entries, user

from holdfast.client.errors import ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.transport import Request, Response
from holdfast.schema.codec import encode
from holdfast.schema.rendered import Entry
from holdfast.schema.view import Caught, Hello, ViewFrame
from holdfast.tui import feed as feeds
from holdfast.tui.conversation import Conversation
from holdfast.tui.feed import Feed

pytestmark = pytest.mark.anyio

PATIENCE = 30


class Server:
    """Answers each stream with the next of `streams`, and pages with `pages`; the last of them again and again."""

    def __init__(self, *streams: FakeResponse, pages: list[FakeResponse]) -> None:
        self._streams = list(streams)
        self._pages = pages
        self.targets: list[str] = []

    async def send(self, request: Request) -> Response:
        self.targets.append(request.target)
        answers = self._streams if "/view" in request.target else self._pages
        response = answers.pop(0) if len(answers) > 1 else answers[0]
        if response.failure is not None and not response.pieces:
            raise response.failure
        return response

    async def close(self) -> None:
        pass

    @property
    def streams(self) -> list[str]:
        return [target.partition("?")[2] for target in self.targets if "/view" in target]


def stream(*frames: ViewFrame, failure: Exception | None = None) -> FakeResponse:
    pieces = [b"data: " + encode(frame) + b"\n\n" for frame in (Hello(version="1", now=0, head=3), *frames)]
    return FakeResponse(200, pieces, content_type=SSE, hang=failure is None, failure=failure)


def pages(*given: Entry, next: str | None = None) -> FakeResponse:
    body = {"data": [msgspec.json.decode(encode(entry)) for entry in reversed(given)], "cursor": {"next": next}}
    return FakeResponse(200, msgspec.json.encode(body), content_type=JSON)


class Running:
    def __init__(self, server: Server) -> None:
        self.conversation = Conversation()
        self.calls: list[float] = []
        self._changed = asyncio.Event()
        self.feed = Feed(AsyncClient(server), "ses_1", self.conversation, on_change=self._change)

    def _change(self) -> None:
        self.calls.append(asyncio.get_running_loop().time())
        self._changed.set()

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not met():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
async def run() -> AsyncIterator[Callable[[Server], Running]]:
    tasks: list[asyncio.Task[None]] = []

    def start(server: Server) -> Running:
        running = Running(server)
        tasks.append(asyncio.get_running_loop().create_task(running.feed.run()))
        return running

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_stream_goes_on_after_the_last_sequence(run: Callable[[Server], Running]) -> None:
    """TUI-042: a connection that broke before it had reached anything begins anew, with the newest page."""
    lost = ClientError("Transport", "reset")
    server = Server(
        stream(failure=lost),
        stream(Caught(seq=3), entries(7, user(7, "seven")), failure=lost),
        stream(entries(9, user(9, "nine"))),
        pages=[pages(user(1, "one"))],
    )
    running = run(server)

    await running.until(lambda: len(running.conversation.entries) == 3)

    assert server.streams == ["", "", "after=7"]
    assert [entry.seq for entry in running.conversation.entries] == [1, 7, 9]


async def test_what_a_server_refuses_is_told(run: Callable[[Server], Running]) -> None:
    """TUI-042: in one safe line."""
    refused = FakeResponse(401, b'{"_tag": "UnauthorizedError", "message": "no \\u001b[31mpassword"}')
    server = Server(refused, pages=[pages()])
    running = run(server)

    await running.until(lambda: running.feed.connection.state == "refused")

    assert "password" in running.feed.connection.error
    assert "\x1b" not in running.feed.connection.error


async def test_a_page_that_fails_is_asked_for_again(run: Callable[[Server], Running]) -> None:
    """TUI-041"""
    broken = FakeResponse(200, b"", failure=ClientError("Transport", "reset"))
    broken.pieces = []
    running = run(Server(stream(Caught(seq=3)), pages=[broken, pages(user(1, "one"))]))

    await running.until(lambda: running.conversation.loaded)

    assert [entry.id for entry in running.conversation.entries] == ["msg_u1"]


async def test_the_screen_is_told_of_many_changes_few_times(run: Callable[[Server], Running]) -> None:
    """TUI-040: at most 25 times a second, and always of the last."""
    many = [entries(number, user(number, str(number))) for number in range(4, 1_000)]
    running = run(Server(stream(*many), pages=[pages(user(1, "one"))]))

    await running.until(lambda: len(running.conversation.entries) == 997)

    span = running.calls[-1] - running.calls[0]
    assert len(running.calls) <= 2 + span / feeds.APART


async def test_a_cursor_that_the_server_refuses_is_told(run: Callable[[Server], Running]) -> None:
    """TUI-033"""
    refused = FakeResponse(400, b'{"_tag": "InvalidCursorError", "message": "Edited"}')
    running = run(Server(stream(Caught(seq=3)), pages=[pages(user(5, "five"), next="cursor"), refused]))
    await running.until(lambda: running.conversation.loaded)

    running.feed.load_older()
    await running.until(lambda: running.conversation.older is None)

    assert "Edited" in running.feed.problem


async def test_a_conversation_that_grows_without_end_is_cut_while_its_end_is_shown(
    run: Callable[[Server], Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TUI-033: the newest page stays, and the way to older ones."""
    monkeypatch.setattr(feeds, "MOST_ENTRIES", 50)
    many = entries(200, *(user(number, str(number)) for number in range(100, 200)))
    first, newest = pages(user(1, "one")), pages(user(198, "198"), user(199, "199"), next="before")
    running = run(Server(stream(many), pages=[first, newest]))

    await running.until(lambda: len(running.conversation.entries) == 2)

    assert running.conversation.older == "before"
