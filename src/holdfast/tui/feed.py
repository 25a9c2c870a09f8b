"""Keeps a Conversation as the server has it: loads pages, follows the stream, connects again after a loss.

Invariants
- The newest page is asked for after the stream is open, so that nothing is missed in between. After a loss the stream
  goes on after the last sequence that it had reached; what was shown stays.
- Everything that is under way belongs to `run` and ends with it."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.tui.lines import safe_line
from holdfast.tui.passages import Target
from holdfast.tui.style import UNICODE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.overview import OpenRequest
    from holdfast.schema.view import Status, ViewFrame
    from holdfast.tui.conversation import Conversation

ConnectionState = Literal["connecting", "connected", "reconnecting", "refused", "gone"]

FIRST_PAGE = 50
"""Entries of the newest page: enough for the first screens."""
OLDER_PAGE = 200
CHILD_PAGE = 12
MOST_ENTRIES = 4_000
"""Entries that are kept while the end is shown; beyond that only the newest page stays."""
SILENCE = 45.0
"""Seconds without a frame or a heartbeat after which a connection counts as lost."""
APART = 0.04
"""Seconds between two calls of `on_change`."""
AT_ONCE = 8
"""Pages and bodies that are loaded at a time, and children that are followed."""
ERROR = 200
"""Characters of an error."""


class Connection(NamedTuple):
    state: ConnectionState
    since: float
    """When it began to be in this state, in seconds since the epoch."""
    attempts: int = 0
    error: str = ""
    """What failed, in one safe line. Of `refused`, what the server said: it is asked again all the same."""


class Feed:
    """`on_change` is called after changes, at most 25 times a second."""

    def __init__(
        self,
        client: AsyncClient,
        session_id: str,
        conversation: Conversation,
        *,
        on_change: Callable[[], None],
        page: int = FIRST_PAGE,
    ) -> None:
        self._client = client
        self._session_id = session_id
        self._conversation = conversation
        self._page = page
        self._changes = _Changes(on_change)
        self._reached: int | None = None
        """The sequence that the stream has reached."""
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: set[object] = set()
        self._children: dict[str, tuple[Target, Conversation, asyncio.Task[None]]] = {}
        """Children that are followed: the calls that they belong to, and the conversations that have these."""
        self.connection = Connection("connecting", time.time())
        self.status: Status | None = None
        self.requests: tuple[OpenRequest, ...] = ()
        self.problem = ""
        """What could not be loaded, in one safe line."""

    async def run(self) -> None:
        """Until it is cancelled or the Session is deleted."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(asyncio.to_thread(preload))
                ticking = tasks.create_task(self._tick())
                await self._follow()
                ticking.cancel()
                for *_, task in self._children.values():
                    task.cancel()
        finally:
            self._tasks = None
            self._under_way.clear()
            self._changes.close()

    def load_older(self) -> None:
        """Ask for the page before the first entry, if there is one and it is not under way."""
        if self._conversation.loaded and self._conversation.older is not None:
            self._start("older", self._load_older())

    def load_body(self, message_id: str, call_id: str) -> None:
        """Ask for the body of a call, or follow the child that it gave work to."""
        owner = self._conversation.find(message_id)
        entry = owner.entry(message_id) if owner is not None else None
        if owner is None:
            return
        call = next((part for part in getattr(entry, "parts", ()) if part.id == call_id), None)
        child_id = getattr(call, "child_id", None)
        if child_id is not None:
            self._follow_child(owner, child_id, Target("call", message_id, call_id))
        elif owner.is_outdated(message_id, call_id):
            self._start((message_id, call_id), self._load_body(owner, message_id, call_id))

    async def _follow(self) -> None:
        from holdfast.client.call import Options
        from holdfast.client.errors import ApiError, ClientError
        from holdfast.client.resume import TEMPORARY_STATUSES, Patience

        patience = Patience(attempts=None)
        failures = 0
        while True:
            options, error = Options(timeout=SILENCE), "the server ended the stream"
            temporary = True
            try:
                if self._reached is None:
                    self._conversation.expect_newest()
                stream = self._client.sessions.view(self._session_id, after=self._reached, options=options)
                async with aclosing(aiter(stream)) as frames:
                    async for frame in frames:
                        failures = 0
                        self._take(frame)
                        if self._conversation.is_gone:
                            return
            except (ApiError, ClientError) as failure:
                error = safe_line(str(failure))[:ERROR]
                is_transport = isinstance(failure, ClientError) and failure.reason == "Transport"
                temporary = is_transport or failure.status in TEMPORARY_STATUSES
                if failure.status == 404 and not is_transport:
                    self._connect("gone", error=error)
                    return
            failures += 1
            self._connect("reconnecting" if temporary else "refused", failures, error)
            await asyncio.sleep(patience.delay(failures) if temporary else patience.longest)

    def _take(self, frame: ViewFrame) -> None:
        from holdfast.schema.view import Caught, Entries, Gone, Hello, Requests, Reset, Status

        self._conversation.apply(frame)
        match frame:
            case Hello():
                self._conversation.skew = frame.now - time.time() * 1000
                self._connect("connected")
                if self._conversation.expects_newest:
                    self._start("newest", self._load_newest())
            case Reset():
                self._start("newest", self._load_newest())
            case Entries() | Caught():
                self._reached = max(frame.seq, self._reached or 0)
            case Status():
                self.status = frame
            case Requests():
                self.requests = frame.requests
            case Gone():
                self._connect("gone")
        self._changes.add()

    def _connect(self, state: ConnectionState, attempts: int = 0, error: str = "") -> None:
        since = self.connection.since if state == self.connection.state else time.time()
        self.connection = Connection(state, since, attempts, error)
        self._changes.add()

    def _start(self, name: object, work: Coroutine[None, None, None]) -> None:
        """Do it unless it is under way. Too many pages and bodies at a time wait until they are asked for again; the
        newest page is not asked for again."""
        is_full = len(self._under_way) >= AT_ONCE and name != "newest"
        if self._tasks is None or name in self._under_way or is_full:
            work.close()
            return
        self._under_way.add(name)
        self._tasks.create_task(self._finish(name, work))

    async def _finish(self, name: object, work: Coroutine[None, None, None]) -> None:
        from holdfast.client.errors import ApiError, ClientError

        try:
            await work
        except (ApiError, ClientError):
            await asyncio.sleep(1)  # what is still visible is asked for again, but not at once
        finally:
            self._under_way.discard(name)
            self._changes.add()

    async def _load_newest(self) -> None:
        from holdfast.client.errors import ApiError, ClientError

        while self._conversation.expects_newest:
            asked = self._conversation.expected
            try:
                page = await self._client.sessions.rendered(
                    self._session_id, limit=self._page, order="desc", format="text"
                )
            except (ApiError, ClientError):
                await asyncio.sleep(1)
                continue
            if asked == self._conversation.expected:  # otherwise the stream has asked for a newer one
                self._conversation.add_older(page)

    async def _load_older(self) -> None:
        from holdfast.client.errors import ApiError

        cursor = self._conversation.older
        if cursor is None:
            return
        try:
            page = await self._client.sessions.rendered(
                self._session_id, limit=OLDER_PAGE, cursor=cursor, format="text"
            )
        except ApiError as error:  # asking again would give the same
            self._conversation.older = None
            self.problem = f"older entries could not be loaded: {safe_line(str(error))[:ERROR]}"
            return
        if self._conversation.older == cursor:
            self._conversation.add_older(page)

    async def _load_body(self, owner: Conversation, message_id: str, call_id: str) -> None:
        from holdfast.client.errors import ApiError

        try:
            body = await self._client.sessions.rendered_call(
                owner.session_id or self._session_id, message_id=message_id, call_id=call_id, format="text"
            )
        except ApiError as error:
            owner.set_body(message_id, call_id, str(error))
        else:
            owner.set_body(message_id, call_id, body)

    def _follow_child(self, owner: Conversation, child_id: str, call: Target) -> None:
        if self._tasks is None or child_id in self._children:
            return
        if len(self._children) >= AT_ONCE:
            oldest, *_ = self._children.values()
            if owner.folds.is_open(oldest[0]):
                owner.folds.toggle(oldest[0])
            self._leave_folded()
        inner = owner.child_conversation(child_id)
        feed = Feed(self._client, child_id, inner, on_change=self._changes.add, page=CHILD_PAGE)
        self._children[child_id] = (call, owner, self._tasks.create_task(feed.run()))

    def _leave_folded(self) -> None:
        """Stop following children whose calls are folded, and those inside them."""
        for child_id, (call, owner, task) in list(self._children.items()):
            is_shown = self._conversation.find(call.message_id) is owner
            if not is_shown or not owner.folds.is_open(call):
                task.cancel()
                owner.children.pop(child_id, None)
                del self._children[child_id]
                self._changes.add()

    async def _tick(self) -> None:
        """Once a second: times that go on, children that were folded, entries that are too many."""
        while True:
            await asyncio.sleep(1)
            self._leave_folded()
            if self._conversation.is_at_end and len(self._conversation.entries) > MOST_ENTRIES:
                self._conversation.expect_newest()
                self._start("newest", self._load_newest())
            if self.status is not None and self.status.session.state != "idle":
                self._changes.add()


def preload() -> None:
    """Import what draws entries while the server is waited for, so that the first of them are drawn at once."""
    from holdfast.tui.text_chunks import TextChunks

    import_module("holdfast.tui.entry_lines")
    for chunk in TextChunks("`x`\n\n```python\nx\n```\n").chunks:
        chunk.lines(80, UNICODE)


class _Changes:
    """Calls back after changes: at once, and then not again before some time has passed."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._last = 0.0
        self._later: asyncio.TimerHandle | None = None

    def add(self) -> None:
        if self._later is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._last + APART - loop.time()
        if wait <= 0:
            self._now()
        else:
            self._later = loop.call_later(wait, self._now)

    def _now(self) -> None:
        self._later = None
        self._last = asyncio.get_running_loop().time()
        self._call()

    def close(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
            self._call()
