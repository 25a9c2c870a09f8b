"""Which node executes a Session: this one, if it serves the Session's Location and has room; else another that does. A
Location is served by its directory, and by its label if it has one (`core/session/roots.py`).

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
from holdfast.core.session.nodes import rank
from holdfast.core.session.roots import label_at, label_of, labelled, serve
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
        message = f"No running node serves {_shown(location)}.{served}{more}"
        super().__init__(f"{message} A node that does begins with it when it starts.", service="node")


class ServedElsewhere(ServiceUnavailable):
    """Only a node that serves the directory can do this."""

    def __init__(self, location: Location, label: str | None = None) -> None:
        """`label`: which one the directory has here."""
        here = "" if label is None else f"; here its label is {label}"
        super().__init__(f"This node does not serve {_shown(location)}{here}. Ask a node that does.", service="node")


class Placement:
    def __init__(
        self,
        nodes: Nodes,
        ownership: Ownership,
        *,
        shared: bool = False,
        keeps: Callable[[str], bool] = lambda directory: False,
        configured: Sequence[str] = (),
    ) -> None:
        """`shared`: other machines use the database too, so that directories need not exist here. `keeps` tells
        whether this machine made a directory itself, as a copy for a Session, even if it is not there any more.
        `configured`: the roots of this machine, for a process that is not limited to roots; their labels count."""
        self.own: Callable[[Location], bool] | None = None
        """The Locations where this process recovers, if not everywhere."""
        self._nodes = nodes
        self._ownership = ownership
        self._shared = shared
        self._keeps = keeps
        self._roots: tuple[str, ...] | None = None
        self._configured = tuple(configured)
        self._most: int | None = None
        self._slots: asyncio.Semaphore | None = None
        self._asked: OrderedDict[str, tuple[float, tuple[str, ...]]] = OrderedDict()
        """Until when it is remembered which nodes were asked before this one, by Session."""
        self._waiting: set[str] = set()
        self.draining = False
        """Whether this process executes nothing new."""
        nodes.room = self._room

    def limit(self, *, roots: Sequence[str] | None = None, most: int | None = None) -> None:
        """Execute Sessions below these roots only, and at most so many at once."""
        self._roots = None if roots is None else tuple(roots)
        self._most = most
        self._slots = None if most is None else asyncio.Semaphore(most)

    def serves(self, location: Location) -> bool:
        directory = location.directory
        if self._roots is not None:
            found = serve(self._roots, location)
        elif self._shared and label_of(location) is not None:
            found = serve(self._configured, location)
        else:
            found = not self._shared or os.path.isdir(directory)
        return found or self._keeps(directory)

    def recovers(self, location: Location) -> bool:
        """Whether this process decides about what others left there."""
        own = self.own is None or self.own(location) or self._keeps(location.directory)
        return own and self.serves(location)

    def located(self, location: Location) -> Location:
        """The Location with the label that its directory has here. Raises ServedElsewhere if it names another."""
        here = self._label_at(location.directory)
        found = labelled(location, self._label_roots)
        if (here is not None or label_of(found) is not None) and not self.serves(found):
            raise ServedElsewhere(found, here)
        return found

    def has_other_files(self, location: Location) -> bool:
        """Whether the Location has a label, and its path here is not known to have it."""
        return label_of(location) is not None and not self.serves(location)

    def check_files(self, location: Location) -> None:
        """Raise ServedElsewhere if the files of the Location are not those with its path here."""
        if self.has_other_files(location):
            raise ServedElsewhere(location, self._label_at(location.directory))

    async def missing(self, location: Location) -> NoNodeServes | None:
        """The error of a directory that no running node can have. A node that announces no directories may have it."""
        if not self.restricted or self.serves(location):
            return None
        nodes = await self._nodes.living()
        may = any(self._may_serve(node, location) for node in nodes if node.id != self._nodes.id)
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
        before = before if until > time.monotonic() else ()
        others = await self._others(session, before, full=not serves)
        if others:
            await self._ownership.ask_node(others[0].id, session.id, " ".join((TAKE, *before, self._nodes.id)))
            # Remembered for the case that it does not answer: then another is asked.
            self.asked(" ".join((TAKE, *before, others[0].id)), session.id)
            return True
        if not serves and not await self._is_announced(session.location):
            raise NoNodeServes(session.location, await self._nodes.living())
        return self.draining or not serves  # without room there, it waits in its turn

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

    async def _is_announced(self, location: Location) -> bool:
        """Whether another node says that it serves the Location."""
        return any(node.roots is not None and node.may_serve(location) for node in await self._nodes.others())

    async def _others(self, session: Session, before: Sequence[str], *, full: bool) -> list[Owner]:
        """Nodes that may execute the Session, the best first: those that say that they serve its directory, then those
        with the most room. `full`: also those without room."""
        found = [
            node
            for node in await self._nodes.living()
            if node.id not in (self._nodes.id, *before)
            and (full or node.room != 0)
            and self._may_serve(node, session.location)
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

    def _may_serve(self, node: Owner, location: Location) -> bool:
        """On one machine a path is the same for all processes, and one without roots executes everything."""
        return node.may_serve(location) or (node.roots is None and not self._shared)

    @property
    def _label_roots(self) -> tuple[str, ...]:
        return self._configured if self._roots is None else self._roots

    def _label_at(self, directory: str) -> str | None:
        return label_at(directory, self._label_roots)


def _shown(location: Location) -> str:
    label = label_of(location)
    return location.directory if label is None else f"{location.directory} with the label {label}"


def _served(node: Owner) -> str:
    if node.roots is None:
        return f"{node.name} what exists there"
    more = ", …" if len(node.roots) > SHOWN else ""
    return f"{node.name} {', '.join(node.roots[:SHOWN])}{more}"
