"""The requests that a Session sent to models: what each held, cost and took from the provider's cache."""

from typing import Literal

from holdfast.schema.ids import MessageIDField
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record
from holdfast.schema.session import Tokens


class RequestBytes(Record):
    """The size of a request in bytes, as it was encoded."""

    total: int
    same: int
    """How many bytes at its start the previous request of the Session had too."""
    system: int
    """Of `total`: the text of the agent and the baseline."""
    tools: int
    """Of `total`: the definitions of tools."""
    baseline: int = 0
    """Of `system`: the baseline."""


LedgerPurpose = Literal["turn", "compaction", "title", "generate", "sampling"]
LedgerStatus = Literal["open", "ended", "failed", "abandoned"]
"""`open`: no end is recorded. `abandoned`: the request leads to no answer."""


class LedgerEntry(Record):
    """One request. What its provider did not report, or an earlier version did not record, is absent."""

    seq: int
    """Of the dispatch; of a request that is no turn, of its usage."""
    turn: int | None = None
    """The number of the turn in the Session, from 1. Several attempts at one turn have the same number."""
    purpose: LedgerPurpose
    status: LedgerStatus
    time: int
    """When it was dispatched, in milliseconds since the epoch."""
    first: int | None = None
    """When the answer began."""
    ended: int | None = None
    agent: str | None = None
    model: ModelRef | None = None
    attempts: int = 1
    """How often it was sent, with those that the provider refused or did not answer."""
    message_id: MessageIDField | None = None
    """The answer."""
    finish: str | None = None
    error: str | None = None
    bytes: RequestBytes | None = None
    tokens: Tokens | None = None
    cost: float | None = None
    causes: tuple[str, ...] = ()
    """Why it did not begin with the bytes of the request before it."""
    plugins: tuple[str, ...] = ()
    """The plugins, where a hook is a cause."""
    extra: float | None = None
    """What was paid for tokens that the provider could have had in its cache, by the model's prices. Absent if no price
    is known."""


class WindowPart(Record):
    name: Literal["agent", "tools", "baseline", "checkpoint", "messages"]
    tokens: int
    bytes: int | None = None


class Window(Record):
    """How one request fills the context window of its model. Tokens of parts are estimated from their bytes, so that
    they add up to what the provider counted, or to the estimate if it has not answered."""

    seq: int
    """Of the dispatch."""
    turn: int
    model: ModelRef
    limit: int | None = None
    """Tokens that the model takes, if known."""
    reserve: int | None = None
    """Tokens that are kept for the answer: compaction begins before them."""
    used: int
    estimated: bool
    """Whether `used` is an estimate, because the provider has not counted yet."""
    parts: tuple[WindowPart, ...]
