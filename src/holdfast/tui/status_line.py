"""The status line: what the Session does, with what, and what it has used. The most important things stay when the
terminal is narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Fragments = list[tuple[str, str]]
SPINNER = "|/-\\"
NARROW = 60


class Budget(NamedTuple):
    used: float
    limit: float


class StatusView(NamedTuple):
    """What the line shows, as it is known at the moment."""

    connection: str = ""
    """Empty while connected; otherwise what is wrong, such as `reconnecting`."""
    connection_since: float | None = None
    """Seconds, on the clock of `now`."""
    state: str = "idle"
    wait: str = ""
    """What it waits for."""
    wait_since: float | None = None
    model: str = ""
    agent: str = ""
    context_used: int | None = None
    context_limit: int | None = None
    cache: float | None = None
    """The part of the newest request that came from the provider's cache."""
    turn_cost: float | None = None
    tree_cost: float | None = None
    sessions: int = 1
    budget: Budget | None = None
    requests: int = 0
    untrusted: int = 0
    """Settings of the project that have no effect without trust."""


class _Part(NamedTuple):
    rank: int
    """Parts with a high rank are left out first."""
    style: str
    text: str


def status_fragments(view: StatusView, width: int, now: float) -> Fragments:
    """One line of at most `width` columns. Its texts are ASCII apart from names, which are cut."""
    parts = _parts(view, now, narrow=width < NARROW)
    while len(parts) > 1 and _length(parts) > width:
        parts.remove(max(parts, key=lambda part: part.rank))
    line: Fragments = []
    room = width
    for number, part in enumerate(parts):
        text = part.text if not number else f"  {part.text}"
        line.append((part.style, text[:room]))
        room -= len(text)
        if room <= 0:
            break
    return line


def _length(parts: Sequence[_Part]) -> int:
    return sum(len(part.text) for part in parts) + 2 * (len(parts) - 1)


def _parts(view: StatusView, now: float, *, narrow: bool) -> list[_Part]:
    parts = [_state(view, now)]
    if view.requests:
        what = "request" if view.requests == 1 else "requests"
        parts.append(_Part(1, "class:status.warn", f"{view.requests} {what}: Ctrl-G"))
    if view.untrusted:
        parts.append(_Part(7, "class:status.warn", f"{view.untrusted} settings untrusted"))
    if view.model:
        name = view.model.rpartition("/")[2] if narrow else view.model
        parts.append(_Part(2, "class:status.key", name))
    if view.agent:
        parts.append(_Part(4, "class:status", view.agent))
    if view.context_used is not None:
        parts.append(_Part(3, "class:status", _context(view)))
    if view.cache is not None:
        parts.append(_Part(8, "class:status", f"cache {view.cache:.0%}"))
    if view.turn_cost is not None and view.turn_cost > 0:
        parts.append(_Part(9, "class:status", f"turn {money(view.turn_cost)}"))
    if view.tree_cost is not None and view.tree_cost > 0:
        of = f" ({view.sessions} sessions)" if view.sessions > 1 and not narrow else ""
        parts.append(_Part(5, "class:status", f"{money(view.tree_cost)}{of}"))
    if view.budget is not None:
        style = "class:status.warn" if view.budget.used >= view.budget.limit else "class:status"
        parts.append(_Part(6, style, f"budget {money(view.budget.used)}/{money(view.budget.limit)}"))
    return parts


def _state(view: StatusView, now: float) -> _Part:
    if view.connection:
        since = "" if view.connection_since is None else f" {elapsed(now - view.connection_since)}"
        return _Part(0, "class:status.error", f"{view.connection}{since}")
    since = "" if view.wait_since is None else f" {elapsed(now - view.wait_since)}"
    if view.state == "running":
        turning = SPINNER[int(now * 4) % len(SPINNER)]
        return _Part(0, "class:accent", f"{turning} {view.wait or 'working'}{since}")
    if view.state in ("waiting", "blocked", "unfinished", "pending"):
        return _Part(0, "class:status.warn", f"{view.wait or view.state}{since}")
    return _Part(0, "class:status", view.state or "idle")


def _context(view: StatusView) -> str:
    assert view.context_used is not None
    if view.context_limit:
        return f"context {view.context_used / view.context_limit:.0%}"
    return f"context {tokens(view.context_used)}"


def tokens(count: int) -> str:
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 100_000 else f"{count // 1_000}k"


def money(dollars: float) -> str:
    if dollars == 0:
        return "$0"
    return f"${dollars:.4f}" if dollars < 0.1 else f"${dollars:.2f}"


def elapsed(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
