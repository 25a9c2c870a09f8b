"""The payloads of durable events about requests to a model, and about what kept or broke their common prefix."""

from typing import Literal

from holdfast.schema.ledger import RequestBytes
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record
from holdfast.schema.session import Tokens
from holdfast.schema.session_event import SessionPayload

PrefixBreak = Literal[
    "new epoch",
    "compaction",
    "agent switch",
    "model switch",
    "tool change",
    "last step",
    "pruning",
    "revert",
    "hook",
    "configuration",
    "media refused",
    "output format",
]


class LearnedLimit(Record):
    """A model's context limit, learned from a provider's refusal."""

    tokens: int
    stated: bool
    """Whether the provider stated the number; otherwise it is the estimated size of the refused request."""
    time: int


class ConversationPrint(Record):
    """A fingerprint of a conversation that plugins changed."""

    messages: int
    digest: str


class TurnDispatched(SessionPayload):
    """Written before the provider is called: from then on the request may have been sent."""

    agent: str
    model: ModelRef
    attempt: int
    """0 if nothing is sent, because a person asked for the calls of the step."""
    baseline_seq: int
    checkpoint_seq: int
    pruned_seq: int
    tools: str
    """This and the next two are fingerprints of the request without its conversation."""
    system: str
    controls: str
    last_step: bool
    media_refused: bool | None = None
    """Whether media are replaced by notes because the provider refused them."""
    learned: LearnedLimit | None = None
    """What was learned about the model's context limit."""
    format: str | None = None
    """Fingerprint of how the request asks for a structured answer."""
    hooks: tuple[str, ...] | None = None
    """The plugins that changed the request."""
    conversation: ConversationPrint | None = None
    """Of the conversation, if plugins changed it."""
    broke: tuple[PrefixBreak, ...] | None = None
    """Why the request does not start with the bytes of the previous one, if so."""
    broke_by: tuple[str, ...] | None = None
    """The plugins, where a hook is the cause."""
    bytes: RequestBytes | None = None
    """The size of the request, without cache markers in its conversation. Absent if nothing is sent."""
    kept: int | None = None
    """With how many of these bytes the next request begins too, unless something breaks that."""


class TurnAnswered(SessionPayload):
    """The answer of a turn is complete and calls of it still run. Written so that what it used is known, whichever
    process ends the step."""

    cost: float
    tokens: Tokens


class RecoveryDecided(SessionPayload):
    """The decision about work that an ended process left. `continue` asks the model again, `abandon` closes the work,
    `person` leaves it to a person, and `wait` leaves it to the answer to a request."""

    decision: Literal["continue", "abandon", "person", "wait"]
    by: Literal["policy", "person", "prompt", "answer", "wake"]
    """Who decided: the setting `holdfast.recovery`; a person, or a program that asked for a run; a new prompt; the
    answer to a request; or pending input, where nothing was sent."""
    stage: str
    """As the stage of unfinished work."""
    attempt: int
    """How often in a row processes have continued this work, this time included."""
    calls: tuple[str, ...]
    """The ids of the calls whose outcome is unknown."""
    cost_unknown: bool
    """Whether an answer was cut off, so that nobody knows what it cost."""
    policy: str | None = None
    """The setting, if it decided."""


class TurnAbandoned(SessionPayload):
    """A dispatched turn that will not be finished and has no step."""

    reason: str
