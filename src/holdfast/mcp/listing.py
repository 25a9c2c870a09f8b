"""Reads all pages of a list, within limits. An entry that is malformed is left out and named; the others stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.mcp.catalog import Listing, Rejected
from holdfast.mcp.errors import ProtocolError, shown
from holdfast.mcp.reading import decode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

NAME_CHARACTERS = 200


class ListLimits(msgspec.Struct, frozen=True):
    """Of one list. Where one is reached, the list ends there and says so."""

    pages: int = 500
    items: int = 20_000
    total_bytes: int = 64 * 1024 * 1024
    item_bytes: int = 1024 * 1024
    rejected: int = 100


class ListKind(msgspec.Struct, Generic[T], frozen=True):
    """`identity` is the field that tells entries apart."""

    method: str
    field: str
    entry: type[T]
    identity: str


class _Page(msgspec.Struct, rename="camel"):
    next_cursor: str | None = None
    ttl_ms: float | None = None


class _Named(msgspec.Struct):
    name: Any = None


async def read_list(
    kind: ListKind[T],
    fetch: Callable[[dict[str, Any]], Awaitable[msgspec.Raw]],
    limits: ListLimits,
    *,
    check: Callable[[T, msgspec.Raw], str | None] = lambda entry, raw: None,
) -> Listing[T]:
    """`fetch` sends one request with these parameters. `check` gives a reason to leave an entry out."""
    reader = _Reader(kind, limits, check)
    cursor: str | None = None
    seen = set[str]()
    incomplete: str | None = None
    ttl: float | None = None
    for _ in range(limits.pages):
        raw = await fetch({"cursor": cursor} if cursor is not None else {})
        incomplete = reader.add(raw)
        page = decode(raw, _Page, f"answer to {kind.method}")
        ttl = page.ttl_ms if ttl is None else ttl
        cursor = page.next_cursor
        if incomplete is not None or not cursor:
            break
        if cursor in seen:
            incomplete = "the server repeats a page"
            break
        seen.add(cursor)
    else:
        incomplete = f"there are more than {limits.pages} pages"
    ttl_ms = int(min(max(ttl, 0), 2**53)) if ttl is not None else None
    return Listing(tuple(reader.items.values()), tuple(reader.rejected), incomplete, ttl_ms)


class _Reader(Generic[T]):
    def __init__(self, kind: ListKind[T], limits: ListLimits, check: Callable[[T, msgspec.Raw], str | None]) -> None:
        self.items: dict[str, T] = {}
        self.rejected: list[Rejected] = []
        self._kind = kind
        self._limits = limits
        self._check = check
        self._left = limits.total_bytes
        self._entry = msgspec.json.Decoder(kind.entry)

    def add(self, page: msgspec.Raw) -> str | None:
        """Adds the entries of a page; returns why the list has to end here, if it has to."""
        self._left -= len(bytes(page))
        entries = decode(page, dict[str, msgspec.Raw], f"answer to {self._kind.method}").get(self._kind.field)
        if entries is None:
            raise ProtocolError(f"The MCP server's answer to {self._kind.method} has no `{self._kind.field}`")
        for raw in decode(entries, list[msgspec.Raw], f"answer to {self._kind.method}"):
            if len(self.items) >= self._limits.items:
                return f"there are more than {self._limits.items} entries"
            self._add(raw)
        return None if self._left > 0 else f"it is larger than {self._limits.total_bytes} bytes"

    def _add(self, raw: msgspec.Raw) -> None:
        if len(bytes(raw)) > self._limits.item_bytes:
            self._reject(raw, f"it is larger than {self._limits.item_bytes} bytes")
            return
        try:
            entry = self._entry.decode(raw)
        except (ValueError, RecursionError) as error:
            self._reject(raw, str(error))
            return
        identity: str = getattr(entry, self._kind.identity)
        if identity in self.items:
            self._reject(raw, "another entry before it has the same name")
        elif (reason := self._check(entry, raw)) is not None:
            self._reject(raw, reason)
        else:
            self.items[identity] = entry

    def _reject(self, raw: msgspec.Raw, reason: str) -> None:
        if len(self.rejected) >= self._limits.rejected:
            return
        try:
            name = msgspec.json.decode(raw, type=_Named).name
        except (ValueError, RecursionError):
            name = None
        self.rejected.append(Rejected(shown(name, NAME_CHARACTERS) if isinstance(name, str) else "", shown(reason)))
