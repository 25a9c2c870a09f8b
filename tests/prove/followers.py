"""Clients that follow events and go from node to node, each in one of three ways, and what each of them may see.

- A Session by sequence: exactly its events, whatever happens to the nodes.
- A tree by cursor: the same for each of its Sessions; after a hop, events may come again.
- The global stream, which has no cursor: within one connection, no event of a Session is left out or doubled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import quote

from holdfast.core.event.tree_tail import STORED_TYPES

Json = dict[str, Any]
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 4.0


async def frames(port: int, path: str, hop: asyncio.Event) -> AsyncIterator[Json]:
    """The events of a stream, until `hop` is set, the connection ends or nothing comes for a while."""
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            async with asyncio.timeout(CONNECT_SECONDS):
                status = await reader.readline()
            assert b" 4" not in status[:12], (path, status)
            while not hop.is_set():
                async with asyncio.timeout(SILENCE_SECONDS):
                    line = await reader.readline()
                if not line:
                    return
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            writer.transport.abort()


class Stored:
    """The sequences that are stored of each Session."""

    def __init__(self, events: Iterable[tuple[str, int, str]]) -> None:
        """Session, sequence and type of each event, in the order of the sequences."""
        self.followed: dict[str, list[int]] = {}
        """Of those events that followers of one Session see."""
        self.announced: dict[str, list[int]] = {}
        """Of those that followers of trees and of everything see: also the record of the Session."""
        for id, seq, type in events:
            if type in STORED_TYPES:
                self.announced.setdefault(id, []).append(seq)
                if type.startswith("session.next."):
                    self.followed.setdefault(id, []).append(seq)


class Seen:
    """The durable events of one connection, by Session, in their order."""

    def __init__(self) -> None:
        self.events: dict[str, list[int]] = {}

    def take(self, event: Json) -> None:
        if durable := event.get("durable"):
            self.events.setdefault(durable["aggregateID"], []).append(durable["seq"])


class Follower:
    """Goes on from node to node until `over`."""

    kind = ""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.connections: list[tuple[str, Seen]] = []
        """Which node, and what it told."""

    async def follow(self, node_name: str, port: int, hop: asyncio.Event) -> None:
        seen = Seen()
        self.connections.append((node_name, seen))
        async with aclosing(frames(port, self.path(), hop)) as events:  # type: ignore[type-var]
            async for event in events:
                self.note(event)
                seen.take(event)

    def path(self) -> str:
        raise NotImplementedError

    def note(self, event: Json) -> None:
        """Remember where to go on."""

    def problems(self, stored: Stored) -> list[str]:
        """What is wrong with what was seen, given the sequences that are stored."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        return sum(len(places) for _, seen in self.connections for places in seen.events.values())


class BySequence(Follower):
    kind = "sequence"

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self._after: int | None = None

    def path(self) -> str:
        return f"/api/session/{self.session_id}/event" + (f"?after={self._after}" if self._after is not None else "")

    def note(self, event: Json) -> None:
        if durable := event.get("durable"):
            self._after = durable["seq"]

    def problems(self, stored: Stored) -> list[str]:
        told = [(name, place) for name, seen in self.connections for place in seen.events.get(self.session_id, ())]
        return _differences(self, self.session_id, told, stored.followed[self.session_id])


class ByTree(Follower):
    kind = "tree"

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self._cursor: str | None = None

    def path(self) -> str:
        after = f"?after={quote(self._cursor)}" if self._cursor is not None else ""
        return f"/api/session/{self.session_id}/tree/events{after}"

    def note(self, event: Json) -> None:
        if cursor := event.get("cursor"):
            self._cursor = cursor

    def problems(self, stored: Stored) -> list[str]:
        """Events that come again after a hop are left out of the comparison; within a connection none may."""
        found: list[str] = []
        told: dict[str, list[tuple[str, int]]] = {}
        for name, seen in self.connections:
            for id, places in seen.events.items():
                if sorted(set(places)) != places:
                    found.append(f"the tree of {self.session_id} from {name}: {id} is not in order: {places}")
                known = told.setdefault(id, [])
                reached = known[-1][1] if known else -1
                known += [(name, place) for place in places if place > reached]
        for id, places_told in told.items():
            found += _differences(self, id, places_told, stored.announced.get(id, []))
        return found


class Globally(Follower):
    kind = "global"

    def path(self) -> str:
        return "/api/event"

    def problems(self, stored: Stored) -> list[str]:
        found: list[str] = []
        for name, seen in self.connections:
            for id, places in seen.events.items():
                rest = [place for place in stored.announced.get(id, []) if place >= places[0]]
                found += _differences(self, id, [(name, place) for place in places], rest)
        return found


def _differences(follower: Follower, id: str, told: list[tuple[str, int]], stored: list[int]) -> list[str]:
    places = [place for _, place in told]
    if places == stored[: len(places)]:
        return []
    at = next(n for n, place in enumerate(places) if stored[n : n + 1] != [place])
    return [
        f"the follower by {follower.kind} of {follower.session_id} saw of {id}, at place {at}, "
        f"{told[max(at - 2, 0) : at + 3]}; stored is {stored[max(at - 2, 0) : at + 3]}"
    ]


def followers(session_ids: list[str], count: int) -> list[Follower]:
    """Of all kinds; half of them follow by sequence."""
    kinds = (BySequence, ByTree, BySequence, Globally)
    return [kinds[number % len(kinds)](session_ids[number // len(kinds) % len(session_ids)]) for number in range(count)]
