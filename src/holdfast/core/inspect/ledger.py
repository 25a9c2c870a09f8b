"""The requests of a Session from its events, and what a broken prefix cost. Pure functions.

`extra` is an estimate. A request that does not begin with the bytes of the one before it could have read from the
cache what the provider had counted for that one, but not more than it holds itself. After a compaction the
conversation is another one: only the beginning that both requests share counts. What was not read although it could
have been is charged as cache writes, as far as there are any, and else as input; `extra` is the difference to the price
of reading it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.catalog.prices import cost
from holdfast.core.runner.budget import total_input
from holdfast.schema.ledger import LedgerEntry
from holdfast.schema.session import NO_TOKENS, CacheTokens
from holdfast.schema.session_event import Retried, StepEnded, StepFailed, StepStarted, UsageRecorded
from holdfast.schema.turn_event import TurnAbandoned, TurnAnswered, TurnDispatched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.schema.catalog import ModelCost
    from holdfast.schema.model import ModelRef
    from holdfast.schema.record import Record

KINDS: tuple[type[Record], ...] = (
    TurnDispatched,
    TurnAnswered,
    TurnAbandoned,
    StepStarted,
    StepEnded,
    StepFailed,
    Retried,
    UsageRecorded,
)
"""The payloads that the ledger is made from."""


def ledger_entries(events: Iterable[tuple[int, Record]], turns: Mapping[int, int]) -> list[LedgerEntry]:
    """Entries in the order of their sequences. `turns` has the numbers of dispatches."""
    entries: dict[int, LedgerEntry] = {}
    now: LedgerEntry | None = None
    for seq, event in events:
        if isinstance(event, UsageRecorded):
            entries[seq] = _own_call(seq, event)
            continue
        if isinstance(event, TurnDispatched):
            if now is not None and now.status == "open":
                entries[now.seq] = replace(now, status="abandoned", ended=event.timestamp)
            now = _dispatched(seq, event, turns.get(seq)) if event.attempt else None
        elif now is not None:
            now = _followed(now, event)
        if now is not None:
            entries[now.seq] = now
    return list(entries.values())


def with_extra(
    entries: Sequence[LedgerEntry], prices: Callable[[ModelRef], Sequence[ModelCost]]
) -> tuple[LedgerEntry, ...]:
    """The same entries with what breaks of the prefix cost. The first one has none to be compared with."""
    priced: list[LedgerEntry] = []
    before: LedgerEntry | None = None
    for entry in entries:
        priced.append(entry)
        if entry.purpose != "turn":
            continue
        if before is not None and entry.causes and entry.model is not None:
            priced[-1] = replace(entry, extra=_extra(before, entry, prices(entry.model)))
        before = entry
    return tuple(priced)


def unread_tokens(before: LedgerEntry, entry: LedgerEntry) -> int | None:
    """How many tokens the provider could have read from its cache and did not; None if that cannot be told."""
    counted = total_input(entry.tokens) if entry.tokens is not None else 0
    if entry.tokens is None or not counted:
        return None
    if "compaction" in entry.causes:
        if entry.bytes is None or not entry.bytes.total:
            return None
        known = counted * entry.bytes.same // entry.bytes.total
    elif before.tokens is not None and (sent := total_input(before.tokens)):
        known = min(sent, counted)
    elif before.bytes is not None and entry.bytes is not None and entry.bytes.total:
        known = counted * min(before.bytes.total, entry.bytes.total) // entry.bytes.total
    else:
        return None
    return max(0, known - entry.tokens.cache.read)


def _extra(before: LedgerEntry, entry: LedgerEntry, prices: Sequence[ModelCost]) -> float | None:
    unread = unread_tokens(before, entry)
    if unread is None or entry.tokens is None or not any(price.cache.read > 0 for price in prices):
        return None
    counted, written = total_input(entry.tokens), min(unread, entry.tokens.cache.write)
    paid = replace(NO_TOKENS, input=unread - written, cache=CacheTokens(read=0, write=written))
    read = replace(NO_TOKENS, cache=CacheTokens(read=unread, write=0))
    return max(0.0, cost(prices, paid, counted) - cost(prices, read, counted))


def _dispatched(seq: int, event: TurnDispatched, turn: int | None) -> LedgerEntry:
    return LedgerEntry(
        seq=seq,
        turn=turn,
        purpose="turn",
        status="open",
        time=event.timestamp,
        agent=event.agent,
        model=event.model,
        bytes=event.bytes,
        causes=event.broke or (),
        plugins=event.broke_by or (),
    )


def _followed(now: LedgerEntry, event: Record) -> LedgerEntry:
    """The entry of a dispatch after an event that follows it."""
    if now.status != "open":
        return now
    match event:
        case StepStarted():
            return replace(now, first=event.timestamp, message_id=event.assistant_message_id)
        case Retried():
            return replace(now, attempts=now.attempts + 1)
        case TurnAnswered():
            return replace(now, cost=event.cost, tokens=event.tokens)
        case StepEnded():
            ended = replace(now, status="ended", ended=event.timestamp, finish=event.finish, error=event.rejected)
            return replace(ended, cost=event.cost, tokens=event.tokens)
        case StepFailed():
            failed = replace(now, status="failed", ended=event.timestamp, error=event.error.message)
            answered = event.tokens is not None
            return replace(failed, cost=event.cost, tokens=event.tokens) if answered else failed
        case TurnAbandoned():
            return replace(now, status="abandoned", ended=event.timestamp, error=event.reason)
        case _:
            return now


def _own_call(seq: int, event: UsageRecorded) -> LedgerEntry:
    """A call that the runtime made for itself. When it began is not recorded."""
    return LedgerEntry(
        seq=seq,
        purpose=event.purpose,
        status="ended",
        time=event.timestamp,
        ended=event.timestamp,
        model=event.model,
        tokens=event.tokens,
        cost=event.cost,
    )
