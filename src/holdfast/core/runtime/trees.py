"""The tree of a Session as people see it: what each Session does, waits for and has used. The number of queries does
not depend on the number of Sessions."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from holdfast.core.session.errors import SessionNotFound
from holdfast.core.session.stored_trees import totals
from holdfast.schema.tree import SessionTree, TreeNode

if TYPE_CHECKING:
    from holdfast.core.runtime.states import SessionStates
    from holdfast.core.session.stored_trees import StoredTrees, UsageRow


class Trees:
    def __init__(self, stored: StoredTrees, states: SessionStates) -> None:
        self._stored = stored
        self._states = states

    async def of(self, session_id: str, *, limit: int) -> SessionTree:
        """The Session with its descendants, at most `limit` of them. Raises SessionNotFound."""
        usage = await self._stored.usage(session_id)
        if not usage:
            raise SessionNotFound(session_id)
        shown = usage[:limit]
        ids = [row.id for row in shown]
        states = await self._states.of(ids)
        tasks = await self._stored.tasks(ids)
        sums = totals(usage)
        nodes = [
            TreeNode(
                id=row.id,
                parent_id=row.parent_id,
                depth=row.depth,
                title=node.title,
                agent=node.agent,
                model=node.model,
                state=states.state(row.id),
                status=states.status(row.id),
                outcome=states.outcome(row.id),
                waits=states.waits(row.id),
                task=tasks.get(row.id) if row.parent_id is not None else None,
                cost=row.cost,
                tokens=row.tokens,
                total=sums[row.id],
                time=node.time,
            )
            for row in _each_before_its_children(shown)
            if (node := states.rows.get(row.id)) is not None
        ]
        ancestors = await self._stored.ancestors(session_id) if usage[0].parent_id is not None else ()
        return SessionTree(ancestors=tuple(ancestors), nodes=tuple(nodes), count=len(usage))


def _each_before_its_children(rows: list[UsageRow]) -> list[UsageRow]:
    """In the order in which a tree is drawn."""
    below: dict[str, list[UsageRow]] = defaultdict(list)
    for row in rows[1:]:
        below[row.parent_id or ""].append(row)
    ordered, rest = [], rows[:1]
    while rest:
        row = rest.pop()
        ordered.append(row)
        rest.extend(reversed(below.get(row.id, ())))
    return ordered
