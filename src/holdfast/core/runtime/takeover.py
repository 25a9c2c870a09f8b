"""A process goes on with what others leave: it watches the processes on the database, and recovers what one that ended
left open. Nodes come first, then hosts inside other programs.

Invariants
- The cost is one read for each look, however many Sessions there are.
- Several nodes notice the same end. For each Session they have an order, and each lets those before it begin; the lease
  decides, so that nothing is done twice.
- The row of a dead process is removed last, so that a node which dies meanwhile hides nothing from the others."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.core.background_tasks import BackgroundTasks
from holdfast.core.database.errors import StorageError
from holdfast.core.observe.log_context import fields
from holdfast.core.session.nodes import rank

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.core.observe.counters import Counters
    from holdfast.core.runtime.recovery import Recovery
    from holdfast.core.session.node_secrets import NodeSecrets
    from holdfast.core.session.nodes import NodeInfo, Nodes
    from holdfast.core.session.ownership import Ownership
    from holdfast.schema.location import Location

LOOK_SECONDS = 0.5
STAGGER_SECONDS = 0.3
"""How long a node waits for each of those that come before it."""

log = logging.getLogger(__name__)


class Takeover:
    """One per process. It does nothing before `start` or `follow`."""

    def __init__(
        self,
        nodes: Nodes,
        ownership: Ownership,
        recovery: Recovery,
        counters: Counters,
        secrets: NodeSecrets | None = None,
    ) -> None:
        """`secrets` are kept up to date, for requests of other nodes."""
        self._counters = counters
        self._secrets = secrets
        self._nodes = nodes
        self._ownership = ownership
        self._recovery = recovery
        self._known: set[str] = set()
        """Processes that lived at the last look."""
        self._settled: set[str] = set()
        """Processes that were found dead or stopped, and are taken care of."""
        self._opened: Callable[[], Collection[Location]] | None = None
        self._looked_at: frozenset[Location] = frozenset()
        """Locations that were open at the last look."""
        self._watching: asyncio.Task[None] | None = None
        self._working = BackgroundTasks()

    async def start(self, about: NodeInfo, *, recover: bool = True) -> None:
        """Announce this node, and go on with what was left before; then watch. Without `recover` nothing is taken
        over, and only what other nodes ask for is done."""
        if self._secrets is not None:
            await self._secrets.refresh()
        await self._nodes.announce(about)
        if recover:
            dead = await self._gone()
            await self._recovery.start()
            await self._remove(dead)
        work = self._watch(recover=recover)
        self._watching = asyncio.get_running_loop().create_task(work, name="holdfast-takeover")

    async def follow(self, opened: Callable[[], Collection[Location]]) -> None:
        """As `start` for a process that is no node: it takes over what no node does, and executes nothing for others.
        `opened` are the Locations in use; what was left at one is looked at when it opens."""
        self._opened, self._looked_at = opened, frozenset(opened())
        dead = await self._gone()
        await self._recovery.start()
        await self._remove(dead)
        self._watching = asyncio.get_running_loop().create_task(self._watch(recover=True), name="holdfast-takeover")

    async def stop(self) -> None:
        """Take nothing over any more. Others see that there is no room."""
        await self._cancel()
        await self._nodes.report()

    async def close(self) -> None:
        await self._cancel()
        await self._nodes.close()

    async def _cancel(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
            self._watching = None
        await self._working.close()

    async def _watch(self, *, recover: bool) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if recover and (gone := await self._gone()):
                    self._begin(gone)
                await self._look_at_opened()
                if not self._nodes.announced:
                    continue
                self._ownership.look()
                if self._secrets is not None:
                    await self._secrets.refresh()
            except StorageError as error:
                log.debug("looking for other nodes: %s", error)
            except Exception:
                log.exception("looking for other nodes")

    async def _look_at_opened(self) -> None:
        if self._opened is None or (now := frozenset(self._opened())) == self._looked_at:
            return
        is_new, self._looked_at = bool(now - self._looked_at), now
        if is_new:
            await self._recovery.take_over((), lambda session_id: True, first=False)

    async def _gone(self) -> set[str]:
        """Processes that ended since the last look, or stopped."""
        owners = await self._nodes.all()
        rows = {owner.id for owner in owners}
        living = {owner.id for owner in owners if self._nodes.lives(owner)}
        gone = (self._known | rows) - living - self._settled
        self._settled = (self._settled | gone) & rows - living
        self._known = living
        return gone

    def _begin(self, gone: set[str]) -> None:
        self._counters.takeovers.add(len(gone))
        log.info("processes ended, looking through what they left", extra=fields(processes=sorted(gone)))
        self._working.start(self._take_over(gone), "holdfast-recovery")

    async def _take_over(self, gone: set[str]) -> None:
        try:
            leased = await self._ownership.leased_to(gone)
            nodes = [owner.id for owner in await self._nodes.living()]
            turns = range(len(nodes)) if self._nodes.announced else (len(nodes),)
            for turn in turns:
                if turn:
                    await asyncio.sleep(STAGGER_SECONDS if self._nodes.announced else STAGGER_SECONDS * turn)

                def mine(session_id: str, turn: int = turn) -> bool:
                    return not self._nodes.announced or rank(self._nodes.id, nodes, session_id) == turn

                await self._recovery.take_over(leased, mine, first=turn == turns[0])
            await self._remove(gone)
        except StorageError as error:
            log.warning("what %s left was not looked through: %s", ", ".join(sorted(gone)), error)
            self._settled -= gone
            self._known |= gone

    async def _remove(self, gone: set[str]) -> None:
        """Looked at again: a process that had only lost its connection for a moment stays."""
        dead = [owner.id for owner in await self._nodes.all() if owner.id in gone and self._nodes.ended(owner)]
        await self._nodes.remove(dead)
