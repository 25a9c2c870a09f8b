"""For what a Session waits, since when, and what ends it: read from what is recorded, so that a client which connects
later, or to another process, sees the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.codec import decode_any
from holdfast.schema.insight import WaitInfo

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.session.ownership import Ownership


class Waits:
    def __init__(self, database: Database, ownership: Ownership) -> None:
        self._database = database
        self._ownership = ownership

    async def of(self, session_id: str) -> list[WaitInfo]:
        key = {"session_id": session_id}
        rows = await self._database.fetch("wait.turn", key)
        waits = [_turn(*row) for row in rows]
        waits += [_tool(*row) for row in await self._database.fetch("wait.tools", key)]
        waits += [_request(*row) for row in await self._database.fetch("wait.requests", key)]
        waits += [
            WaitInfo(
                kind="compaction", since=_int(row[0]), what="a summary of older history", ends="the summary is complete"
            )
            for row in await self._database.fetch("wait.compaction", key)
        ]
        if waits and (held := await self._ownership.elsewhere(session_id)) is not None:
            owner = WaitInfo(
                kind="owner",
                since=min(wait.since for wait in waits),
                what=f"process {held.owner_id} executes this Session",
                ends="it finishes, is interrupted, or dies",
                id=held.owner_id,
            )
            waits.append(owner)
        return waits


def _turn(dispatched: object, message_id: object, model: object) -> WaitInfo:
    ref = decode_any(str(model))
    name = f"{ref.get('providerID')}/{ref.get('id')}"
    if message_id is None:
        what, ends = f"the first byte from {name}", "the provider answers, a time limit, or an interruption"
    else:
        what, ends = f"{name} to finish its answer", "the answer ends, a time limit, or an interruption"
    return WaitInfo(kind="provider", since=_int(dispatched), what=what, ends=ends)


def _tool(key: object, name: object, since: object) -> WaitInfo:
    return WaitInfo(
        kind="tool",
        since=_int(since),
        what=f"tool {name}",
        ends="it returns, its own time limit, or an interruption",
        id=str(key),
    )


def _request(id: object, kind: object, since: object, data: object) -> WaitInfo:
    asked = decode_any(str(data))
    if kind == "permission":
        what = f"permission: {asked.get('action')} {', '.join(asked.get('resources', []))[:200]}"
        return WaitInfo(kind="permission", since=_int(since), what=what, ends="a person replies", id=str(id))
    questions = asked.get("questions") or [{}]
    return WaitInfo(
        kind="question",
        since=_int(since),
        what=f"an answer: {questions[0].get('question', '')[:200]}",
        ends="a person answers or dismisses it",
        id=str(id),
    )


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
