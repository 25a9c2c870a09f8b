"""How a request fills the context window of its model. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from holdfast.core.runner.budget import Window as Room
from holdfast.core.runner.budget import total_input
from holdfast.core.session.transcript import tokens
from holdfast.schema.frozen import Frozen
from holdfast.schema.ledger import Window, WindowPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.schema.ledger import LedgerEntry, RequestBytes
    from holdfast.schema.turn_event import LearnedLimit

Name = TypeVar("Name", bound=str)
PartName = Literal["agent", "tools", "baseline", "checkpoint", "messages"]


class ModelRoom(Frozen):
    """What a Location says of a model: its limits in tokens, and how much compaction keeps free; 0 is unknown."""

    context: int = 0
    output: int = 0
    buffer: int = 0
    compacts: bool = True


def window_of(
    entry: LedgerEntry,
    before: LedgerEntry | None,
    room: ModelRoom,
    learned: LearnedLimit | None,
    checkpoint_bytes: int,
) -> Window:
    """`before` is the request before it, if there is one."""
    assert entry.model is not None
    known = Room(room.context, room.output, room.buffer, learned)
    limit = known.known if known.known > 0 else None
    counted = total_input(entry.tokens) if entry.tokens is not None else 0
    used = counted or _estimate(entry.bytes, before)
    return Window(
        seq=entry.seq,
        turn=entry.turn or 0,
        model=entry.model,
        limit=limit,
        reserve=limit - known.room if room.compacts and limit is not None and known.room is not None else None,
        used=used,
        estimated=not counted,
        parts=_parts(entry.bytes, used, checkpoint_bytes) if entry.bytes is not None else (),
    )


def _estimate(size: RequestBytes | None, before: LedgerEntry | None) -> int:
    """What was counted for the request before, and four bytes for each token that came since."""
    if size is None:
        return 0
    counted = total_input(before.tokens) if before is not None and before.tokens is not None else 0
    if before is not None and before.bytes is not None and counted and size.same and size.total >= before.bytes.total:
        return counted + tokens(size.total - before.bytes.total)
    return tokens(size.total)


def _parts(size: RequestBytes, used: int, checkpoint_bytes: int) -> tuple[WindowPart, ...]:
    conversation = max(0, size.total - size.system - size.tools)
    checkpoint = min(checkpoint_bytes, conversation)
    sizes: dict[PartName, int] = {
        "agent": max(0, size.system - size.baseline),
        "tools": size.tools,
        "baseline": size.baseline,
        "checkpoint": checkpoint,
        "messages": conversation - checkpoint,
    }
    shares = shared_out(used, sizes)
    return tuple(WindowPart(name=name, tokens=shares[name], bytes=part) for name, part in sizes.items() if part)


def shared_out(whole: int, sizes: Mapping[Name, int]) -> dict[Name, int]:
    """Divide a number in proportion to sizes, so that the parts add up to it. Nothing is given where all are 0."""
    total = sum(sizes.values())
    if not total:
        return dict.fromkeys(sizes, 0)
    parts: dict[Name, int] = {}
    reached = given = 0
    for name, size in sizes.items():
        reached += size
        parts[name] = whole * reached // total - given
        given += parts[name]
    return parts
