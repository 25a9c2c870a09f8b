"""The stream of one page: the followed Session, the open work and the open requests, in one connection. For other
readers, such as a terminal: the followed Session as text, and the open requests of its tree.

Invariants
- Entries follow the log by sequence: none is left out, and what is sent twice is whole.
- Nothing is read while nothing has changed, and each part is read at most so often.
- A reader that falls behind is ended; the page connects again with the sequence that it has reached."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from holdfast.core.event.errors import SubscriberOverflow
from holdfast.schema.version import __version__
from holdfast.schema.view import Bye, Hello
from holdfast.server.web.followed import Followed
from holdfast.server.web.frames import framed
from holdfast.server.web.sources import Sources
from holdfast.server.web.state import State
from holdfast.server.web.watch import FAREWELL, TYPES, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.core.event.bus import Announcement, Subscription
    from holdfast.core.event.signal import Flag
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.schema.access import Role
    from holdfast.server.types import Frames

CAPACITY = 1_024
"""Deltas that wait for a slow reader."""
COLLECT_SECONDS = 0.05
"""How long changes are collected before they are read."""
FLUSH_SECONDS = 1 / 30
"""Between two flushes of live text."""
APART = {"status": 0.25, "requests": 0.25, "overview": 1.0}
"""Seconds between two reads."""
UNANNOUNCED_SECONDS = 3.0
"""Between two reads after commits of which nothing was announced."""


def frames(
    runtime: Runtime,
    session_id: str | None,
    after: int | None,
    ended: asyncio.Event,
    *,
    version: str = "",
    role: Role = "admin",
) -> Frames:
    """`ended` is set when the person signs out. `version` is that of the page's files, with which a page compares its
    own. `role` is that of the person."""
    followed = Followed(runtime, session_id) if session_id is not None else None
    return _frames(runtime, followed, after, ended, version, role)


def text_frames(runtime: Runtime, session_id: str, after: int | None) -> Frames:
    """The conversation of one Session as text."""
    followed = Followed(runtime, session_id, "text")
    return _frames(runtime, followed, after, asyncio.Event(), __version__, page=False)


async def _frames(
    runtime: Runtime,
    followed: Followed | None,
    after: int | None,
    ended: asyncio.Event,
    version: str,
    role: Role | None = None,
    *,
    page: bool = True,
) -> Frames:
    session_id = followed.session_id if followed is not None else None
    watch = Watch(session_id)
    async with AsyncExitStack() as stack:
        subscription = await stack.enter_async_context(
            runtime.log.relay.observe(TYPES, capacity=CAPACITY, accepts=watch.accepts)
        )
        stack.enter_context(runtime.log.signals.watch(watch.committed))
        dirty = stack.enter_context(runtime.log.signals.follow(session_id)) if session_id is not None else None
        head = await followed.head() if followed is not None else None
        yield framed(Hello(version=version, now=runtime.now(), head=head, role=role))
        batch: list[Announcement] = []
        if followed is not None:
            async for chunk in followed.catch_up(after):
                yield chunk
            if followed.gone:
                followed = None
            else:
                batch = await followed.join(subscription)
        loop = _Loop(watch, State(runtime), followed, dirty, batch, page=page)
        sources = Sources(loop.waits(subscription, ended))
        stack.push_async_callback(sources.close)
        try:
            while not loop.over:
                if chunk := await loop.step(sources):
                    yield chunk
        except SubscriberOverflow:
            return


class _Loop:
    """What is due when."""

    def __init__(
        self,
        watch: Watch,
        state: State,
        followed: Followed | None,
        dirty: Flag | None,
        batch: list[Announcement],
        *,
        page: bool,
    ) -> None:
        self._watch = watch
        self._state = state
        self._followed = followed
        self._dirty = dirty
        self._batch = batch
        self._now = asyncio.get_running_loop().time
        self._read: dict[str, float] = {}
        """When each part was read last."""
        self._states = ("status", "requests", "overview") if page else ("status", "requests")
        self._below = None if page or followed is None else followed.session_id
        self._due: dict[str, float] = dict.fromkeys(self._states[1:], 0.0)
        if followed is not None:
            self._due |= {"status": 0.0, "live": 0.0}
        self.over = False

    def waits(
        self, subscription: Subscription, ended: asyncio.Event
    ) -> dict[str, Callable[[], Coroutine[Any, Any, Any]]]:
        waits: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "live": subscription.next,
            "changed": self._watch.changed.wait,
            "ended": ended.wait,
        }
        return waits if self._dirty is None else {**waits, "durable": self._dirty.wait}

    async def step(self, sources: Sources) -> bytes:
        """Wait until something is due, and do it."""
        waited = ("live", "changed", "durable") if self._followed is not None else ("live", "changed")
        sources.arm("ended", *(name for name in waited if name not in self._due))
        timeout = max(0.0, min(self._due.values()) - self._now()) if self._due else None
        happened = await sources.wait(timeout)
        now = self._now()
        if "ended" in happened:
            return self._bye(Bye(reason="signed-out"))
        if "live" in happened:
            self._batch += happened["live"]
            if not happened["live"] or any(item.type == FAREWELL for item in self._batch):
                return self._bye(Bye(reason="stopping"))
            self._plan("live", self._read.get("live", 0.0) + FLUSH_SECONDS)
        if "durable" in happened:
            self._plan("durable", now + COLLECT_SECONDS)
        if "changed" in happened:
            self._plan("changed", now + COLLECT_SECONDS)
        return await self._do([name for name, due in self._due.items() if due <= now])

    async def _do(self, names: list[str]) -> bytes:
        """In an order in which an entry comes before its live text."""
        pieces = []
        for name in ("changed", "durable", "live", "status", "requests", "overview"):
            if name in names and name in self._due:
                del self._due[name]
                self._read[name] = self._now()
                pieces.append(await self._part(name))
        return b"".join(pieces)

    async def _part(self, name: str) -> bytes:
        followed = self._followed
        if name == "changed":
            self._plan_state()
        elif name == "overview":
            return await self._state.overview()
        elif name == "requests":
            self._watch.unannounced = False
            return await self._state.requests(self._below)
        elif followed is None:
            return b""
        elif name == "status":
            return await self._state.status(followed.session_id)
        elif name == "durable":
            assert self._dirty is not None
            self._dirty.clear()
            self._plan("status", self._read.get("status", 0.0) + APART["status"])
            frames = await followed.durable()
            if followed.holding:
                self._plan("live", self._read["durable"])
            return self._unless_gone(followed, frames)
        elif name == "live":
            batch, self._batch = self._batch, []
            return self._unless_gone(followed, await followed.live(batch))
        return b""

    def _unless_gone(self, followed: Followed, frames: bytes) -> bytes:
        if followed.gone:
            self._followed = None
            for name in ("durable", "live", "status"):
                self._due.pop(name, None)
        return frames

    def _plan_state(self) -> None:
        watch = self._watch
        watch.changed.clear()
        for name in self._states:
            if getattr(watch, name):
                setattr(watch, name, False)
                if name != "status" or self._followed is not None:
                    self._plan(name, self._read.get(name, 0.0) + APART[name])
        if watch.unannounced:
            for name in self._states[1:]:
                self._plan(name, self._read.get(name, 0.0) + UNANNOUNCED_SECONDS)

    def _plan(self, name: str, when: float) -> None:
        self._due[name] = min(self._due.get(name, when), when)

    def _bye(self, frame: Bye) -> bytes:
        self.over = True
        return framed(frame)
