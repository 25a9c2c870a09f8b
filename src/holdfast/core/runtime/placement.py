"""Which node executes a Session: this one, if it serves the Session's directory and has room; else another that does.

Invariants
- What is given away is asked for with a row that the other node looks at. If that node dies first, its end is noticed,
  and the input is found as a lost wake.
- A Session goes from node to node only while there is one that was not asked: the request names those that were.
- Children are executed where they are asked for, without a limit: their parent waits for them, and has room already."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from holdfast.core.session.errors import Interrupted
from holdfast.core.session.nodes import rank, within
from holdfast.schema.exceptions import ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.nodes import Nodes, Owner
    from holdfast.core.session.ownership import Ownership
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session

TAKE = "take"
"""How the request to another node begins."""
ASKED_SECONDS = 60.0
ASKED_LIMIT = 10_000
"""Sessions of which it is remembered which nodes were asked."""
SHOWN = 5
"""Nodes, and directories of each, that a message names."""


class NoNodeServes(ServiceUnavailable):
    """No running node has the directory of a Session."""

    def __init__(self, location: Location, nodes: Sequence[Owner] = ()) -> None:
        served = f" They serve: {'; '.join(map(_served, nodes[:SHOWN]))}." if nodes else ""
        more = f" {len(nodes) - SHOWN} more run." if len(nodes) > SHOWN else ""
        message = f"No running node serves {location.directory}.{served}{more}"
        super().__init__(f"{message} A node that does begins with it when it starts.", service="node")


class ServedElsewhere(ServiceUnavailable):
    """Only a node that serves the directory can do this."""

    def __init__(self, location: Location) -> None:
        super().__init__(f"This node does not serve {location.directory}. Ask a node that does.", service="node")


class Placement:
    def __init__(
        self,
        nodes: Nodes,
        ownership: Ownership,
        *,
        shared: bool = False,
        keeps: Callable[[str], bool] = lambda directory: False,
    ) -> None:
        """`shared`: other machines use the database too, so that directories need not exist here. `keeps` tells
        whether this machine made a directory itself, as a copy for a Session, even if it is not there any more."""
        self._nodes = nodes
        self._ownership = ownership
        self._shared = shared
        self._keeps = keeps
        self._roots: tuple[str, ...] | None = None
        self._most: int | None = None
        self._slots: asyncio.Semaphore | None = None
        self._asked: OrderedDict[str, tuple[float, tuple[str, ...]]] = OrderedDict()
        """Until when it is remembered which nodes were asked before this one, by Session."""
        self._waiting: set[str] = set()
        self.draining = False
        """Whether this process executes nothing new."""
        nodes.room = self._room

    def limit(self, *, roots: Sequence[str] | None = None, most: int | None = None) -> None:
        """Execute Sessions in these directories only, and at most so many at once."""
        self._roots = None if roots is None else tuple(roots)
        self._most = most
        self._slots = None if most is None else asyncio.Semaphore(most)

    def serves(self, location: Location) -> bool:
        directory = location.directory
        if self._roots is not None:
            found = within(directory, self._roots)
        else:
            found = not self._shared or os.path.isdir(directory)
        return found or self._keeps(directory)

    async def missing(self, location: Location) -> NoNodeServes | None:
        """The error of a directory that no running node can have. A node that announces no directories may have it."""
        if not self.restricted or self.serves(location):
            return None
        nodes = await self._nodes.living()
        may = any(node.may_have(location.directory) for node in nodes if node.id != self._nodes.id)
        return None if may else NoNodeServes(location, nodes)

    async def has_nodes(self) -> bool:
        """Whether any node runs, this process included."""
        return bool(await self._nodes.living())

    async def has_other_nodes(self) -> bool:
        return any(node.id != self._nodes.id for node in await self._nodes.living())

    def asked(self, kind: str, session_id: str) -> None:
        """Another node asked this one to take a Session."""
        self._asked[session_id] = time.monotonic() + ASKED_SECONDS, tuple(kind.split()[1:])
        self._asked.move_to_end(session_id)
        if len(self._asked) > ASKED_LIMIT:
            self._asked.popitem(last=False)

    @property
    def restricted(self) -> bool:
        """Whether `given_away` has anything to decide."""
        return self._shared or self.draining or self._roots is not None or self._slots is not None

    async def given_away(self, session: Session, *, forced: bool = False) -> bool:
        """Whether another node is to execute the Session, because this one drains, has no room, or does not serve its
        directory; it is asked to. What is `forced` was asked of this process, and stays if it serves the directory.
        Raises NoNodeServes if no node does."""
        serves = self.serves(session.location)
        full = self._slots is not None and self._slots.locked() and session.parent_id is None
        if serves and (forced or not (self.draining or full)):
            return False
        until, before = self._asked.get(session.id, (0.0, ()))
        others = await self._others(session, before if until > time.monotonic() else ())
        if others:
            await self._ownership.ask_node(others[0].id, session.id, " ".join((TAKE, *before, self._nodes.id)))
            # Remembered for the case that it does not answer: then another is asked.
            self.asked(" ".join((TAKE, *before, others[0].id)), session.id)
            return True
        if not serves:
            raise NoNodeServes(session.location, await self._nodes.living())
        return self.draining

    def room(self, session: Session, interrupt: Interrupt) -> AbstractAsyncContextManager[None]:
        """Waits until this process may execute one more. Raises Interrupted if an interruption comes first."""
        if self._slots is None or session.parent_id is not None:
            return nullcontext()
        return self._slot(self._slots, session.id, interrupt)

    def awaits_room(self, session_id: str) -> bool:
        return session_id in self._waiting

    @asynccontextmanager
    async def _slot(self, slots: asyncio.Semaphore, session_id: str, interrupt: Interrupt) -> AsyncIterator[None]:
        self._waiting.add(session_id)
        try:
            if await interrupt.cancellable(slots.acquire(), name="room for one more Session") is not True:
                raise Interrupted
        finally:
            self._waiting.discard(session_id)
        try:
            yield
        finally:
            slots.release()

    def _room(self) -> int | None:
        if self.draining:
            return 0
        return None if self._most is None else max(self._most - self._ownership.executing, 0)

    async def _others(self, session: Session, before: Sequence[str]) -> list[Owner]:
        """Nodes that may execute the Session, the best first: those that say that they serve its directory, then those
        with the most room."""
        directory = session.location.directory
        found = [
            node
            for node in await self._nodes.living()
            if node.id != self._nodes.id and node.id not in before and node.room != 0 and node.may_have(directory)
        ]
        ids = [node.id for node in found]
        infinite = 1 << 30
        return sorted(
            found,
            key=lambda node: (
                node.roots is None,
                -(infinite if node.room is None else node.room),
                rank(node.id, ids, session.id),
            ),
        )


def _served(node: Owner) -> str:
    if node.roots is None:
        return f"{node.name} what exists there"
    more = ", …" if len(node.roots) > SHOWN else ""
    return f"{node.name} {', '.join(node.roots[:SHOWN])}{more}"
