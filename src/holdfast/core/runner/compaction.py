"""Compaction: older history is replaced, for the model only, by a summary and the newest messages word for word.

Invariants
- Only a complete, smaller checkpoint moves the boundary. Whatever else happens, the history stays as it was.
- A started attempt always ends durably: a checkpoint, or a failure with its reason.
- Pending input, todos and the transcript are not touched.
- Open input (promoted, and without a complete answer) is in neither summary nor recent text: it follows the checkpoint
  as the messages it is. Steps that already work on it may be summarised."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.catalog.prices import cache_savings
from holdfast.core.runner.lowering import checkpoint
from holdfast.core.runner.publish import stored_tokens
from holdfast.core.session.errors import Interrupted
from holdfast.core.session.interrupt import Stop
from holdfast.core.session.transcript import (
    FOLLOWS,
    OMITTED,
    RESULT_CHARACTERS,
    TRUNCATED,
    characters,
    join,
    select,
    serialise,
    summary_prompt,
    tokens,
)
from holdfast.llm import event as llm
from holdfast.llm.errors import LLMError
from holdfast.llm.request import Generation, make_request
from holdfast.llm.stream import stream
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import CompactionDelta, SessionCompacted
from holdfast.schema.session_event import CompactionEnded, CompactionFailed, CompactionStarted, UsageRecorded
from holdfast.schema.session_message import AssistantMessage, CompactionMessage, SystemMessage, UnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from holdfast.core.catalog.catalog import ResolvedModel
    from holdfast.core.plugin.request import RequestHooks
    from holdfast.core.runner.outbox import Outbox
    from holdfast.core.runner.services import SessionServices
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.llm.model import Model
    from holdfast.llm.request import HttpOverlay
    from holdfast.llm.route.retry import Retry
    from holdfast.llm.route.transport import Transport
    from holdfast.schema.location import Location
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session import Tokens
    from holdfast.schema.session_message import SessionMessage

AGENT = "compaction"
SUMMARY_TOKENS = 4096
PASSES = 8
SHORT_RESULT = 200
INTERRUPTED = "interrupted"

Reason = Literal["auto", "manual"]


class Summariser(Frozen):
    """With what a summary is made: the turn's own model and headers, or those of one that was chosen for it."""

    ref: ModelRef
    model: Model
    context: int
    """The window in tokens, as far as it is configured or learned; not positive means unknown."""
    output: int
    http: HttpOverlay
    options: dict[str, dict[str, Any]] | None
    price: Callable[[Tokens], float]

    @classmethod
    def of(
        cls, resolved: ResolvedModel, context: int, http: HttpOverlay, options: dict[str, dict[str, Any]] | None
    ) -> Summariser:
        return cls(resolved.ref, resolved.model, context, resolved.limit.output, http, options, resolved.price)

    @property
    def allowed(self) -> int:
        """How long the summary may be: at most a quarter of the window."""
        allowed = min(self.output or SUMMARY_TOKENS, SUMMARY_TOKENS)
        return min(allowed, max(self.context // 4, 1)) if self.context > 0 else allowed

    @property
    def room(self) -> int | None:
        """How long one prompt may be."""
        return self.context - self.allowed if self.context > 0 else None


class Plan(Frozen):
    """What would be summarised and what would be kept."""

    passes: list[list[str]]
    """The conversation to summarise: one as a rule; each further one starts from the notes so far."""
    prior: str | None
    recent: str
    before: int
    """The estimate of what the checkpoint would replace, in tokens."""


class Report(Frozen):
    compacted: bool
    reason: str | None = None


Cause = Literal["interrupted", "empty", "not smaller", "provider", "timeout", "unreachable"]


class _NoSummary(Exception):
    """An attempt that gave nothing usable."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class Compaction:
    """Of one drain."""

    def __init__(
        self,
        session_id: str,
        location: Location,
        sessions: SessionServices,
        outbox: Outbox,
        transport: Transport,
        retry: Retry,
        hooks: RequestHooks,
    ) -> None:
        self._session_id = session_id
        self._location = location
        self._log = sessions.log
        self._ids = sessions.ids
        self._clock = sessions.clock
        self._metrics = sessions.epochs.metrics
        self._outbox = outbox
        self._transport = transport
        self._retry = retry
        self._hooks = hooks

    async def attempt(
        self, plan: Plan, by: Summariser, reason: Reason, interrupt: Interrupt, instructions: str | None = None
    ) -> Report:
        """Raises Interrupted when it was cut; everything else that is known to go wrong is a report."""
        message_id = self._ids.message()
        stamp = {"session_id": self._session_id, "message_id": message_id}
        started = CompactionStarted(timestamp=self._clock.now(), reason=reason, **stamp)
        await self._outbox.commit(started)
        self._measure(plan)
        begun = time.perf_counter()
        try:
            summary = await self._summarise(plan, instructions, by, message_id, interrupt)
            if tokens(len(checkpoint(summary, plan.recent))) >= plan.before:
                raise _NoSummary("not smaller", "the summary is not smaller than what it stands for")
        except Exception as error:
            self._metrics.record("compaction.failure", 1, _cause(error))
            why = UnknownError(message=str(error) or type(error).__name__)
            await self._outbox.commit(CompactionFailed(timestamp=self._clock.now(), error=why, **stamp))
            if interrupt.requested:
                raise Interrupted from None
            if not isinstance(error, (_NoSummary, LLMError, OSError)):  # a defect: told as it is, and it travels on
                raise
            return Report(compacted=False, reason=why.message)
        finally:
            self._metrics.record("compaction.duration", time.perf_counter() - begun, reason)
        ended = CompactionEnded(timestamp=self._clock.now(), reason=reason, text=summary, recent=plan.recent, **stamp)
        await self._outbox.commit(ended, SessionCompacted(session_id=self._session_id))
        return Report(compacted=True)

    async def _summarise(
        self,
        plan: Plan,
        instructions: str | None,
        by: Summariser,
        message_id: str,
        interrupt: Interrupt,
    ) -> str:
        prior = plan.prior
        for conversation in plan.passes:
            asked = summary_prompt(conversation, prior, instructions)
            answer = await interrupt.cancellable(self._ask(asked, by, message_id), name="summary")
            if isinstance(answer, Stop):
                raise _NoSummary("interrupted", INTERRUPTED)
            if not answer.strip():
                raise _NoSummary("empty", "the model gave an empty summary")
            prior = answer.strip()
        assert prior is not None
        return prior

    async def _ask(self, asked: str, by: Summariser, message_id: str) -> str:
        request = make_request(
            prompt=asked, http=by.http, provider_options=by.options, generation=Generation(max_tokens=by.allowed)
        )
        request = await self._hooks.change(request, "summary", session_id=self._session_id, agent=AGENT, model=by.ref)
        pieces: list[str] = []
        usage: llm.Usage | None = None
        failure: str | None = None
        async with aclosing(stream(self._transport, by.model, request, retry=self._retry)) as batches:
            async for batch in batches:
                fresh = "".join(event.text for event in batch if isinstance(event, llm.TextDelta))
                if fresh:
                    pieces.append(fresh)
                    self._announce(message_id, fresh)
                for event in batch:
                    if isinstance(event, llm.ProviderError):
                        failure = event.message
                    elif isinstance(event, llm.StepFinish):
                        usage = event.usage
        self._account(usage, by)
        if usage is not None and usage.input is not None:
            self._metrics.record("compaction.prompt.estimated", tokens(len(asked)))
            self._metrics.record("compaction.prompt.reported", usage.input)
        if failure is not None:
            raise _NoSummary("provider", failure)
        return "".join(pieces)

    def _measure(self, plan: Plan) -> None:
        self._metrics.record("compaction.head.tokens", sum(tokens(len(join(items))) for items in plan.passes))
        self._metrics.record("compaction.recent.tokens", tokens(len(plan.recent)))

    def _announce(self, message_id: str, text: str) -> None:
        delta = CompactionDelta(
            timestamp=self._clock.now(), session_id=self._session_id, message_id=message_id, text=text
        )
        self._log.announce(delta, location=self._location)

    def _account(self, usage: llm.Usage | None, by: Summariser) -> None:
        if usage is not None:
            used = stored_tokens(usage)
            self._outbox.stage(
                UsageRecorded(
                    timestamp=self._clock.now(),
                    session_id=self._session_id,
                    purpose="compaction",
                    cost=by.price(used),
                    tokens=used,
                    model=by.ref,
                    saved=cache_savings(by.price, used),
                )
            )


def _cause(error: Exception) -> Cause:
    """Of what went wrong, without its words."""
    if isinstance(error, _NoSummary):
        return error.cause
    if isinstance(error, LLMError):
        return "provider"
    return "timeout" if isinstance(error, TimeoutError) else "unreachable"


def plan(
    history: Sequence[SessionMessage],
    keep_tokens: int,
    room: int | None = None,
    instructions: str | None = None,
    *,
    open_input: Collection[str] = (),
    notes_tokens: int = SUMMARY_TOKENS,
) -> Plan | None:
    """None when there is nothing that a summary could stand for. `open_input` are the ids of messages that stay as they
    are. `room` is how many tokens one prompt may have: what does not fit loses the bodies of its tool results, then is
    summarised in passes, then loses its oldest part."""
    checkpoints = [item for item in history if isinstance(item, CompactionMessage)]
    prior = checkpoints[-1] if checkpoints else None
    entries = _entries(history, open_input)
    selection = select([entry.recent for entry in entries], keep_tokens)
    older = entries[: len(selection.head)]
    replaced = [entry.message for entry in entries if not entry.stays]
    folded = [prior.recent] if prior is not None and prior.recent else []
    if prior is None and not any(entry.is_conversation for entry in older):
        return None
    if not replaced and not (open_input and folded):
        return None
    before = tokens(sum(map(characters, replaced)) + (len(checkpoint(prior.summary, prior.recent)) if prior else 0))
    notes = prior.summary if prior is not None else None
    head = [*folded, *(entry.summarised() for entry in older)]
    if room is not None and _size(head, notes, instructions) > room:
        head = [*folded, *(entry.summarised(SHORT_RESULT) for entry in older)]
    passes = [head]
    if room is not None and _size(head, notes, instructions) > room:
        passes = _passes(head, room, instructions, notes_tokens)
    return Plan(passes, notes, join(selection.recent), before)


class _Entry(Frozen):
    """A message that is summarised or kept as text, or an open input whose steps are."""

    message: SessionMessage
    stays: bool

    @property
    def recent(self) -> str:
        return FOLLOWS if self.stays else serialise(self.message)

    @property
    def is_conversation(self) -> bool:
        return not self.stays and not isinstance(self.message, SystemMessage)

    def summarised(self, result_characters: int = RESULT_CHARACTERS) -> str:
        if not self.stays:
            return serialise(self.message, result_characters=result_characters)
        text = serialise(self.message)
        return text if len(text) <= RESULT_CHARACTERS else f"{text[:RESULT_CHARACTERS]}\n{TRUNCATED}"


def _entries(history: Sequence[SessionMessage], open_input: Collection[str]) -> list[_Entry]:
    """Open input that no step works on yet is left out: it comes after all of this."""
    steps = [index for index, item in enumerate(history) if isinstance(item, AssistantMessage) and serialise(item)]
    worked_on = steps[-1] if steps else -1
    return [
        _Entry(item, item.id in open_input)
        for index, item in enumerate(history)
        if not isinstance(item, CompactionMessage)
        and serialise(item)
        and (item.id not in open_input or index < worked_on)
    ]


def _passes(conversation: Sequence[str], room: int, instructions: str | None, notes_tokens: int) -> list[list[str]]:
    spare = max(room - _size([], "", instructions) - notes_tokens, 256)  # each carries the notes of the one before
    passes: list[list[str]] = []
    size = spare
    for piece in (piece for item in conversation for piece in _split(item, spare)):
        needed = tokens(len(piece) + 2)
        if size + needed > spare:
            passes.append([])
            size = 0
        passes[-1].append(piece)
        size += needed
    if len(passes) > PASSES:
        passes = passes[-PASSES:]
        passes[0] = [OMITTED, *passes[0][1:]]
    return passes


def _size(conversation: Sequence[str], prior: str | None, instructions: str | None) -> int:
    return tokens(len(summary_prompt(conversation, prior, instructions)))


def _split(item: str, room: int) -> list[str]:
    span = 4 * (room - 8)
    return [item[start : start + span] for start in range(0, len(item), span)]
