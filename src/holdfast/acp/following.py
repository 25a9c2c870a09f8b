"""Follows the tree of one Session and sends what happens to the editor, in order.

Invariants
- Events are handled one after the other by one task. An editor that reads slowly holds up this task only; what it
  misses meanwhile is read from the log.
- Nothing is sent before `begin`: until then events wait in the stream.
- Whoever stops following ends nothing but the following. The work goes on."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from holdfast.acp.tool_calls import ToolView
from holdfast.acp.translation import ChildOf, Translation, call_key
from holdfast.client.errors import ApiError, ClientError
from holdfast.client.resume import Patience, follow_tree
from holdfast.mcp.errors import McpError
from holdfast.schema import live_event as live
from holdfast.schema import session_event as ev

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.acp.asking import Asking
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.session import Session
    from holdfast.schema.typed_event import Event

Json = dict[str, Any]
PATIENCE = Patience(attempts=None, first=0.05, longest=2.0)
SUBSCRIBE_SECONDS = 30.0
DELIVERY_SECONDS = 120.0
"""How long the editor may read nothing before the end of an answer is not waited for any more."""
ENDED_MESSAGES = 1024
LOOK_SECONDS = 0.25
LONGEST_LOOK_SECONDS = 4.0
"""How often open requests are looked for while calls run: another process that executes the Session does not announce
them here."""

log = logging.getLogger(__name__)


class Following:
    def __init__(
        self,
        client: AsyncClient,
        session: Session,
        send: Callable[[Json], Awaitable[None]],
        asking: Asking,
        changed: Callable[[Event], Awaitable[None]],
        *,
        terminals: bool,
    ) -> None:
        """`changed` is told of events about the record of the Session, such as another title or agent."""
        self._client = client
        self._session_id = session.id
        self._directory = session.location.directory
        self._send = send
        self._asking = asking
        self._changed = changed
        self._terminals = terminals
        self.translation = Translation(ToolView(self._directory), terminals=terminals)
        self._children: dict[str, Translation] = {}
        self._subscribed = asyncio.Event()
        self._begun = asyncio.Event()
        self._ended: dict[str, None] = {}
        self._progress = asyncio.Condition()
        self._handled = 0
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Subscribe. Returns when no new event can be missed."""
        name = f"holdfast-acp {self._session_id}"
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)
        async with asyncio.timeout(SUBSCRIBE_SECONDS):
            await self._subscribed.wait()

    def begin(self) -> None:
        self._begun.set()
        self._look_while_calls_run()

    async def delivered(self, message_id: str) -> None:
        """Wait until the end of this answer was sent, as long as the editor reads."""
        handled = -1
        while handled != self._handled:
            handled = self._handled
            with suppress(TimeoutError):
                async with asyncio.timeout(DELIVERY_SECONDS), self._progress:
                    await self._progress.wait_for(lambda: message_id in self._ended)
                    return
        log.warning("the editor has not read the end of %s", message_id)

    async def close(self) -> None:
        tasks = {task for task in (self._task, self._looking) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- events ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        stream = follow_tree(
            self._client, self._session_id, replay=False, patience=PATIENCE, on_reconnect=lambda _: self._lost()
        )
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    if isinstance(event.data, live.TreeConnected):
                        await self._connected()
                        continue
                    await self._begun.wait()
                    await self._handle(event)
        except (ApiError, ClientError) as error:
            log.warning("%s is not followed any more: %s", self._session_id, error)
        except McpError:
            pass  # the editor has gone
        finally:
            self._subscribed.set()

    def _lost(self) -> None:
        for translation in (self.translation, *self._children.values()):
            translation.connection_lost()

    async def _connected(self) -> None:
        again = self._subscribed.is_set()
        self._subscribed.set()
        for translation in (self.translation, *self._children.values()):
            translation.live = True
        if again:
            await self._asking.look()

    async def _handle(self, event: Event) -> None:
        self._handled += 1
        self._asking.note(event)
        session_id = getattr(event.data, "session_id", None)
        if session_id == self._session_id:
            for update in self.translation.updates(event):
                await self._send(update)
            await self._changed(event)
            await self._note_end(event)
        elif isinstance(session_id, str) and (translation := await self._child(session_id)) is not None:
            for update in translation.updates(event):
                await self._send(update)
        match event.data:
            case ev.ToolCalled():
                self._look_while_calls_run()
            case ev.ToolSuccess() | ev.ToolFailed() if self._asking.asks:
                await self._asking.look()

    def _look_while_calls_run(self) -> None:
        if self._calls_run() and (self._looking is None or self._looking.done()):
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def _calls_run(self) -> bool:
        return any(translation.calls_run for translation in (self.translation, *self._children.values()))

    async def _look(self) -> None:
        pause = LOOK_SECONDS
        while self._calls_run():
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK_SECONDS)
            try:
                await self._asking.look()
            except (ApiError, ClientError) as error:
                log.debug("requests of %s cannot be listed: %s", self._session_id, error)

    async def _note_end(self, event: Event) -> None:
        if isinstance(event.data, ev.StepEnded | ev.StepFailed):
            async with self._progress:
                self._ended[event.data.assistant_message_id] = None
                if len(self._ended) > ENDED_MESSAGES:
                    del self._ended[next(iter(self._ended))]
                self._progress.notify_all()

    async def _child(self, session_id: str) -> Translation | None:
        """None for a Session that no call of the tree has given work to."""
        if session_id not in self._children:
            try:
                nodes = (await self._client.sessions.tree(self._session_id)).nodes
            except ApiError:
                return None
            for node in nodes[1:]:
                if node.id not in self._children and node.task is not None:
                    call = ChildOf(call_key(node.task.message_id, node.task.call_id))
                    view = ToolView(self._directory, node.agent or node.task.agent)
                    self._children[node.id] = Translation(view, child=call, terminals=self._terminals)
        return self._children.get(session_id)
